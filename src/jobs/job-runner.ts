import { EventEmitter } from 'node:events';
import { ServiceError } from '../model/errors.ts';
import { isOver, JobPolicy, type Job } from '../model/job.ts';
import type { ResumeJob } from '../model/outbox.ts';
import { validate } from '../model/validate.ts';
import type { Operation } from '../operations/operation.ts';
import type { OperationRegistry } from '../operations/registry.ts';
import { IdempotencyConflict, type Jobs, type NewJob } from '../system/jobs.ts';
import type { JobCleaner } from './job-cleaner.ts';
import type { JobWorker } from './job-worker.ts';
import type { OperationSecrets } from './operation-secrets.ts';
import type { JobQueue } from './queue.ts';
import type { JobSignals } from './signals.ts';

export interface JobRunnerParts {
  jobs: Jobs;
  queue: JobQueue;
  signals: JobSignals;
  worker: JobWorker;
  cleaner: JobCleaner;
  operations: OperationRegistry;
  secrets: OperationSecrets;
  settings: { resumableHours: number };
  /** Else the jobs that are submitted here run on other nodes. */
  runsJobs: boolean;
}

export type Submission = Omit<NewJob, 'policy' | 'rerunOf'> & { policy?: JobPolicy };

/** How late a waiter learns of something when its signal was lost, or came from another process. */
const LOOK_MS = 1_000;

/** What one can do with jobs: submit, wait for, cancel, resume and repeat them, on whatever node they run. */
export class JobRunner {
  readonly #parts: JobRunnerParts;
  readonly #changes = new EventEmitter().setMaxListeners(0);
  readonly #stop = new AbortController();

  constructor(parts: JobRunnerParts) {
    this.#parts = parts;
    parts.signals.on((jobId) => this.#changes.emit(jobId));
  }

  /** Aborted when no more jobs are taken. */
  get stopping(): AbortSignal {
    return this.#stop.signal;
  }

  async start(): Promise<void> {
    const { queue, worker, cleaner, runsJobs } = this.#parts;
    if (!runsJobs) return;
    await queue.start((jobId) => worker.run(jobId));
    cleaner.start();
  }

  /** Takes no more jobs; those under way are handed back after their page, or, when the signal says so, at once. */
  async stop(signal: AbortSignal): Promise<void> {
    const { queue, worker, cleaner, signals } = this.#parts;
    this.#stop.abort();
    const stopped = queue.stop();
    worker.handBack(signal);
    await stopped;
    await cleaner.stop();
    await signals.close();
  }

  /** Refuses what cannot work before the job exists. */
  async submit({
    policy = validate(JobPolicy, {}),
    ...job
  }: Submission): Promise<{ jobId: string; isNew: boolean }> {
    if (this.stopping.aborted) throw new ServiceError('interrupted', 'the service is stopping');
    const operation = this.#parts.operations.find(job.opName);
    const params = await inOpParams(async () => {
      const parsed = validate(operation.params, job.opParams);
      await operation.check(job.appId, parsed, 'job');
      return parsed;
    });
    const { exclusive, ...rest } = policy;
    const exclusiveKey = exclusiveKeyOf(exclusive, operation, params);
    return this.#submit({ ...job, opParams: params, policy: { ...rest, exclusiveKey } });
  }

  async #submit(job: NewJob): Promise<{ jobId: string; isNew: boolean }> {
    try {
      return await this.#parts.secrets.submit(this.#parts.jobs, job);
    } catch (error) {
      if (!(error instanceof IdempotencyConflict)) throw error;
      throw new ServiceError('conflict', error.message);
    }
  }

  /** The job when it is over, or as it is after `waitMs`. */
  async settled(jobId: string, waitMs: number): Promise<Job> {
    const signal = AbortSignal.timeout(Math.min(waitMs, 2 ** 31 - 1));
    for (;;) {
      const changed = this.waitForChange(jobId, signal);
      const job = await this.#get(jobId);
      if (isOver(job.state) || signal.aborted) return job;
      await changed;
    }
  }

  /** Resolves when there may be something new of the job, or when the signal says so. */
  async waitForChange(jobId: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#changes.off(jobId, done);
        signal.removeEventListener('abort', done);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(done, LOOK_MS);
      this.#changes.on(jobId, done);
      signal.addEventListener('abort', done);
    });
  }

  isBusy(appId: string): boolean {
    return this.#parts.worker.isBusy(appId);
  }

  /** The first time after the page that is under way, the second time at once. */
  async cancel(jobId: string): Promise<Job> {
    const { jobs, signals, settings, worker } = this.#parts;
    worker.cancel(jobId);
    await jobs.life.requestCancel(jobId, settings.resumableHours * 3_600_000);
    signals.send(jobId);
    return this.#get(jobId);
  }

  /** A failed or cancelled job goes on after its last page. */
  async resume(jobId: string, resume: ResumeJob = {}): Promise<Job> {
    const { jobs, signals } = this.#parts;
    await this.#get(jobId);
    const why = await jobs.life.requeue(jobId, resume);
    if (why !== null) throw new ServiceError('conflict', `the job cannot be resumed: ${why}`);
    signals.send(jobId);
    return this.#get(jobId);
  }

  /** The same once more, from its beginning, as a job of its own. */
  async rerun(jobId: string, by: { clientId: string; username: string | null }): Promise<{ jobId: string }> {
    const { jobs, secrets } = this.#parts;
    const job = await jobs.submitted(jobId);
    if (!job) throw noJob(jobId);
    const opParams = await secrets.complete({ jobId, opParams: job.opParams });
    if (opParams === null) {
      throw new ServiceError(
        'conflict',
        'the secrets that were given with the job are no longer kept: submit it anew, or put them into an HTTPSource',
      );
    }
    return this.#submit({ ...job, ...by, opParams });
  }

  async #get(jobId: string): Promise<Job> {
    const job = await this.#parts.jobs.get(jobId);
    if (!job) throw noJob(jobId);
    return job;
  }
}

function noJob(jobId: string): ServiceError {
  return new ServiceError('not_found', `there is no job "${jobId}"`);
}

function exclusiveKeyOf(exclusive: boolean | string, operation: Operation, params: unknown): string | null {
  if (exclusive === false) return null;
  if (exclusive !== true) return `key ${exclusive}`;
  const target = operation.targetOf?.(params) ?? null;
  if (target !== null) return `table ${target}`;
  throw new ServiceError(
    'invalid_request',
    `job.exclusive: ${operation.opName} has no target table here; give a text that stands for what is exclusive`,
    { path: 'job.exclusive' },
  );
}

/** The caller is told where in the body of the call the fault is. */
async function inOpParams<Result>(check: () => Promise<Result>): Promise<Result> {
  try {
    return await check();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const path = `operation.opParams${error.path ? `.${error.path}` : ''}`;
    throw new ServiceError(error.code, error.message, { path });
  }
}
