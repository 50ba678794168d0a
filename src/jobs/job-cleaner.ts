import type { Json } from '../model/json.ts';
import { TEMPORARY_NOTE } from '../system/job-life.ts';
import type { Jobs } from '../system/jobs.ts';
import { deleteBodiesEndedBefore, deleteJobsEndedBefore } from '../system/job-history.ts';
import type { Database } from '../database/database.ts';
import type { Records } from '../system/records.ts';
import type { OperationSecrets } from './operation-secrets.ts';

/** What jobs leave beside the tables of their application. The wiring knows where that is. */
export interface Leftovers {
  dropTemporary(job: EndedJob): Promise<void>;
  /** Checkpoints and staging tables. */
  abandon(job: EndedJob): Promise<void>;
}

export interface EndedJob {
  jobId: string;
  appId: string;
  progress: Record<string, Json>;
}

export interface JobCleanerParts {
  database: Database<Records>;
  jobs: Jobs;
  secrets: OperationSecrets;
  leftovers: Leftovers;
  settings: { sweepSeconds: number; keptJobDays: number; keptBodyDays: number };
  now: () => number;
  logError: (error: unknown, what: string) => void;
}

/** Small steps, so that nobody waits for a sweep. */
const AT_ONCE = 50;
const DAY_MS = 24 * 3_600_000;

/** Sees to it that jobs leave nothing behind, in the end not even themselves. */
export class JobCleaner {
  readonly #parts: JobCleanerParts;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(parts: JobCleanerParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#sweeping = this.#sweep();
    this.#timer = setInterval(() => {
      this.#sweeping = this.#sweeping.then(() => this.#sweep());
    }, this.#parts.settings.sweepSeconds * 1000);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sweeping;
  }

  /** What fails here is left to the sweep. */
  async dropTemporary(job: EndedJob): Promise<void> {
    try {
      await this.#parts.leftovers.dropTemporary(job);
    } catch (error) {
      this.#parts.logError(error, `the temporary tables of the job ${job.jobId} could not be dropped yet`);
    }
  }

  async cleanUp(job: EndedJob): Promise<void> {
    const { leftovers, secrets, jobs, logError } = this.#parts;
    try {
      if (hasTemporary(job)) await leftovers.dropTemporary(job);
      await leftovers.abandon(job);
      await secrets.delete(job.jobId);
      await jobs.life.cleanedUp(job.jobId);
    } catch (error) {
      logError(error, `what the job ${job.jobId} has left could not be removed yet`);
    }
  }

  async #sweep(): Promise<void> {
    const { database, jobs, settings, now, logError } = this.#parts;
    const since = (days: number) => now() - days * DAY_MS;
    try {
      for (const job of await jobs.life.toCleanUp(AT_ONCE)) await this.cleanUp(job);
      await inSteps(() => deleteBodiesEndedBefore(database, since(settings.keptBodyDays), AT_ONCE));
      await inSteps(() => deleteJobsEndedBefore(database, since(settings.keptJobDays), AT_ONCE));
    } catch (error) {
      logError(error, 'old jobs could not be removed; the next sweep tries again');
    }
  }
}

/** Noted before the first one is made: most jobs have none, and need no look. */
export function hasTemporary({ progress }: EndedJob): boolean {
  return TEMPORARY_NOTE in progress;
}

async function inSteps(step: () => Promise<number>): Promise<void> {
  for (let removed = 1; removed > 0;) removed = await step();
}
