import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import { isUniqueViolation, type Database } from '../database/database.ts';
import type { Json } from '../model/json.ts';
import {
  isOver,
  noStats,
  type Job,
  type JobError,
  type JobEvent,
  type JobPage,
  type JobState,
  type JobStats,
} from '../model/job.ts';
import type { KeysetAsk } from './definitions.ts';
import type { Records } from './records.ts';

export interface NewJob {
  appId: string;
  clientId: string;
  username: string | null;
  opName: string;
  opParams: unknown;
  idempotency: { key: string; hash: string } | null;
}

export interface JobWork {
  jobId: string;
  appId: string;
  opName: string;
  opParams: unknown;
  epoch: number;
}

export interface JobOutcome {
  state: 'succeeded' | 'failed' | 'cancelled';
  output: Json | null;
  error: JobError | null;
  stats: JobStats;
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

/** The jobs, with their pages and events. */
export class Jobs {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
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
    try {
      await this.#database.query
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
          created_at: now,
          stats: JSON.stringify(noStats),
          idempotency_key: job.idempotency?.key ?? null,
          idempotency_hash: job.idempotency?.hash ?? null,
        })
        .execute();
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

  /** Takes a queued job; null: somebody else has, or it is over. */
  async claim(jobId: string): Promise<JobWork | null> {
    const row = await this.#database.query
      .updateTable('job')
      .set((set) => ({ state: 'running', epoch: set('epoch', '+', 1), started_at: this.#now() }))
      .where('job_id', '=', jobId)
      .where('state', '=', 'queued')
      .returning(['job_id', 'app_id', 'op_name', 'op_params', 'epoch'])
      .executeTakeFirst();
    if (!row) return null;
    return {
      jobId: row.job_id,
      appId: row.app_id,
      opName: row.op_name,
      opParams: JSON.parse(row.op_params) as unknown,
      epoch: row.epoch,
    };
  }

  async noteStats(jobId: string, stats: JobStats): Promise<void> {
    await this.#database.query
      .updateTable('job')
      .set({ stats: JSON.stringify(stats) })
      .where('job_id', '=', jobId)
      .execute();
  }

  /** Under the epoch of the claim, so that a worker that lost the job changes nothing. */
  async end(jobId: string, epoch: number, { state, output, error, stats }: JobOutcome): Promise<boolean> {
    const { numUpdatedRows } = await this.#database.query
      .updateTable('job')
      .set({
        state,
        output: output === null ? null : JSON.stringify(output),
        error: error && JSON.stringify(error),
        stats: JSON.stringify(stats),
        ended_at: this.#now(),
      })
      .where('job_id', '=', jobId)
      .where('epoch', '=', epoch)
      .where('ended_at', 'is', null)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** The process that ran it is gone. */
  async interrupt(jobId: string, error: JobError): Promise<void> {
    await this.#database.query
      .updateTable('job')
      .set((set) => ({
        state: 'failed',
        epoch: set('epoch', '+', 1),
        error: JSON.stringify(error),
        ended_at: this.#now(),
      }))
      .where('job_id', '=', jobId)
      .where('ended_at', 'is', null)
      .execute();
  }

  /** The state it is in then: a queued job is cancelled at once. */
  async requestCancel(jobId: string): Promise<JobState | null> {
    const now = this.#now();
    await this.#database.query
      .updateTable('job')
      .set({ state: 'cancelled', ended_at: now, cancel_requested_at: now })
      .where('job_id', '=', jobId)
      .where('state', '=', 'queued')
      .execute();
    await this.#database.query
      .updateTable('job')
      .set({ cancel_requested_at: now })
      .where('job_id', '=', jobId)
      .where('ended_at', 'is', null)
      .execute();
    return (await this.get(jobId))?.state ?? null;
  }

  async inState(state: JobState): Promise<string[]> {
    const rows = await this.#database.query
      .selectFrom('job')
      .select('job_id')
      .where('state', '=', state)
      .orderBy('job_id')
      .execute();
    return rows.map(({ job_id }) => job_id);
  }

  async addPages(jobId: string, pages: readonly JobPage[]): Promise<void> {
    if (pages.length === 0) return;
    const rows = pages.map((page) => ({
      job_id: jobId,
      n: page.n,
      record: JSON.stringify(page),
      body: null,
    }));
    await this.#database.query.insertInto('job_page').values(rows).execute();
  }

  async keepBody(jobId: string, n: number, body: Uint8Array): Promise<void> {
    await this.#database.query
      .updateTable('job_page')
      .set({ body })
      .where('job_id', '=', jobId)
      .where('n', '=', n)
      .execute();
  }

  async pages(jobId: string, { after = 0, limit }: { after?: number; limit: number }): Promise<JobPage[]> {
    const rows = await this.#database.query
      .selectFrom('job_page')
      .select(['record', (select) => select('body', 'is not', null).as('has_body')])
      .where('job_id', '=', jobId)
      .where('n', '>', after)
      .orderBy('n')
      .limit(limit)
      .execute();
    return rows.map(({ record, has_body }) => ({
      ...(JSON.parse(record) as JobPage),
      hasBody: Boolean(has_body),
    }));
  }

  async pageBody(jobId: string, n: number): Promise<Uint8Array | null> {
    const row = await this.#database.query
      .selectFrom('job_page')
      .select('body')
      .where('job_id', '=', jobId)
      .where('n', '=', n)
      .executeTakeFirst();
    return row?.body ?? null;
  }

  async addEvents(jobId: string, events: readonly JobEvent[]): Promise<void> {
    if (events.length === 0) return;
    const rows = events.map(({ n, type, at, data }) => ({
      job_id: jobId,
      n,
      type,
      at: Date.parse(at),
      data: JSON.stringify(data),
    }));
    await this.#database.query.insertInto('job_event').values(rows).execute();
  }

  async events(jobId: string, { after = 0, limit }: { after?: number; limit: number }): Promise<JobEvent[]> {
    const rows = await this.#database.query
      .selectFrom('job_event')
      .select(['n', 'type', 'at', 'data'])
      .where('job_id', '=', jobId)
      .where('n', '>', after)
      .orderBy('n')
      .limit(limit)
      .execute();
    return rows.map(({ n, type, at, data }) => ({
      n,
      type: type as JobEvent['type'],
      at: new Date(at).toISOString(),
      data: JSON.parse(data) as JobEvent['data'],
    }));
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
    submittedBy: { clientId: row.client_id, username: row.username },
    stats: JSON.parse(row.stats) as JobStats,
    output: parsed(row.output) as Json | null,
    error: parsed(row.error) as JobError | null,
  };
}
