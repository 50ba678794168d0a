import { sql, type Selectable, type Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Json } from '../model/json.ts';
import { jobTransitions, type JobState, type JobStats } from '../model/job.ts';
import { RESUME_NOTE, type ResumeJob, type ResumeNote } from '../model/outbox.ts';
import { writeNews, type JobNews } from './job-history.ts';
import type { Carrier, JobOutcome, JobWatch, JobWork, QueuedJob } from './job-work.ts';
import type { Records } from './records.ts';

const BY_ITSELF: Carrier = { owner: null, enqueue: async () => {}, enqueued: () => {} };

/**
 * The way of a job from the queue to its end, and back. Whoever works on it does so under the epoch of his claim: a
 * worker that lost it changes nothing.
 */
export class JobLife {
  readonly #database: Database<Records>;
  readonly #now: () => number;
  #carrier = BY_ITSELF;

  constructor(database: Database<Records>, now: () => number) {
    this.#database = database;
    this.#now = now;
  }

  carryBy(carrier: Carrier): void {
    this.#carrier = carrier;
  }

  get ownerInQueue(): string | null {
    return this.#carrier.owner;
  }

  /** One transaction makes a job wait for a worker, and tells the carrier. */
  async toQueue(
    job: QueuedJob,
    write: (transaction: Transaction<Records>) => Promise<unknown>,
  ): Promise<boolean> {
    const written = await this.#database.query.transaction().execute(async (transaction) => {
      if ((await write(transaction)) === false) return false;
      await this.#carrier.enqueue(transaction, job);
      return true;
    });
    if (written) this.#carrier.enqueued(job);
    return written;
  }

  /**
   * Takes a job and raises its epoch, so that whoever had it before is refused from now on. null: it is over, or its
   * time has not come. A carrier that brings a job that runs says with this that its worker is gone.
   */
  async claim(jobId: string, owner: string): Promise<JobWork | null> {
    const now = this.#now();
    const row = await this.#database.query
      .updateTable('job')
      .set((set) => ({
        state: 'running' satisfies JobState,
        epoch: set('epoch', '+', 1),
        owner,
        wake_at: null,
        started_at: sql<number>`coalesce(started_at, ${now})`,
      }))
      .where('job_id', '=', jobId)
      .where('state', 'in', ['queued', 'running', 'waiting'])
      .where(({ or, eb }) => or([eb('wake_at', 'is', null), eb('wake_at', '<=', now)]))
      .returningAll()
      .executeTakeFirst();
    if (!row) return null;
    return {
      jobId: row.job_id,
      appId: row.app_id,
      opName: row.op_name,
      opParams: JSON.parse(row.op_params) as unknown,
      epoch: row.epoch,
      priority: row.priority,
      exclusiveKey: row.exclusive_key,
      policy: JSON.parse(row.policy) as JobWork['policy'],
      retries: row.retries,
      startedAt: row.started_at ?? now,
      stats: JSON.parse(row.stats) as JobStats,
      progress: JSON.parse(row.progress) as Record<string, Json>,
      pageCount: row.page_count,
      rerunOf: row.rerun_of,
    };
  }

  /** false: the job is another worker's now. */
  async note(jobId: string, epoch: number, news: JobNews): Promise<boolean> {
    return this.#database.query
      .transaction()
      .execute((transaction) => writeNews(transaction, jobId, epoch, news));
  }

  async noteProgress(jobId: string, epoch: number, progress: Record<string, Json>): Promise<boolean> {
    const { numUpdatedRows } = await this.#database.query
      .updateTable('job')
      .set({ progress: JSON.stringify(progress) })
      .where('job_id', '=', jobId)
      .where('epoch', '=', epoch)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async end(
    jobId: string,
    epoch: number,
    { state, output, error, keepMs }: JobOutcome,
    news: JobNews,
  ): Promise<boolean> {
    const now = this.#now();
    return this.#under(jobId, epoch, news, (transaction) =>
      transaction
        .updateTable('job')
        .set({
          state,
          owner: null,
          output: output === null ? null : JSON.stringify(output),
          error: error && JSON.stringify(error),
          ended_at: now,
          clean_up_at: now + keepMs,
        })
        .where('job_id', '=', jobId)
        .execute(),
    );
  }

  /** Gives the job out of hand: it is to go on at a time, or, handed back, as soon as may be. */
  async giveBack(
    { jobId, appId, epoch, priority, exclusiveKey }: JobWork,
    { at, isRetry }: { at: number | null; isRetry: boolean },
    news: JobNews,
  ): Promise<boolean> {
    const state: JobState = at === null ? 'queued' : 'waiting';
    const queued = { jobId, appId, priority, exclusiveKey, at };
    const isOurs = await this.#under(jobId, epoch, news, async (transaction) => {
      await transaction
        .updateTable('job')
        .set((set) => ({
          state,
          owner: this.#carrier.owner,
          wake_at: at,
          ...(isRetry && { retries: set('retries', '+', 1) }),
        }))
        .where('job_id', '=', jobId)
        .execute();
      await this.#carrier.enqueue(transaction, queued);
    });
    if (isOurs) this.#carrier.enqueued(queued);
    return isOurs;
  }

  /** A failed or cancelled job goes on. `resume`: what was said to that. Otherwise: why it cannot. */
  async requeue(jobId: string, resume: ResumeJob = {}): Promise<string | null> {
    const row = await this.#row(jobId);
    const why = whyNotResumed(row);
    if (!row || why !== null) return why;
    const { app_id: appId, priority, exclusive_key: exclusiveKey } = row;
    const note: ResumeNote = { ...resume, at: this.#now() };
    const progress = { ...(JSON.parse(row.progress) as Record<string, Json>), [RESUME_NOTE]: note };
    const job = { jobId, appId, priority, exclusiveKey, at: null };
    const isResumed = await this.toQueue(job, async (transaction) => {
      const { numUpdatedRows } = await transaction
        .updateTable('job')
        .set((set) => ({
          state: 'queued' satisfies JobState,
          epoch: set('epoch', '+', 1),
          owner: this.#carrier.owner,
          ended_at: null,
          started_at: null,
          clean_up_at: null,
          cancel_requested_at: null,
          abort_requested_at: null,
          wake_at: null,
          retries: 0,
          error: null,
          progress: JSON.stringify(progress),
        }))
        .where('job_id', '=', jobId)
        .where('state', '=', row.state)
        .executeTakeFirst();
      if (numUpdatedRows === 0n) return false;
      await this.#event(transaction, jobId, { state: 'queued' });
      return true;
    });
    return isResumed ? null : 'somebody else has just resumed it';
  }

  /** What does not run is cancelled at once; a job that runs is asked to end: first after its page, then at once. */
  async requestCancel(jobId: string, keepMs: number): Promise<void> {
    const now = this.#now();
    await this.#database.query.transaction().execute(async (transaction) => {
      const { numUpdatedRows } = await transaction
        .updateTable('job')
        .set((set) => ({
          state: 'cancelled' satisfies JobState,
          epoch: set('epoch', '+', 1),
          owner: null,
          wake_at: null,
          ended_at: now,
          clean_up_at: now + keepMs,
          cancel_requested_at: now,
        }))
        .where('job_id', '=', jobId)
        .where('state', 'in', ['queued', 'waiting'])
        .executeTakeFirst();
      if (numUpdatedRows > 0n) {
        await this.#event(transaction, jobId, { state: 'cancelled' });
        return;
      }
      await transaction
        .updateTable('job')
        .set({
          abort_requested_at: sql`case when cancel_requested_at is null then null else cast(${now} as bigint) end`,
          cancel_requested_at: sql`coalesce(cancel_requested_at, ${now})`,
        })
        .where('job_id', '=', jobId)
        .where('state', '=', 'running')
        .execute();
    });
  }

  async watch(jobIds: readonly string[]): Promise<JobWatch[]> {
    if (jobIds.length === 0) return [];
    const rows = await this.#database.query
      .selectFrom('job')
      .select(['job_id', 'epoch', 'cancel_requested_at', 'abort_requested_at'])
      .where('job_id', 'in', jobIds)
      .execute();
    return rows.map((row) => ({
      jobId: row.job_id,
      epoch: row.epoch,
      isCancelled: row.cancel_requested_at !== null,
      isAborted: row.abort_requested_at !== null,
    }));
  }

  /** The jobs of others that are not over, in the order of their submission. */
  async unfinished(notOf: string): Promise<(QueuedJob & { owner: string | null })[]> {
    const rows = await this.#database.query
      .selectFrom('job')
      .select(['job_id', 'app_id', 'priority', 'exclusive_key', 'wake_at', 'owner'])
      .where('state', 'in', ['queued', 'running', 'waiting'])
      .where('owner', 'is distinct from', notOf)
      .orderBy('job_id')
      .execute();
    return rows.map((row) => ({
      jobId: row.job_id,
      appId: row.app_id,
      priority: row.priority,
      exclusiveKey: row.exclusive_key,
      at: row.wake_at,
      owner: row.owner,
    }));
  }

  /** false: the owner is another one by now. */
  async changeOwner(jobId: string, from: string | null, to: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#database.query
      .updateTable('job')
      .set({ owner: to })
      .where('job_id', '=', jobId)
      .where('owner', from === null ? 'is' : '=', from)
      .where('ended_at', 'is', null)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** Jobs that are over, and whose leftovers may go. */
  async toCleanUp(most: number): Promise<{ jobId: string; appId: string; progress: Record<string, Json> }[]> {
    const rows = await this.#database.query
      .selectFrom('job')
      .select(['job_id', 'app_id', 'progress'])
      .where('clean_up_at', '<=', this.#now())
      .orderBy('clean_up_at')
      .limit(most)
      .execute();
    return rows.map((row) => ({
      jobId: row.job_id,
      appId: row.app_id,
      progress: JSON.parse(row.progress) as Record<string, Json>,
    }));
  }

  async cleanedUp(jobId: string): Promise<void> {
    await this.#database.query
      .updateTable('job')
      .set({ clean_up_at: null, progress: '{}' })
      .where('job_id', '=', jobId)
      .where('ended_at', 'is not', null)
      .execute();
  }

  #row(jobId: string) {
    return this.#database.query
      .selectFrom('job')
      .select(['app_id', 'priority', 'exclusive_key', 'state', 'progress', 'clean_up_at'])
      .where('job_id', '=', jobId)
      .executeTakeFirst();
  }

  /** One transaction of the worker that has the job, with its last news. */
  async #under(
    jobId: string,
    epoch: number,
    news: JobNews,
    write: (transaction: Transaction<Records>) => Promise<unknown>,
  ): Promise<boolean> {
    return this.#database.query.transaction().execute(async (transaction) => {
      if (!(await writeNews(transaction, jobId, epoch, news))) return false;
      await write(transaction);
      return true;
    });
  }

  async #event(transaction: Transaction<Records>, jobId: string, data: Record<string, Json>): Promise<void> {
    const event = { type: 'state' as const, at: new Date(this.#now()).toISOString(), data };
    await writeNews(transaction, jobId, null, { stats: null, pages: [], events: [event], bodies: [] });
  }
}

/** Under this name of its progress: the job has temporary tables, which go when it ends. */
export const TEMPORARY_NOTE = 'temporary';

function whyNotResumed(
  row: Pick<Selectable<Records['job']>, 'state' | 'progress' | 'clean_up_at'> | undefined,
): string | null {
  if (!row) return 'there is no such job';
  if (!jobTransitions[row.state as JobState].some((next) => next === 'queued'))
    return `the job is ${row.state}: only a failed or cancelled job can be resumed`;
  if (row.clean_up_at === null)
    return 'what it would go on from is no longer kept (the setting resumableHours): rerun it';
  if (TEMPORARY_NOTE in (JSON.parse(row.progress) as object))
    return 'it had temporary tables, which went when it ended: rerun it';
  return null;
}
