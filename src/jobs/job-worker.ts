import { isUnavailable } from '../database/database.ts';
import { errorCodes, ServiceError, type ErrorCode } from '../model/errors.ts';
import type { JobError } from '../model/job.ts';
import type { Json } from '../model/json.ts';
import { validate } from '../model/validate.ts';
import { jobErrorOf } from '../operations/failure.ts';
import { SOURCES_NOTE } from '../operations/http-request/job-stores.ts';
import { Cancelled, Fenced, Paused, type JobProgress } from '../operations/operation.ts';
import type { OperationRegistry } from '../operations/registry.ts';
import { Variables } from '../operations/variables.ts';
import { FencedError, StoreUnavailable } from '../tables/table-errors.ts';
import type { ApplicationVariables } from '../system/application-variables.ts';
import type { JobWork } from '../system/job-work.ts';
import type { Jobs } from '../system/jobs.ts';
import { hasTemporary, type JobCleaner } from './job-cleaner.ts';
import { JobLog, type JobLogSettings } from './job-log.ts';
import type { OperationSecrets } from './operation-secrets.ts';
import type { JobSignals } from './signals.ts';

export interface JobWorkerParts {
  jobs: Jobs;
  signals: JobSignals;
  operations: OperationRegistry;
  variables: ApplicationVariables;
  secrets: OperationSecrets;
  cleaner: JobCleaner;
  settings: JobLogSettings & { resumableHours: number };
  /** By which its jobs name it. */
  owner: string;
  now: () => number;
  logError: (error: unknown, what: string) => void;
}

interface Running {
  appId: string;
  epoch: number;
  /** Breaks off at once. */
  abort: AbortController;
  /** Asks for an end after the page that is under way. */
  stop: AbortController;
}

/** The worker is to stop: the job goes back into the queue, and on at its next page. */
class HandedBack extends Error {
  override readonly name = 'HandedBack';
}

const WATCH_MS = 1_000;
const LONGEST_RETRY_MS = 3_600_000;
const STORE_AWAY_MS = 5_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Runs the jobs that a queue brings, and sees each to its end, or hands it back. */
export class JobWorker {
  readonly #parts: JobWorkerParts;
  readonly #running = new Map<string, Running>();
  #watchTimer: NodeJS.Timeout | undefined;
  #watching: Promise<void> = Promise.resolve();
  #handingBack: AbortSignal | undefined;

  constructor(parts: JobWorkerParts) {
    this.#parts = parts;
    parts.signals.on((jobId) => {
      if (this.#running.has(jobId)) this.#look();
    });
  }

  isBusy(appId: string): boolean {
    return [...this.#running.values()].some((running) => running.appId === appId);
  }

  /** Rejects when the job could not be seen to an end: it is to be brought again. */
  async run(jobId: string): Promise<void> {
    const work = await this.#parts.jobs.life.claim(jobId, this.#parts.owner);
    if (!work) return;
    const { appId, epoch } = work;
    const running: Running = { appId, epoch, abort: new AbortController(), stop: new AbortController() };
    // The queue took the job from this worker, because it was cut off or the job takes very long, and brings it again.
    this.#running.get(jobId)?.abort.abort(new Fenced('another attempt has taken the job'));
    this.#running.set(jobId, running);
    if (this.#handingBack) stopFor(running, this.#handingBack);
    this.#watchTimer ??= setInterval(() => this.#look(), WATCH_MS);
    const endTimer = this.#limitTime(work, running);
    try {
      await this.#work(work, running);
    } finally {
      clearTimeout(endTimer);
      if (this.#running.get(jobId) === running) this.#running.delete(jobId);
      if (this.#running.size === 0) {
        clearInterval(this.#watchTimer);
        this.#watchTimer = undefined;
      }
      this.#parts.signals.send(jobId);
    }
  }

  /** Where the job runs here, nobody has to wait for the record to be read: first after its page, then at once. */
  cancel(jobId: string): void {
    const running = this.#running.get(jobId);
    if (!running) return;
    const { stop, abort } = running;
    if (stop.signal.aborted) abort.abort(new Cancelled('the job was cancelled'));
    else stop.abort(new Cancelled('the job was cancelled after this page'));
  }

  /** Hands all jobs back after the page that is under way, or, once the signal says so, at once. */
  handBack(signal: AbortSignal): void {
    this.#handingBack = signal;
    for (const running of this.#running.values()) stopFor(running, signal);
  }

  /** Whether somebody wants a job to end, or has taken it. */
  #look(): void {
    this.#watching = this.#watching.then(async () => {
      try {
        const seen = await this.#parts.jobs.life.watch([...this.#running.keys()]);
        for (const { jobId, epoch, isCancelled, isAborted } of seen) {
          const running = this.#running.get(jobId);
          if (!running) continue;
          if (epoch !== running.epoch) running.abort.abort(new Fenced('another worker has taken the job'));
          if (isAborted) running.abort.abort(new Cancelled('the job was cancelled'));
          if (isCancelled) running.stop.abort(new Cancelled('the job was cancelled after this page'));
        }
      } catch (error) {
        // While the records are away nobody can ask for anything.
        if (!isUnavailable(error)) this.#parts.logError(error, 'running jobs could not be looked after');
      }
    });
  }

  #limitTime({ policy, startedAt }: JobWork, { abort }: Running): NodeJS.Timeout | undefined {
    const { timeLimitSeconds } = policy;
    if (timeLimitSeconds === undefined) return undefined;
    const leftMs = startedAt + timeLimitSeconds * 1000 - this.#parts.now();
    const error = new ServiceError('job_time_limit', `the job took longer than ${timeLimitSeconds} s`);
    return setTimeout(() => abort.abort(error), Math.min(Math.max(0, leftMs), LONGEST_TIMER_MS));
  }

  async #work(work: JobWork, running: Running): Promise<void> {
    const { jobs, settings, now, signals } = this.#parts;
    const log = new JobLog({
      jobs,
      work,
      settings,
      now,
      onWritten: () => signals.send(work.jobId),
      onLost: (reason) => running.abort.abort(reason),
    });
    log.state('running');
    const outcome = await this.#outcome(work, running, log);
    await this.#conclude(work, outcome, log);
  }

  async #outcome(work: JobWork, running: Running, log: JobLog): Promise<Outcome> {
    const { operations, variables, secrets } = this.#parts;
    const { jobId, appId, epoch, opName, rerunOf } = work;
    try {
      const operation = operations.find(opName);
      const params = validate(operation.params, await secrets.complete(work));
      running.abort.signal.throwIfAborted();
      const output = await operation.run(params, {
        jobId,
        originId: rerunOf ?? jobId,
        appId,
        epoch,
        step: 'main',
        variables: new Variables(await variables.all(appId)),
        input: null,
        progress: this.#progress(work),
        signal: running.abort.signal,
        stopSignal: running.stop.signal,
        report: log,
      });
      return { state: 'succeeded', output };
    } catch (thrown) {
      const error: unknown = running.abort.signal.aborted ? running.abort.signal.reason : thrown;
      return this.#outcomeOf(error, work, log);
    }
  }

  #outcomeOf(error: unknown, work: JobWork, log: JobLog): Outcome {
    const { now } = this.#parts;
    if (error instanceof Fenced || error instanceof FencedError) return { state: 'fenced' };
    if (error instanceof HandedBack) return { state: 'queued' };
    if (error instanceof Paused)
      return { state: 'waiting', until: error.until, why: error.message, isRetry: false };
    if (error instanceof Cancelled) return { state: 'cancelled' };
    if (isUnavailable(error)) throw error;
    // A database that somebody has named, and that never was there, is more likely named wrongly.
    const wasThere = log.stats.pages > 0 || !(SOURCES_NOTE in work.progress);
    if (error instanceof StoreUnavailable && wasThere) {
      const why = `${log.redacted(error.message)}; the job goes on when it is back`;
      return { state: 'waiting', until: now() + STORE_AWAY_MS, why, isRetry: false };
    }
    const known = jobErrorOf(error);
    if (known.code === 'internal_error')
      this.#parts.logError(error, `the job ${work.jobId} met a fault of the service`);
    const jobError = { ...known, message: log.redacted(known.message) };
    const delayMs = retryDelay(work, jobError);
    if (delayMs === null) return { state: 'failed', error: jobError };
    const why = `${jobError.code}: ${jobError.message}; the job is tried again in ${delayMs / 1000} s`;
    return { state: 'waiting', until: now() + delayMs, why, isRetry: true };
  }

  async #conclude(work: JobWork, outcome: Outcome, log: JobLog): Promise<void> {
    const { jobs, cleaner, settings } = this.#parts;
    const { jobId, appId, epoch } = work;
    if (outcome.state === 'fenced') {
      await log.lastNews();
      return;
    }
    if (outcome.state === 'queued' || outcome.state === 'waiting') {
      const at = outcome.state === 'waiting' ? outcome.until : null;
      if (outcome.state === 'waiting') log.log(outcome.isRetry ? 'warn' : 'info', outcome.why);
      log.state(outcome.state, at === null ? {} : { wakesAt: new Date(at).toISOString() });
      const isRetry = outcome.state === 'waiting' && outcome.isRetry;
      await jobs.life.giveBack(work, { at, isRetry }, await log.lastNews());
      return;
    }
    const error = outcome.state === 'failed' ? outcome.error : null;
    const output = outcome.state === 'succeeded' ? outcome.output : null;
    log.state(outcome.state, error ? { error } : {});
    const job = { jobId, appId, progress: work.progress };
    if (hasTemporary(job)) {
      // Whoever has the job now still needs them.
      const [seen] = await jobs.life.watch([jobId]);
      if (seen?.epoch !== epoch) return;
      await cleaner.dropTemporary(job);
    }
    const keepMs = outcome.state === 'succeeded' ? 0 : settings.resumableHours * 3_600_000;
    const isOurs = await jobs.life.end(
      jobId,
      epoch,
      { state: outcome.state, output, error, keepMs },
      await log.lastNews(),
    );
    if (isOurs && keepMs === 0) await cleaner.cleanUp(job);
  }

  #progress(work: JobWork): JobProgress {
    const { jobs } = this.#parts;
    return {
      of: (step) => work.progress[step] ?? null,
      note: async (step, value) => {
        work.progress[step] = value;
        if (!(await jobs.life.noteProgress(work.jobId, work.epoch, work.progress)))
          throw new Fenced('another worker has taken the job');
      },
    };
  }
}

function stopFor({ stop, abort }: Running, signal: AbortSignal): void {
  const reason = new HandedBack('the service stops');
  stop.abort(reason);
  if (signal.aborted) abort.abort(reason);
  else signal.addEventListener('abort', () => abort.abort(reason), { once: true });
}

type Outcome =
  | { state: 'succeeded'; output: Json }
  | { state: 'failed'; error: JobError }
  | { state: 'cancelled' }
  | { state: 'queued' }
  | { state: 'waiting'; until: number; why: string; isRetry: boolean }
  | { state: 'fenced' };

/** null: the job is not to be tried again. */
function retryDelay({ policy: { retry }, retries }: JobWork, { code }: JobError): number | null {
  const isTransient = errorCodes[code as ErrorCode].transient;
  if (!retry || !isTransient || retries + 1 >= retry.tries) return null;
  return Math.min(LONGEST_RETRY_MS, retry.delaySeconds * 1000 * 2 ** retries);
}
