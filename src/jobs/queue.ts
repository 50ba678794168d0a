import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Carrier } from '../system/job-work.ts';

/**
 * Brings the ids of jobs to workers, each at least once, and again when its worker is gone. The record of the job is
 * the truth: a worker that is brought a job first has to claim it there. Two queues are behind this: one of the
 * process itself, over SQLite, and pg-boss, over PostgreSQL; both pass the suite in queue-conformance.ts.
 */
export interface JobQueue extends Carrier {
  /** Begins to bring jobs. When `run` rejects, the job is brought again a little later. */
  start(run: (jobId: string) => Promise<void>): Promise<void>;
  /** Brings no more; resolves when what it brought is done with. */
  stop(): Promise<void>;
}

export interface QueueLimits {
  jobsAtOnce: number;
  jobsAtOncePerApplication: number;
}

/** A process that was not seen for this long is gone, wherever it ran. */
export const GONE_AFTER_MS = 10_000;

/** By which jobs name the process that runs them. */
export function nameOfProcess(): string {
  return `${hostname()}/${process.pid}/${randomUUID()}`;
}
