import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { openPostgres } from '../../src/database/adapters/postgres.ts';
import { openSqlite } from '../../src/database/adapters/sqlite.ts';
import type { Database } from '../../src/database/database.ts';
import { Scheduler, type ScheduledJob, type SchedulerParts } from '../../src/jobs/scheduler.ts';
import type { JobState } from '../../src/model/job.ts';
import { Schedule } from '../../src/model/schedule.ts';
import { Jobs } from '../../src/system/jobs.ts';
import { migrate } from '../../src/system/migrations/migrate.ts';
import type { Records } from '../../src/system/records.ts';
import { Schedules } from '../../src/system/schedules.ts';
import type { Place } from './databases.ts';

export interface SchedulerNode {
  schedules: Schedules;
  scheduler: Scheduler;
  /** The same as the scheduler's own. */
  submit(job: ScheduledJob): Promise<{ jobId: string }>;
  /** What it has logged. */
  errors: unknown[];
  database: Database<Records>;
}

export interface ScheduleBench {
  /** One more node on the same database. */
  node(parts?: Partial<SchedulerParts>): SchedulerNode;
  setTime(time: string): void;
  /** From now on the time is the real one. */
  runClock(): void;
  put(node: SchedulerNode, schedule: Partial<Schedule>): Promise<void>;
  jobs(): Promise<{ jobId: string; key: string; state: string }[]>;
  endJob(jobId: string, state: JobState): Promise<void>;
  /** What became of the firings of the schedule `nightly`, the oldest first, as `time state`. */
  story(): Promise<string[]>;
}

const APP = 'shop';
const BY = { clientId: 'ada', username: null };

/** Schedulers of several nodes on one database, with jobs that end when the test says so. */
export async function startScheduleBench(
  t: TestContext,
  newPlace: () => Promise<Place>,
): Promise<ScheduleBench> {
  const place = await newPlace();
  const databases: Database<Records>[] = [];
  t.after(async () => {
    for (const database of databases) await database.close();
    await place.remove();
  });
  let time: number | null = Date.parse('2026-01-01T00:00:00Z');
  const now = () => time ?? Date.now();
  const open = () => {
    const database = place.database
      ? openPostgres<Records>(place.database, () => {})
      : openSqlite<Records>(join(place.data, 'records.sqlite'));
    databases.push(database);
    return database;
  };
  const database = open();
  const { query } = database;
  const { history } = new Schedules(database, now);
  await migrate(database);
  await query.insertInto('application').values({ app_id: APP, name: APP, created_at: 1 }).execute();

  return {
    node(parts = {}) {
      const own = open();
      const schedules = new Schedules(own, now);
      const jobs = new Jobs(own, now);
      const errors: unknown[] = [];
      const submit = ({ policy: { priority }, ...job }: ScheduledJob) =>
        jobs.submit({ ...job, policy: { priority, exclusiveKey: null } });
      const scheduler = new Scheduler({
        schedules,
        submit,
        check: async () => {},
        savedRequest: async () => null,
        now,
        logError: (error) => void errors.push(error),
        ...parts,
      });
      return { schedules, scheduler, submit, errors, database: own };
    },
    setTime(iso) {
      time = Date.parse(iso);
    },
    runClock() {
      time = null;
    },
    async put({ scheduler }, schedule) {
      const operation = { opName: 'HTTPRequest', opParams: {} };
      const whole = { name: 'nightly', cron: '0 2 * * *', operation, ...schedule };
      await scheduler.save(APP, Schedule.parse(whole), BY);
    },
    async jobs() {
      const rows = await query.selectFrom('job').selectAll().orderBy('idempotency_key').execute();
      return rows.map((row) => ({ jobId: row.job_id, key: row.idempotency_key ?? '', state: row.state }));
    },
    endJob: (jobId, state) => endJob(database, jobId, state),
    async story() {
      const runs = await history.list(APP, 'nightly', { limit: 1000 });
      return runs.toReversed().map(({ at, state }) => `${at.slice(0, 19)} ${state}`);
    },
  };
}

async function endJob({ query }: Database<Records>, jobId: string, state: JobState): Promise<void> {
  const error = state === 'failed' ? { code: 'http_status', message: 'answered 500' } : null;
  await query
    .updateTable('job')
    .set({ state, error: error && JSON.stringify(error) })
    .where('job_id', '=', jobId)
    .execute();
}
