import { EventEmitter } from 'node:events';
import { errorCodes, ServiceError } from '../model/errors.ts';
import { isOver, type Job, type JobError } from '../model/job.ts';
import type { Json } from '../model/json.ts';
import { validate } from '../model/validate.ts';
import { jobErrorOf } from '../operations/failure.ts';
import { Cancelled } from '../operations/operation.ts';
import type { OperationRegistry } from '../operations/registry.ts';
import { Variables } from '../operations/variables.ts';
import type { ApplicationVariables } from '../system/application-variables.ts';
import { IdempotencyConflict, type Jobs, type JobWork, type NewJob } from '../system/jobs.ts';
import { JobLog, type JobLogSettings } from './job-log.ts';
import type { OperationSecrets } from './operation-secrets.ts';

export interface JobRunnerParts {
  jobs: Jobs;
  operations: OperationRegistry;
  variables: ApplicationVariables;
  secrets: OperationSecrets;
  settings: JobLogSettings & { jobsAtOnce: number };
  now: () => number;
  logError: (error: unknown, jobId: string) => void;
  /** When a job is over: temporary tables and the like go. */
  cleanUp: (appId: string, jobId: string) => Promise<void>;
}

interface Running {
  abort: AbortController;
  stop: AbortController;
  appId: string | null;
}

/** Runs jobs in this process, a bounded number at once, in the order of their submission. */
export class JobRunner {
  readonly #parts: JobRunnerParts;
  readonly #waiting: string[] = [];
  readonly #running = new Map<string, Running>();
  readonly #changes = new EventEmitter({ captureRejections: true }).setMaxListeners(0);
  readonly #stop = new AbortController();
  #idle: (() => void) | undefined;

  constructor(parts: JobRunnerParts) {
    this.#parts = parts;
  }

  /** Aborted when no more jobs are taken. */
  get stopping(): AbortSignal {
    return this.#stop.signal;
  }

  /** Takes up what a service before this one left: what was queued is run, what was running was interrupted. */
  async start(): Promise<void> {
    const { jobs } = this.#parts;
    for (const state of ['running', 'waiting'] as const) {
      for (const jobId of await jobs.inState(state)) await this.#interrupted(jobId);
    }
    this.#waiting.push(...(await jobs.inState('queued')));
    this.#next();
  }

  async #interrupted(jobId: string): Promise<void> {
    const { appId } = await this.#get(jobId);
    await this.#parts.jobs.interrupt(jobId, INTERRUPTED);
    await this.#parts.cleanUp(appId, jobId);
  }

  /** Refuses what cannot work before the job exists. */
  async submit(job: NewJob): Promise<{ jobId: string; isNew: boolean }> {
    if (this.stopping.aborted) throw new ServiceError('interrupted', 'the service is stopping');
    const operation = this.#parts.operations.find(job.opName);
    const params = await inOpParams(async () => {
      const parsed = validate(operation.params, job.opParams);
      await operation.check(job.appId, parsed);
      return parsed;
    });
    try {
      const submitted = await this.#parts.secrets.submit(this.#parts.jobs, { ...job, opParams: params });
      if (submitted.isNew) {
        this.#waiting.push(submitted.jobId);
        this.#next();
      }
      return submitted;
    } catch (error) {
      if (!(error instanceof IdempotencyConflict)) throw error;
      throw new ServiceError('conflict', error.message);
    }
  }

  /** The job when it is over, or as it is after `waitMs`. */
  async settled(jobId: string, waitMs: number): Promise<Job> {
    const signal = AbortSignal.timeout(Math.min(waitMs, 2 ** 31 - 1));
    for (;;) {
      const changed = this.#changed(jobId, signal);
      const job = await this.#get(jobId);
      if (isOver(job.state) || signal.aborted) return job;
      await changed;
    }
  }

  /** Resolves when there may be new events of the job, or when the signal says so. */
  async #changed(jobId: string, signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#changes.off(jobId, done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#changes.on(jobId, done);
      signal.addEventListener('abort', done);
    });
  }

  async waitForChange(jobId: string, signal: AbortSignal): Promise<void> {
    if (!signal.aborted) await this.#changed(jobId, signal);
  }

  isBusy(appId: string): boolean {
    return [...this.#running.values()].some((running) => running.appId === appId);
  }

  /** The first time after the page that is under way, the second time at once. */
  async cancel(jobId: string): Promise<Job> {
    await this.#parts.jobs.requestCancel(jobId);
    const running = this.#running.get(jobId);
    if (running?.stop.signal.aborted) running.abort.abort(new Cancelled('the job was cancelled'));
    else running?.stop.abort();
    this.#changes.emit(jobId);
    return this.#get(jobId);
  }

  /** Takes no more jobs; those under way have until the signal, then they are broken off. */
  async stop(signal: AbortSignal): Promise<void> {
    this.#stop.abort();
    if (this.#running.size === 0) return;
    const idle = new Promise<void>((resolve) => {
      this.#idle = resolve;
    });
    const breakOff = () => {
      for (const { abort } of this.#running.values())
        abort.abort(new ServiceError('interrupted', INTERRUPTED.message));
    };
    if (signal.aborted) breakOff();
    else signal.addEventListener('abort', breakOff);
    await idle;
  }

  #next(): void {
    while (!this.stopping.aborted && this.#running.size < this.#parts.settings.jobsAtOnce) {
      const jobId = this.#waiting.shift();
      if (jobId === undefined) return;
      const running: Running = { abort: new AbortController(), stop: new AbortController(), appId: null };
      this.#running.set(jobId, running);
      void this.#run(jobId, running).finally(() => {
        this.#running.delete(jobId);
        this.#changes.emit(jobId);
        if (this.#running.size === 0) this.#idle?.();
        this.#next();
      });
    }
  }

  async #run(jobId: string, running: Running): Promise<void> {
    try {
      const work = await this.#parts.jobs.claim(jobId);
      if (!work) return;
      running.appId = work.appId;
      await this.#work(work, running);
    } catch (error) {
      this.#parts.logError(error, jobId);
    }
  }

  async #work(work: JobWork, running: Running): Promise<void> {
    const { jobs, settings, now } = this.#parts;
    const { jobId, appId, epoch } = work;
    const log = new JobLog({
      jobs,
      jobId,
      settings,
      now,
      firstEvent: 0,
      onEvents: () => this.#changes.emit(jobId),
    });
    log.state('running');
    const outcome = await this.#outcome(work, running, log);
    log.state(outcome.state, outcome.error ? { error: outcome.error } : {});
    try {
      await this.#parts.cleanUp(appId, jobId);
      await log.close();
    } catch (error) {
      this.#parts.logError(error, jobId);
    }
    await jobs.end(jobId, epoch, { ...outcome, stats: log.stats });
  }

  async #outcome(work: JobWork, running: Running, log: JobLog): Promise<Outcome> {
    const { operations, variables, secrets } = this.#parts;
    const { jobId, appId, epoch, opName } = work;
    try {
      const operation = operations.find(opName);
      const params = validate(operation.params, await secrets.complete(work));
      const output = await operation.run(params, {
        jobId,
        appId,
        epoch,
        step: 'main',
        variables: new Variables(await variables.all(appId)),
        signal: running.abort.signal,
        stopSignal: running.stop.signal,
        report: log,
      });
      return { state: 'succeeded', output, error: null };
    } catch (thrown) {
      const error: unknown = running.abort.signal.aborted ? running.abort.signal.reason : thrown;
      if (error instanceof Cancelled) return { state: 'cancelled', output: null, error: null };
      const jobError = jobErrorOf(error);
      if (jobError.code === 'internal_error') this.#parts.logError(error, jobId);
      return {
        state: 'failed',
        output: null,
        error: { ...jobError, message: log.redacted(jobError.message) },
      };
    }
  }

  async #get(jobId: string): Promise<Job> {
    const job = await this.#parts.jobs.get(jobId);
    if (!job) throw new ServiceError('not_found', `there is no job "${jobId}"`);
    return job;
  }
}

interface Outcome {
  state: 'succeeded' | 'failed' | 'cancelled';
  output: Json | null;
  error: JobError | null;
}

const INTERRUPTED: JobError = { code: 'interrupted', message: errorCodes.interrupted.text };

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
