import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import { isUniqueViolation, type Database } from '../database/database.ts';
import type { Json } from '../model/json.ts';
import {
  isOver,
  noStats,
  type Job,
  type JobError,
  type JobPolicy,
  type JobState,
  type JobStats,
} from '../model/job.ts';
import type { KeysetAsk } from './definitions.ts';
import { JobHistory } from './job-history.ts';
import { JobLife } from './job-life.ts';
import type { JobWork } from './job-work.ts';
import type { Records } from './records.ts';

export interface NewJob {
  appId: string;
  clientId: string;
  username: string | null;
  opName: string;
  opParams: unknown;
  policy: Omit<JobPolicy, 'exclusive'> & { exclusiveKey: string | null };
  idempotency: { key: string; hash: string } | null;
  rerunOf?: string;
}

export interface JobFilter extends KeysetAsk {
  appId?: string | undefined;
  state?: JobState | undefined;
  /** The applications that the caller may see; null: all. */
  only: readonly string[] | null;
}

/** The same key came with another body. */
export class IdempotencyConflict extends Error {
  override readonly name = 'IdempotencyConflict';
}

const IDEMPOTENCY_MS = 24 * 3600 * 1000;

/** The jobs: the one truth about them, whatever carries them to their workers. */
export class Jobs {
  /** What becomes of a job once it is there. */
  readonly life: JobLife;
  readonly history: JobHistory;
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
    this.life = new JobLife(database, now);
    this.history = new JobHistory(database);
  }

  /** With an idempotency key that was there before, the job of then. `prepare` comes before the job exists. */
  async submit(
    job: NewJob,
    prepare: (jobId: string) => Promise<void> = async () => {},
  ): Promise<{ jobId: string; isNew: boolean }> {
    const known = job.idempotency && (await this.#byIdempotency(job.clientId, job.idempotency));
    if (known) return { jobId: known, isNew: false };
    const now = this.#now();
    const jobId = `${now.toString(36).padStart(9, '0')}${randomBytes(8).toString('hex')}`;
    await prepare(jobId);
    const { priority, exclusiveKey, ...policy } = job.policy;
    try {
      await this.life.toQueue({ jobId, appId: job.appId, priority, exclusiveKey, at: null }, (transaction) =>
        transaction
          .insertInto('job')
          .values({
            job_id: jobId,
            app_id: job.appId,
            client_id: job.clientId,
            username: job.username,
            op_name: job.opName,
            op_params: JSON.stringify(job.opParams),
            state: 'queued' satisfies JobState,
            epoch: 0,
            owner: this.life.ownerInQueue,
            priority,
            exclusive_key: exclusiveKey,
            policy: JSON.stringify(policy),
            retries: 0,
            progress: '{}',
            page_count: 0,
            event_count: 0,
            rerun_of: job.rerunOf ?? null,
            created_at: now,
            stats: JSON.stringify(noStats),
            idempotency_key: job.idempotency?.key ?? null,
            idempotency_hash: job.idempotency?.hash ?? null,
          })
          .execute(),
      );
    } catch (error) {
      // Another call with the same key was faster.
      const other =
        isUniqueViolation(error) &&
        job.idempotency &&
        (await this.#byIdempotency(job.clientId, job.idempotency));
      if (other) return { jobId: other, isNew: false };
      throw error;
    }
    return { jobId, isNew: true };
  }

  async get(jobId: string): Promise<Job | null> {
    const row = await this.#database.query
      .selectFrom('job')
      .selectAll()
      .where('job_id', '=', jobId)
      .executeTakeFirst();
    return row ? asJob(row) : null;
  }

  /** The newest first. */
  async list({ appId, state, only, after, limit }: JobFilter): Promise<Job[]> {
    if (only?.length === 0) return [];
    const rows = await this.#database.query
      .selectFrom('job')
      .selectAll()
      .$if(appId !== undefined, (query) => query.where('app_id', '=', appId as string))
      .$if(state !== undefined, (query) => query.where('state', '=', state as string))
      .$if(only !== null, (query) => query.where('app_id', 'in', only ?? []))
      .$if(after !== undefined, (query) => query.where('job_id', '<', after as string))
      .orderBy('job_id', 'desc')
      .limit(limit)
      .execute();
    return rows.map(asJob);
  }

  /** What it was submitted with, for a run of its own. */
  async submitted(jobId: string): Promise<NewJob | null> {
    const row = await this.#database.query
      .selectFrom('job')
      .selectAll()
      .where('job_id', '=', jobId)
      .executeTakeFirst();
    if (!row) return null;
    return {
      appId: row.app_id,
      clientId: row.client_id,
      username: row.username,
      opName: row.op_name,
      opParams: JSON.parse(row.op_params),
      policy: {
        ...(JSON.parse(row.policy) as JobWork['policy']),
        priority: row.priority,
        exclusiveKey: row.exclusive_key,
      },
      idempotency: null,
      rerunOf: row.rerun_of ?? row.job_id,
    };
  }

  async #byIdempotency(
    clientId: string,
    { key, hash }: { key: string; hash: string },
  ): Promise<string | null> {
    const row = await this.#database.query
      .selectFrom('job')
      .select(['job_id', 'idempotency_hash', 'created_at'])
      .where('client_id', '=', clientId)
      .where('idempotency_key', '=', key)
      .executeTakeFirst();
    if (!row) return null;
    if (this.#now() - row.created_at > IDEMPOTENCY_MS) {
      await this.#database.query
        .updateTable('job')
        .set({ idempotency_key: null })
        .where('job_id', '=', row.job_id)
        .execute();
      return null;
    }
    if (row.idempotency_hash === hash) return row.job_id;
    throw new IdempotencyConflict('the Idempotency-Key was used with another body');
  }
}

function asJob(row: Selectable<Records['job']>): Job {
  const time = (value: number | null) => (value === null ? null : new Date(value).toISOString());
  const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text));
  const state = row.state as JobState;
  return {
    jobId: row.job_id,
    appId: row.app_id,
    opName: row.op_name,
    state,
    createdAt: new Date(row.created_at).toISOString(),
    startedAt: time(row.started_at),
    endedAt: isOver(state) ? time(row.ended_at) : null,
    wakesAt: time(row.wake_at),
    priority: row.priority,
    rerunOf: row.rerun_of,
    submittedBy: { clientId: row.client_id, username: row.username },
    stats: JSON.parse(row.stats) as JobStats,
    output: parsed(row.output) as Json | null,
    error: parsed(row.error) as JobError | null,
  };
}
