import { createHash } from 'node:crypto';
import type { Selectable, Transaction } from 'kysely';
import { isUniqueViolation, type Database } from '../database/database.ts';
import { isOver, jobStates, type JobError, type JobState } from '../model/job.ts';
import type { RunCause, Schedule } from '../model/schedule.ts';
import type { Records } from './records.ts';
import { admitHeld, countFailure, forgetFailures, lockSchedule, pruneRuns } from './schedule-changes.ts';

export interface DueSchedule {
  appId: string;
  schedule: Schedule;
  nextAt: number;
  /** As it was read; a claim fails when it was saved anew since. */
  body: string;
}

/** What one claim makes of the firings that are due. */
export interface Firings {
  runs: { fireAt: number; cause: Exclude<RunCause, 'manual'> }[];
  skipped: { fireAt: number; why: string }[];
  following: number | null;
}

export interface DueRun {
  appId: string;
  name: string;
  fireAt: number;
  clientId: string;
  username: string | null;
  idempotency: { key: string; hash: string };
}

/** The job of a run is over. */
export interface EndedRun {
  appId: string;
  name: string;
  fireAt: number;
  outcome: JobState | null;
  error: JobError | null;
  jobId: string;
}

const OVER = jobStates.filter(isOver);

/** The firings of schedules: claimed once among all nodes, then submitted, then watched until their job is over. */
export class ScheduleRuns {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number) {
    this.#database = database;
    this.#now = now;
  }

  async dueSchedules(limit: number): Promise<DueSchedule[]> {
    const rows = await this.#database.query
      .selectFrom('schedule')
      .select(['app_id', 'next_at', 'body'])
      .where('next_at', '<=', this.#now())
      .orderBy('next_at')
      .limit(limit)
      .execute();
    return rows.map(({ app_id, next_at, body }) => ({
      appId: app_id,
      schedule: JSON.parse(body) as Schedule,
      nextAt: next_at as number,
      body,
    }));
  }

  /** When the next schedule fires; null: none will. */
  async nextAt(): Promise<number | null> {
    const row = await this.#database.query
      .selectFrom('schedule')
      .select('next_at')
      .where('next_at', 'is not', null)
      .orderBy('next_at')
      .limit(1)
      .executeTakeFirst();
    return row?.next_at ?? null;
  }

  /**
   * Takes the firings for this node, unless another one has. One transaction moves the time on and writes the runs
   * down: after a crash there are both or neither.
   */
  async claim({ appId, schedule, nextAt, body }: DueSchedule, firings: Firings): Promise<boolean> {
    const { name } = schedule;
    return this.#database.query.transaction().execute(async (transaction) => {
      const claimed = await transaction
        .updateTable('schedule')
        .set({ next_at: firings.following })
        .where('app_id', '=', appId)
        .where('name', '=', name)
        .where('next_at', '=', nextAt)
        .where('body', '=', body)
        .returning(['client_id', 'username'])
        .executeTakeFirst();
      if (!claimed) return false;
      const row = (fireAt: number) => ({ app_id: appId, name, fire_at: fireAt, ...claimed });
      await transaction
        .insertInto('schedule_run')
        .values([
          ...firings.skipped.map(({ fireAt, why }) => ({
            ...row(fireAt),
            cause: 'time',
            state: 'skipped',
            why,
          })),
          ...firings.runs.map(({ fireAt, cause }) => ({ ...row(fireAt), cause, state: 'held', why: null })),
        ])
        // A run by hand may stand for the very same millisecond.
        .onConflict((conflict) => conflict.columns(['app_id', 'name', 'fire_at']).doNothing())
        .execute();
      await admitHeld(transaction, { appId, name, overlap: schedule.overlap });
      await pruneRuns(transaction, appId, name);
      return true;
    });
  }

  /** Lets go what waited behind a run that is over. Gives how many runs wait still. */
  async admitHeld(): Promise<number> {
    const held = await this.#database.query
      .selectFrom('schedule_run')
      .select(['app_id', 'name'])
      .where('state', '=', 'held')
      .distinct()
      .execute();
    let waiting = 0;
    for (const { app_id: appId, name } of held) {
      const left = await this.#database.query.transaction().execute(async (transaction) => {
        const row = await lockSchedule(this.#database, transaction, appId, name);
        if (!row) return 0;
        const { overlap } = JSON.parse(row.body) as Schedule;
        return admitHeld(transaction, { appId, name, overlap });
      });
      waiting += left;
    }
    return waiting;
  }

  /** A run by hand, to be submitted by the caller. Null: there is no such schedule. */
  async addManual(
    appId: string,
    name: string,
    by: { clientId: string; username: string | null },
  ): Promise<DueRun | null> {
    for (let fireAt = this.#now(); ; fireAt += 1) {
      const row = {
        app_id: appId,
        name,
        fire_at: fireAt,
        client_id: by.clientId,
        username: by.username,
        cause: 'manual',
        state: 'due',
      };
      try {
        const added = await this.#database.query.transaction().execute(async (transaction) => {
          if (!(await lockSchedule(this.#database, transaction, appId, name))) return false;
          await transaction.insertInto('schedule_run').values(row).execute();
          return true;
        });
        return added ? asDueRun(row) : null;
      } catch (error) {
        // Another firing stands for this millisecond.
        if (!isUniqueViolation(error)) throw error;
      }
    }
  }

  async due(limit: number): Promise<DueRun[]> {
    const rows = await this.#database.query
      .selectFrom('schedule_run')
      .selectAll()
      .where('state', '=', 'due')
      .orderBy('fire_at')
      .limit(limit)
      .execute();
    return rows.map(asDueRun);
  }

  /** The job that was submitted for the run by somebody who then crashed, however long ago. */
  async jobOf({ clientId, idempotency: { key, hash } }: DueRun): Promise<string | null> {
    const row = await this.#database.query
      .selectFrom('job')
      .select('job_id')
      .where('client_id', '=', clientId)
      .where('idempotency_key', '=', key)
      .where('idempotency_hash', '=', hash)
      .executeTakeFirst();
    return row?.job_id ?? null;
  }

  async noteSubmitted(run: DueRun, jobId: string): Promise<void> {
    await this.#leave(this.#database.query, run, 'due', { state: 'submitted', job_id: jobId });
  }

  /** What it runs cannot work. */
  async noteRefused(run: DueRun, why: string, counts: 'failure' | 'no failure'): Promise<void> {
    await this.#database.query.transaction().execute(async (transaction) => {
      const schedule = await lockSchedule(this.#database, transaction, run.appId, run.name);
      const left = await this.#leave(transaction, run, 'due', { state: 'refused', why });
      if (schedule && left && counts === 'failure') await countFailure(transaction, schedule, why);
    });
  }

  async ended(limit: number): Promise<EndedRun[]> {
    const rows = await this.#database.query
      .selectFrom('schedule_run as run')
      .leftJoin('job', 'job.job_id', 'run.job_id')
      .select(['run.app_id', 'run.name', 'run.fire_at', 'run.job_id', 'job.state', 'job.error'])
      .where('run.state', '=', 'submitted')
      .where((where) => where.or([where('job.state', 'in', OVER), where('job.job_id', 'is', null)]))
      .orderBy('run.fire_at')
      .limit(limit)
      .execute();
    return rows.map((row) => ({
      appId: row.app_id,
      name: row.name,
      fireAt: row.fire_at,
      jobId: row.job_id as string,
      outcome: row.state as JobState | null,
      error: row.error === null ? null : (JSON.parse(row.error) as JobError),
    }));
  }

  async noteEnded(run: EndedRun): Promise<void> {
    const { appId, name, outcome, error, jobId } = run;
    await this.#database.query.transaction().execute(async (transaction) => {
      const schedule = await lockSchedule(this.#database, transaction, appId, name);
      const left = await this.#leave(transaction, run, 'submitted', { state: 'over', outcome });
      if (!schedule || !left) return;
      if (outcome === 'succeeded') await forgetFailures(transaction, schedule);
      if (outcome === 'failed') {
        const why = error ? `${error.code}: ${error.message}` : 'no error is known';
        await countFailure(transaction, schedule, `job ${jobId}: ${why}`);
      }
    });
  }

  /** Whether it was still in that state, so that of several nodes one goes on. */
  async #leave(
    query: Transaction<Records> | Database<Records>['query'],
    { appId, name, fireAt }: Pick<DueRun, 'appId' | 'name' | 'fireAt'>,
    state: 'due' | 'submitted',
    change: Partial<Selectable<Records['schedule_run']>>,
  ): Promise<boolean> {
    const { numUpdatedRows } = await query
      .updateTable('schedule_run')
      .set(change)
      .where('app_id', '=', appId)
      .where('name', '=', name)
      .where('fire_at', '=', fireAt)
      .where('state', '=', state)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }
}

function asDueRun(row: {
  app_id: string;
  name: string;
  fire_at: number;
  client_id: string;
  username: string | null;
}): DueRun {
  const key = `schedule:${row.app_id}/${row.name}:${new Date(row.fire_at).toISOString()}`;
  return {
    appId: row.app_id,
    name: row.name,
    fireAt: row.fire_at,
    clientId: row.client_id,
    username: row.username,
    idempotency: { key, hash: createHash('sha256').update(key).digest('hex') },
  };
}
