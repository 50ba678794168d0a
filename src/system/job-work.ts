import type { Transaction } from 'kysely';
import type { Json } from '../model/json.ts';
import type { FinalState, JobError, JobPolicy, JobStats } from '../model/job.ts';
import type { Records } from './records.ts';

/** What a queue needs to know of a job that is to run. */
export interface QueuedJob {
  jobId: string;
  appId: string;
  priority: number;
  exclusiveKey: string | null;
  /** null: as soon as may be. */
  at: number | null;
}

/** Brings the ids of jobs to workers. What it writes belongs to the transaction that made the job wait for one. */
export interface Carrier {
  enqueue(transaction: Transaction<Records>, job: QueuedJob): Promise<void>;
  /** The transaction is committed. */
  enqueued(job: QueuedJob): void;
  /** Who a job in the queue belongs to; null: to nobody before it is taken. */
  readonly owner: string | null;
}

/** A job in the hands of a worker. */
export interface JobWork {
  jobId: string;
  appId: string;
  opName: string;
  opParams: unknown;
  epoch: number;
  priority: number;
  exclusiveKey: string | null;
  policy: Pick<JobPolicy, 'retry' | 'timeLimitSeconds'>;
  /** How often its retry policy has sent it back. */
  retries: number;
  /** Of its first start. */
  startedAt: number;
  stats: JobStats;
  progress: Record<string, Json>;
  pageCount: number;
  rerunOf: string | null;
}

export interface JobOutcome {
  state: FinalState;
  output: Json | null;
  error: JobError | null;
  /** How long what it leaves behind is kept, so that it can be resumed. */
  keepMs: number;
}

/** What its worker has to look at from time to time. */
export interface JobWatch {
  jobId: string;
  epoch: number;
  isCancelled: boolean;
  isAborted: boolean;
}
