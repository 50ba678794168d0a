import type { QueuedJob } from '../system/job-work.ts';
import type { QueueLimits } from './queue.ts';

/** Jobs with the same exclusive key, or those of an application without one; in the order in which they may start. */
interface Lane {
  appId: string;
  exclusiveKey: string | null;
  jobs: QueuedJob[];
}

/**
 * Which job is next: the highest priority first; among equals an application that runs the fewest, so that none
 * starves beside a busy one; then whoever came first. Never two of one exclusive key, and never more than the limits.
 */
export class WaitingJobs {
  readonly #limits: QueueLimits;
  readonly #lanes = new Map<string, Lane>();
  readonly #running = new Map<string, QueuedJob>();
  readonly #runningKeys = new Set<string>();
  readonly #runningOfApplication = new Map<string, number>();

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running.size;
  }

  add(job: QueuedJob): void {
    const id = laneOf(job);
    let lane = this.#lanes.get(id);
    if (!lane) this.#lanes.set(id, (lane = { appId: job.appId, exclusiveKey: job.exclusiveKey, jobs: [] }));
    // Mostly the last of its priority: looked for from the end.
    let at = lane.jobs.length;
    while (at > 0 && isBefore(job, lane.jobs[at - 1] as QueuedJob)) at -= 1;
    lane.jobs.splice(at, 0, job);
  }

  /** Counts as running until `done`. */
  takeNext(): QueuedJob | null {
    if (this.#running.size >= this.#limits.jobsAtOnce) return null;
    let best: { id: string; lane: Lane; job: QueuedJob; share: number } | null = null;
    for (const [id, lane] of this.#lanes) {
      const share = this.#runningOfApplication.get(lane.appId) ?? 0;
      if (share >= this.#limits.jobsAtOncePerApplication) continue;
      if (lane.exclusiveKey !== null && this.#runningKeys.has(id)) continue;
      const [job] = lane.jobs;
      if (!job) continue;
      const isBetter =
        !best ||
        job.priority > best.job.priority ||
        (job.priority === best.job.priority &&
          (share < best.share || (share === best.share && job.jobId < best.job.jobId)));
      if (isBetter) best = { id, lane, job, share };
    }
    if (!best) return null;
    best.lane.jobs.shift();
    if (best.lane.jobs.length === 0) this.#lanes.delete(best.id);
    this.#running.set(best.job.jobId, best.job);
    if (best.lane.exclusiveKey !== null) this.#runningKeys.add(best.id);
    this.#runningOfApplication.set(best.job.appId, best.share + 1);
    return best.job;
  }

  done(job: QueuedJob): void {
    if (!this.#running.delete(job.jobId)) return;
    this.#runningKeys.delete(laneOf(job));
    const share = (this.#runningOfApplication.get(job.appId) ?? 1) - 1;
    if (share > 0) this.#runningOfApplication.set(job.appId, share);
    else this.#runningOfApplication.delete(job.appId);
  }
}

function laneOf({ appId, exclusiveKey }: QueuedJob): string {
  return JSON.stringify([appId, exclusiveKey]);
}

function isBefore(a: QueuedJob, b: QueuedJob): boolean {
  return a.priority > b.priority || (a.priority === b.priority && a.jobId < b.jobId);
}
