import { isDeepStrictEqual } from 'node:util';
import type { Selectable, Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import { firingsAfter } from '../model/cron.ts';
import type { Schedule, ScheduleRun, ShownSchedule } from '../model/schedule.ts';
import type { Change, KeysetAsk } from './definitions.ts';
import type { Records } from './records.ts';
import { lockSchedule, skipHeld } from './schedule-changes.ts';
import { ScheduleHistory } from './schedule-history.ts';
import { ScheduleRuns } from './schedule-runs.ts';

/** In whose name the jobs run. */
export interface Saver {
  clientId: string;
  username: string | null;
}

type ScheduleRow = Selectable<Records['schedule']>;

/** The schedules as people define and read them. */
export class Schedules {
  readonly runs: ScheduleRuns;
  readonly history: ScheduleHistory;
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
    this.runs = new ScheduleRuns(database, now);
    this.history = new ScheduleHistory(database);
  }

  /** Where the times stay the same, a change takes nothing away from a firing that is due. */
  async put(appId: string, schedule: Schedule, { clientId, username }: Saver): Promise<Change> {
    const { paused, ...body } = schedule;
    const text = JSON.stringify(body);
    return this.#database.query.transaction().execute(async (transaction) => {
      const existing = await lockSchedule(this.#database, transaction, appId, schedule.name);
      const before = existing && (JSON.parse(existing.body) as Schedule);
      const isPaused = paused ?? (existing ? existing.paused_because !== null : false);
      const pauseChanges = existing !== undefined && isPaused !== (existing.paused_because !== null);
      if (isDeepStrictEqual(before, JSON.parse(text)) && !pauseChanges) return 'unchanged';
      const sameTimes = before?.cron === schedule.cron && before.timezone === schedule.timezone;
      const next = sameTimes && !pauseChanges ? (existing?.next_at ?? null) : this.#next(schedule);
      const changed = {
        body: text,
        client_id: clientId,
        username,
        next_at: isPaused ? null : next,
        paused_because: isPaused ? (existing?.paused_because ?? BY_PERSON) : null,
        failures: pauseChanges && !isPaused ? 0 : (existing?.failures ?? 0),
        changed_at: this.#now(),
      };
      await transaction
        .insertInto('schedule')
        .values({ app_id: appId, name: schedule.name, ...changed })
        .onConflict((conflict) => conflict.columns(['app_id', 'name']).doUpdateSet(changed))
        .execute();
      if (isPaused) await skipHeld(transaction, appId, schedule.name);
      return existing ? 'changed' : 'created';
    });
  }

  /** As it was saved; `paused` as it is now. */
  async get(appId: string, name: string): Promise<Schedule | null> {
    const row = await this.#row(appId, name);
    return row ? asSchedule(row) : null;
  }

  async list(appId: string, ask: KeysetAsk): Promise<Schedule[]> {
    return (await this.#rows(appId, ask)).map(asSchedule);
  }

  async show(appId: string, name: string): Promise<ShownSchedule | null> {
    const row = await this.#row(appId, name);
    if (!row) return null;
    return asShown(row, await this.history.last(appId, [name]));
  }

  async showAll(appId: string, ask: KeysetAsk): Promise<ShownSchedule[]> {
    const rows = await this.#rows(appId, ask);
    const last = await this.history.last(
      appId,
      rows.map(({ name }) => name),
    );
    return rows.map((row) => asShown(row, last));
  }

  /** Its jobs stay. */
  async delete(appId: string, name: string): Promise<boolean> {
    const { numDeletedRows } = await this.#database.query
      .deleteFrom('schedule')
      .where('app_id', '=', appId)
      .where('name', '=', name)
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }

  /** Whether there is such a schedule. One that paused by itself keeps its reason. */
  pause(appId: string, name: string): Promise<boolean> {
    return this.#change(appId, name, async (transaction, { paused_because }) => {
      await skipHeld(transaction, appId, name);
      return { next_at: null, paused_because: paused_because ?? BY_PERSON };
    });
  }

  /** From the next time on; what passed during the pause is not missed. */
  resume(appId: string, name: string): Promise<boolean> {
    return this.#change(appId, name, async (_transaction, row) =>
      row.paused_because === null
        ? {}
        : { next_at: this.#next(asSchedule(row)), paused_because: null, failures: 0 },
    );
  }

  async #change(
    appId: string,
    name: string,
    change: (transaction: Transaction<Records>, row: ScheduleRow) => Promise<Partial<ScheduleRow>>,
  ): Promise<boolean> {
    return this.#database.query.transaction().execute(async (transaction) => {
      const row = await lockSchedule(this.#database, transaction, appId, name);
      if (!row) return false;
      await transaction
        .updateTable('schedule')
        .set({ ...(await change(transaction, row)), changed_at: this.#now() })
        .where('app_id', '=', appId)
        .where('name', '=', name)
        .execute();
      return true;
    });
  }

  #next({ cron, timezone }: Schedule): number | null {
    return firingsAfter(cron, timezone, this.#now(), 1)[0] ?? null;
  }

  #row(appId: string, name: string): Promise<ScheduleRow | undefined> {
    return this.#database.query
      .selectFrom('schedule')
      .selectAll()
      .where('app_id', '=', appId)
      .where('name', '=', name)
      .executeTakeFirst();
  }

  #rows(appId: string, { after = '', limit }: KeysetAsk): Promise<ScheduleRow[]> {
    return this.#database.query
      .selectFrom('schedule')
      .selectAll()
      .where('app_id', '=', appId)
      .where('name', '>', after)
      .orderBy('name')
      .limit(limit)
      .execute();
  }
}

const BY_PERSON = 'it was paused by hand';

function asSchedule({ body, paused_because }: ScheduleRow): Schedule {
  return { ...(JSON.parse(body) as Schedule), ...(paused_because !== null && { paused: true }) };
}

function asShown(row: ScheduleRow, last: ReadonlyMap<string, ScheduleRun>): ShownSchedule {
  const run = last.get(row.name);
  return {
    ...asSchedule(row),
    paused: row.paused_because !== null,
    pausedBecause: row.paused_because,
    nextAt: row.next_at === null ? null : new Date(row.next_at).toISOString(),
    lastRun: run ? { at: run.at, jobId: run.jobId, state: run.state } : null,
    failuresInARow: row.failures,
    savedBy: { clientId: row.client_id, username: row.username },
  };
}
