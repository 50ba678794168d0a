import type { Database } from '../database/database.ts';
import type { JobState } from '../model/job.ts';
import type { RunCause, ScheduleRun } from '../model/schedule.ts';
import type { KeysetAsk } from './definitions.ts';
import type { Records } from './records.ts';

/** What became of the firings of schedules, to be read by people. */
export class ScheduleHistory {
  readonly #database: Database<Records>;

  constructor(database: Database<Records>) {
    this.#database = database;
  }

  /** The newest first; `after` is the time of the last one that was read. */
  async list(appId: string, name: string, { after, limit }: KeysetAsk): Promise<ScheduleRun[]> {
    const rows = await this.#shown(appId, [name])
      .$if(after !== undefined, (query) => query.where('run.fire_at', '<', Date.parse(after as string)))
      .orderBy('run.fire_at', 'desc')
      .limit(limit)
      .execute();
    return rows.map(asRun);
  }

  /** Of each schedule the last run that has or gets a job, or was refused one. */
  async last(appId: string, names: readonly string[]): Promise<Map<string, ScheduleRun>> {
    if (names.length === 0) return new Map();
    const rows = await this.#shown(appId, names)
      .where('run.fire_at', '=', (select) =>
        select
          .selectFrom('schedule_run as other')
          .whereRef('other.app_id', '=', 'run.app_id')
          .whereRef('other.name', '=', 'run.name')
          .where('other.state', 'not in', ['skipped', 'held'])
          .select(({ fn }) => fn.max('other.fire_at').as('fire_at')),
      )
      .execute();
    return new Map(rows.map((row) => [row.name, asRun(row)]));
  }

  #shown(appId: string, names: readonly string[]) {
    return this.#database.query
      .selectFrom('schedule_run as run')
      .leftJoin('job', 'job.job_id', 'run.job_id')
      .selectAll('run')
      .select('job.state as job_state')
      .where('run.app_id', '=', appId)
      .where('run.name', 'in', names);
  }
}

function asRun(row: {
  fire_at: number;
  cause: string;
  state: string;
  job_id: string | null;
  job_state: string | null;
  outcome: string | null;
  why: string | null;
}): ScheduleRun {
  const ofJob = (row.job_state ?? row.outcome ?? 'gone') as JobState | 'gone';
  return {
    at: new Date(row.fire_at).toISOString(),
    cause: row.cause as RunCause,
    state: row.job_id === null ? (row.state as ScheduleRun['state']) : ofJob,
    jobId: row.job_id,
    why: row.why,
  };
}
