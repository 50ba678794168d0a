import { hostname } from 'node:os';
import { isUnavailable } from '../../database/database.ts';
import type { QueuedJob } from '../../system/job-work.ts';
import type { Jobs } from '../../system/jobs.ts';
import type { Workers } from '../../system/workers.ts';
import { GONE_AFTER_MS, nameOfProcess, type JobQueue, type QueueLimits } from '../queue.ts';
import { WaitingJobs } from '../waiting-jobs.ts';

export interface EmbeddedQueueParts {
  jobs: Jobs;
  workers: Workers;
  limits: QueueLimits;
  now: () => number;
  /** Whether jobs that another process left are taken up. */
  takesOver: boolean;
  logError: (error: unknown, what: string) => void;
}

const SEEN_EVERY_MS = 3_000;
const TRY_AGAIN_MS = 1_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The queues of this process. */
const here = new Set<string>();

/**
 * The queue of this process, in memory, over the embedded database. Each job belongs to the process that is to run
 * it: where that is gone, another one takes the job up, at its start or when it notices.
 */
export class EmbeddedQueue implements JobQueue {
  readonly owner = nameOfProcess();
  readonly #parts: EmbeddedQueueParts;
  readonly #waiting: WaitingJobs;
  /** Jobs whose time has not come. */
  readonly #later = new Map<string, QueuedJob & { at: number }>();
  readonly #underWay = new Set<Promise<void>>();
  #run: ((jobId: string) => Promise<void>) | undefined;
  #wakeTimer: NodeJS.Timeout | undefined;
  #seenTimer: NodeJS.Timeout | undefined;
  #seeing: Promise<void> = Promise.resolve();

  constructor(parts: EmbeddedQueueParts) {
    this.#parts = parts;
    this.#waiting = new WaitingJobs(parts.limits);
  }

  /** The record of the job says it all. */
  async enqueue(): Promise<void> {}

  enqueued(job: QueuedJob): void {
    this.#add(job);
    this.#next();
  }

  async start(run: (jobId: string) => Promise<void>): Promise<void> {
    this.#run = run;
    here.add(this.owner);
    await this.#see();
    this.#seenTimer = setInterval(() => {
      this.#seeing = this.#seeing.then(() => this.#see()).catch((error) => this.#unseen(error));
    }, SEEN_EVERY_MS);
    this.#next();
  }

  async stop(): Promise<void> {
    this.#run = undefined;
    clearInterval(this.#seenTimer);
    clearTimeout(this.#wakeTimer);
    await this.#seeing;
    await Promise.all(this.#underWay);
    here.delete(this.owner);
    try {
      await this.#parts.workers.forget(this.owner);
    } catch (error) {
      this.#unseen(error);
    }
  }

  #add(job: QueuedJob): void {
    if (job.at === null || job.at <= this.#parts.now()) this.#waiting.add(job);
    else this.#later.set(job.jobId, { ...job, at: job.at });
  }

  #next(): void {
    this.#wake();
    const run = this.#run;
    if (!run) return;
    for (let job = this.#waiting.takeNext(); job; job = this.#waiting.takeNext()) {
      const underWay = this.#bring(job, run).finally(() => this.#underWay.delete(underWay));
      this.#underWay.add(underWay);
    }
  }

  async #bring(job: QueuedJob, run: (jobId: string) => Promise<void>): Promise<void> {
    try {
      await run(job.jobId);
    } catch (error) {
      this.#parts.logError(error, `the job ${job.jobId} could not be run; it is tried again`);
      this.#add({ ...job, at: this.#parts.now() + TRY_AGAIN_MS });
    } finally {
      this.#waiting.done(job);
    }
    this.#next();
  }

  /** Those whose time has come wait for a free place from now on. */
  #wake(): void {
    clearTimeout(this.#wakeTimer);
    const now = this.#parts.now();
    let next = Number.POSITIVE_INFINITY;
    for (const [jobId, job] of this.#later) {
      if (job.at <= now) {
        this.#later.delete(jobId);
        this.#waiting.add(job);
      } else {
        next = Math.min(next, job.at);
      }
    }
    if (!this.#run || next === Number.POSITIVE_INFINITY) return;
    this.#wakeTimer = setTimeout(() => this.#next(), Math.min(next - now, LONGEST_TIMER_MS));
  }

  async #see(): Promise<void> {
    const { workers, takesOver } = this.#parts;
    await workers.seen(this.owner);
    if (takesOver) await this.#takeOver();
  }

  async #takeOver(): Promise<void> {
    const { jobs, workers } = this.#parts;
    const left = await jobs.life.unfinished(this.owner);
    if (left.length === 0) return;
    const seen = await workers.seenWithin(GONE_AFTER_MS);
    for (const job of left) {
      const isThere = job.owner !== null && seen.has(job.owner) && mayRun(job.owner);
      if (!isThere && (await jobs.life.changeOwner(job.jobId, job.owner, this.owner))) this.#add(job);
    }
    await workers.forgetUnseenFor(GONE_AFTER_MS);
    this.#next();
  }

  #unseen(error: unknown): void {
    if (!isUnavailable(error)) this.#parts.logError(error, 'jobs of other processes could not be looked for');
  }
}

/** A process of this host that has ended is known to be gone at once. Its number may be this one's own by now. */
function mayRun(owner: string): boolean {
  const [host, pid] = owner.split('/');
  if (host !== hostname()) return true;
  if (Number(pid) === process.pid) return here.has(owner);
  try {
    process.kill(Number(pid), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
