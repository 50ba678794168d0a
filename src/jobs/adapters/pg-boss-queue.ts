import { createHash } from 'node:crypto';
import { CompiledQuery, sql, type Transaction } from 'kysely';
import { PgBoss, type Job, type Queue, type Warning } from 'pg-boss';
import { isUnavailable, type Database } from '../../database/database.ts';
import type { QueuedJob } from '../../system/job-work.ts';
import type { Records } from '../../system/records.ts';
import { GONE_AFTER_MS, type JobQueue, type QueueLimits } from '../queue.ts';

export interface PgBossQueueParts {
  url: string;
  database: Database<Records>;
  limits: QueueLimits;
  /** Whether `start` will be called: a node that only submits needs neither a listener nor looks after others. */
  runsJobs: boolean;
  /** Stands for the data folder, in the list of nodes that pg-boss keeps. */
  folder: string;
  now: () => number;
  logWarning: (error: unknown, what: string) => void;
  logError: (error: unknown, what: string) => void;
}

/** What the queue carries. */
interface Entry {
  jobId: string;
  at: number | null;
}

const SCHEMA = 'millrace_queue';
const QUEUE = 'jobs';
const YEAR_S = 365 * 86_400;
/**
 * A node that has gone is noticed when its last heartbeat is 10 s old, the least that pg-boss takes, plus the interval
 * of supervision.
 */
const HEARTBEAT_S = 10;
const SUPERVISE_S = 1;
const OPTIONS: Omit<Queue, 'name' | 'policy'> = {
  notify: true,
  heartbeatSeconds: HEARTBEAT_S,
  // Errors of jobs are recorded as their outcome: what is tried again here are faults of the service alone.
  retryLimit: 1000,
  retryDelay: 1,
  // The most that pg-boss takes. A longer job goes on by a new attempt, which the old one is fenced by.
  expireInSeconds: 86_400,
  // Else it forgets jobs that wait for longer than 14 days.
  retentionSeconds: 10 * YEAR_S,
  deleteAfterSeconds: 86_400,
  warningQueueSize: 100_000,
};
const CONNECTIONS = 4;
const CONNECT_TIMEOUT_MS = 5_000;
/** What no notification tells of: a job whose time has come, a key that another node has freed, a lost worker. */
const LOOK_MS = 1_000;
/** A look in vain reads all jobs whose keys are taken. */
const WAKE_IDLE_MS = 100;
const SWEEP_MS = 60_000;
const SWEEP_AT_ONCE = 1_000;
/** Any number will do that no other program takes in the same database. */
const SWEEP_LOCK = 4_011_952_331;
const UNAVAILABLE_QUIET_MS = 10_000;

/**
 * Jobs over several nodes, carried by pg-boss. An entry is written with the job, in one transaction. Of all entries
 * with the same key one is brought at a time; the key is the exclusive key or, where there is none, the job, so that
 * no duplicate takes a job from a worker that lives.
 */
export class PgBossQueue implements JobQueue {
  /** Whoever takes it. */
  readonly owner = null;
  readonly #parts: PgBossQueueParts;
  readonly #boss: PgBoss;
  #timers: NodeJS.Timeout[] = [];
  #sweeping: Promise<void> = Promise.resolve();
  #isStopping = false;
  #idleTimer: NodeJS.Timeout | undefined;
  #idleWokenAt = 0;
  #unavailableToldAt = 0;

  private constructor(parts: PgBossQueueParts) {
    this.#parts = parts;
    this.#boss = new PgBoss({
      connectionString: parts.url,
      schema: SCHEMA,
      application_name: 'millrace queue',
      max: CONNECTIONS,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      useListenNotify: parts.runsJobs,
      supervise: parts.runsJobs,
      superviseIntervalSeconds: SUPERVISE_S,
      monitorIntervalSeconds: SUPERVISE_S,
      schedule: false,
      instanceName: parts.folder,
      instanceHeartbeatSeconds: 10,
    });
    this.#boss.on('error', (error) => this.#report(error));
    this.#boss.on('warning', (warning: Warning) => parts.logWarning(warning.data, warning.message));
  }

  /** Several nodes may do this at once on an empty database. */
  static async open(parts: PgBossQueueParts): Promise<PgBossQueue> {
    const queue = new PgBossQueue(parts);
    try {
      await queue.#boss.start();
      await queue.#boss.createQueue(QUEUE, { ...OPTIONS, policy: 'singleton' });
      // One that was made by an earlier release.
      await queue.#boss.updateQueue(QUEUE, OPTIONS);
    } catch (error) {
      await queue.#boss.stop({ graceful: false });
      throw error;
    }
    return queue;
  }

  async enqueue(transaction: Transaction<Records>, job: QueuedJob): Promise<void> {
    const { jobId, appId, priority, at } = job;
    const entry: Entry = { jobId, at };
    const id = await this.#boss.send(QUEUE, entry, {
      db: {
        executeSql: async (text, values = []) => {
          const { rows } = await transaction.executeQuery(CompiledQuery.raw(text, [...values]));
          return { rows };
        },
      },
      priority,
      singletonKey: keyOf(job),
      group: { id: appId },
      ...(at !== null && { startAfter: new Date(at) }),
    });
    if (id === null) throw new Error(`the queue did not take the job ${jobId}`);
  }

  /** The transaction has told all nodes. */
  enqueued(): void {}

  async start(run: (jobId: string) => Promise<void>): Promise<void> {
    const { jobsAtOnce, jobsAtOncePerApplication } = this.#parts.limits;
    const options = {
      pollingIntervalSeconds: 30,
      localConcurrency: jobsAtOnce,
      ...(jobsAtOncePerApplication < jobsAtOnce && { localGroupConcurrency: jobsAtOncePerApplication }),
    };
    await this.#boss.work<Entry>(QUEUE, options, (entries) => this.#bring(entries, run));
    this.#sweep();
    this.#timers = [setInterval(() => this.#wake(), LOOK_MS), setInterval(() => this.#sweep(), SWEEP_MS)];
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of this.#timers) clearInterval(timer);
    await this.#boss.offWork(QUEUE, { wait: true });
    clearTimeout(this.#idleTimer);
    await this.#sweeping;
    await this.#boss.stop();
  }

  /** Of nodes that live. */
  async hostsWithOtherFolders(): Promise<string[]> {
    const instances = await this.#boss.getInstances();
    const others = instances.filter(({ live, name }) => live && name !== this.#parts.folder);
    return [...new Set(others.map(({ host }) => host))];
  }

  async #bring(entries: Job<Entry>[], run: (jobId: string) => Promise<void>): Promise<void> {
    this.#wake();
    for (const { data } of entries) await this.#bringOne(data, run);
  }

  /** What is thrown stands in pg-boss's tables, and lets the entry be brought again after a second. */
  async #bringOne({ jobId, at }: Entry, run: (jobId: string) => Promise<void>): Promise<void> {
    if (this.#isStopping) throw new Error('the node stops');
    // The clock of the database may be ahead of this one's, which would not let the job be claimed.
    if (at !== null && at > this.#parts.now()) throw new Error('the time of the job has not come');
    const isDone = await run(jobId).then(
      () => true,
      (error: unknown) => {
        if (isUnavailable(error)) this.#tellUnavailable(error);
        else this.#parts.logError(error, `the job ${jobId} could not be run; it is tried again`);
        return false;
      },
    );
    if (!isDone) throw new Error('the job could not be run; the log of the node says why');
  }

  /**
   * Those that are busy are to look again when their job is over, else they sleep until the next poll. One that is
   * idle looks now: where one job was there may be more, and each that finds one wakes the next.
   */
  #wake(): void {
    for (const { id, count } of this.#boss.getWipData()) {
      if (count > 0) this.#boss.notifyWorker(id);
    }
    this.#idleTimer ??= setTimeout(
      () => this.#wakeIdle(),
      this.#idleWokenAt + WAKE_IDLE_MS - performance.now(),
    );
  }

  #wakeIdle(): void {
    this.#idleTimer = undefined;
    this.#idleWokenAt = performance.now();
    const idle = this.#boss.getWipData().find(({ count }) => count === 0);
    if (idle) this.#boss.notifyWorker(idle.id);
  }

  #sweep(): void {
    this.#sweeping = this.#sweeping.then(async () => {
      try {
        await this.#putBackLost();
      } catch (error) {
        if (isUnavailable(error)) this.#tellUnavailable(error);
        else this.#parts.logError(error, 'jobs without an entry in the queue could not be looked for');
      }
    });
  }

  /**
   * Jobs that are not over and have no entry: entries went after too many retries or with a restored backup, or the
   * job belonged to a process outside of the queue, such as `millrace run`, that is gone.
   */
  async #putBackLost(): Promise<void> {
    await this.#parts.database.query.transaction().execute(async (transaction) => {
      const { rows } = await sql<{
        mine: boolean;
      }>`select pg_try_advisory_xact_lock(${SWEEP_LOCK}) as mine`.execute(transaction);
      if (!rows[0]?.mine) return;
      const lost = await transaction
        .selectFrom('job')
        .select(['job_id', 'app_id', 'priority', 'exclusive_key', 'wake_at'])
        .where('state', 'in', ['queued', 'running', 'waiting'])
        .where(({ not, exists, selectFrom }) =>
          not(
            exists(
              selectFrom('worker')
                .select('worker.owner')
                .whereRef('worker.owner', '=', 'job.owner')
                .where('worker.seen_at', '>', this.#parts.now() - GONE_AFTER_MS),
            ),
          ),
        )
        .where('job_id', 'not in', LIVE_ENTRIES)
        .orderBy('job_id')
        .limit(SWEEP_AT_ONCE)
        .execute();
      for (const { job_id: jobId, app_id: appId, exclusive_key: exclusiveKey, priority, wake_at: at } of lost)
        await this.enqueue(transaction, { jobId, appId, exclusiveKey, priority, at });
    });
  }

  /** Errors of workers come as plain objects, those of idle connections with the whole connection. */
  #report(reported: Error & { client?: unknown }): void {
    const { message, client: _, ...fields } = reported;
    const error = Object.assign(new Error(message), fields);
    if (isUnavailable(error)) this.#tellUnavailable(error);
    else this.#parts.logError(error, 'the queue met an error');
  }

  /** Every slot would tell it again and again. */
  #tellUnavailable(error: unknown): void {
    const now = Date.now();
    if (now - this.#unavailableToldAt < UNAVAILABLE_QUIET_MS) return;
    this.#unavailableToldAt = now;
    this.#parts.logWarning(error, 'the queue cannot reach the database; jobs go on when it is back');
  }
}

const LIVE_ENTRIES = sql<string>`(
  select data->>'jobId' from ${sql.id(SCHEMA, 'job')}
  where name = ${QUEUE} and state in ('created', 'retry', 'active') and data->>'jobId' is not null
)`;

/** pg-boss takes letters, digits and a few signs. */
function keyOf({ jobId, appId, exclusiveKey }: QueuedJob): string {
  if (exclusiveKey === null) return jobId;
  return createHash('sha256')
    .update(JSON.stringify([appId, exclusiveKey]))
    .digest('hex');
}
