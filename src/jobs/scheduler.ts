import { isUnavailable } from '../database/database.ts';
import { errorCodes, ServiceError } from '../model/errors.ts';
import type { JobPolicy } from '../model/job.ts';
import type { Schedule } from '../model/schedule.ts';
import type { Change } from '../system/definitions.ts';
import type { DueRun, DueSchedule } from '../system/schedule-runs.ts';
import type { Saver, Schedules } from '../system/schedules.ts';
import { firingsOf } from './firings.ts';
import type { CheckOperation, NamedOperation } from './operation-check.ts';

export interface ScheduledJob extends NamedOperation {
  appId: string;
  clientId: string;
  username: string | null;
  policy: JobPolicy;
  idempotency: { key: string; hash: string };
}

export interface SchedulerParts {
  schedules: Schedules;
  /** The same idempotency key is the same job. */
  submit(job: ScheduledJob): Promise<{ jobId: string }>;
  check: CheckOperation;
  savedRequest(appId: string, name: string): Promise<{ name: string } | null>;
  now: () => number;
  logError: (error: unknown, message: string) => void;
}

/** So that the changes of other nodes are seen. */
const LONGEST_SLEEP_MS = 30_000;
/** While a run waits for another one to end, which tells nobody. */
const HELD_POLL_MS = 1_000;
/** After the database was away, or something else did not work. */
const RETRY_MS = 5_000;
const AT_ONCE = 500;

/**
 * Fires schedules: each firing becomes one job, whatever the number of nodes and however they end. What is to be done
 * stands in the records only, so that every step can be taken up by any node:
 *
 *   the firing is claimed -> its run is due, held or skipped -> submitted -> its job is over
 */
export class Scheduler {
  readonly #parts: SchedulerParts;
  #timer: NodeJS.Timeout | undefined;
  #underWay: Promise<void> | undefined;
  #wakeAgain = false;
  #isStarted = false;
  #isStopped = false;

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#isStarted = true;
    this.wake();
  }

  /** Waits for what is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#underWay;
  }

  /** Something has changed: looks at once. */
  wake(): void {
    if (!this.#isStarted || this.#isStopped) return;
    clearTimeout(this.#timer);
    if (this.#underWay) {
      this.#wakeAgain = true;
      return;
    }
    this.#underWay = this.#round().then((sleepMs) => {
      this.#underWay = undefined;
      if (this.#isStopped) return;
      this.#timer = setTimeout(() => this.wake(), this.#wakeAgain ? 0 : sleepMs);
      this.#wakeAgain = false;
    });
  }

  async #round(): Promise<number> {
    try {
      return await this.tick();
    } catch (error) {
      this.#parts.logError(error, 'schedules could not be looked at; it is tried again');
      return RETRY_MS;
    }
  }

  /** Does what is to be done now. Gives how long to sleep then. */
  async tick(): Promise<number> {
    const { schedules, now } = this.#parts;
    const { runs } = schedules;
    for (const run of await runs.ended(AT_ONCE)) await runs.noteEnded(run);
    let allWell = true;
    for (const due of await runs.dueSchedules(AT_ONCE))
      allWell = (await this.#alone(() => this.#fire(due))) && allWell;
    const held = await runs.admitHeld();
    for (const run of await runs.due(AT_ONCE))
      allWell = (await this.#alone(() => this.#submitDue(run))) && allWell;
    if (!allWell) return RETRY_MS;
    const nextAt = (await runs.nextAt()) ?? Infinity;
    return Math.min(Math.max(0, nextAt - now()), held > 0 ? HELD_POLL_MS : LONGEST_SLEEP_MS);
  }

  /** Checks what it runs before it is saved. */
  async save(appId: string, schedule: Schedule, saver: Saver): Promise<Change> {
    const operation = await this.#operation(appId, schedule);
    try {
      await this.#parts.check(appId, operation);
    } catch (error) {
      if (!(error instanceof ServiceError) || schedule.operation) throw error;
      const problem = `request: the saved request "${schedule.request}" cannot work: ${error.message}`;
      throw new ServiceError(error.code, problem, { path: 'request', cause: error });
    }
    const change = await this.#parts.schedules.put(appId, schedule, saver);
    this.wake();
    return change;
  }

  /** At once, whatever `overlap` says, and also while it is paused. */
  async runNow(appId: string, name: string, by: Saver): Promise<string> {
    const run = await this.#parts.schedules.runs.addManual(appId, name, by);
    if (!run) throw new ServiceError('not_found', `there is no schedule "${name}"`);
    try {
      return await this.#submit(run);
    } catch (error) {
      await this.#parts.schedules.runs.noteRefused(run, reasonOf(error), 'no failure');
      throw error;
    } finally {
      this.wake();
    }
  }

  /** One schedule that meets a fault does not keep the others from firing. False: it is to be tried again. */
  async #alone(work: () => Promise<boolean>): Promise<boolean> {
    if (this.#isStopped) return true;
    try {
      return await work();
    } catch (error) {
      if (isUnavailable(error)) throw error;
      this.#parts.logError(error, 'a schedule met a fault of the service');
      return false;
    }
  }

  async #fire(due: DueSchedule): Promise<boolean> {
    await this.#parts.schedules.runs.claim(due, firingsOf(due, this.#parts.now()));
    return true;
  }

  async #submitDue(run: DueRun): Promise<boolean> {
    try {
      await this.#submit(run);
      return true;
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (isTransient(error)) return false;
      await this.#parts.schedules.runs.noteRefused(run, reasonOf(error), 'failure');
      if (error instanceof ServiceError) return true;
      throw error;
    }
  }

  async #submit(run: DueRun): Promise<string> {
    const { schedules, submit } = this.#parts;
    const { appId, name, clientId, username, idempotency } = run;
    const schedule = await schedules.get(appId, name);
    if (!schedule) throw new ServiceError('not_found', `there is no schedule "${name}"`);
    let jobId = await schedules.runs.jobOf(run);
    if (jobId === null) {
      const operation = await this.#operation(appId, schedule);
      const { job: policy } = schedule;
      ({ jobId } = await submit({ appId, clientId, username, ...operation, policy, idempotency }));
    }
    await schedules.runs.noteSubmitted(run, jobId);
    return jobId;
  }

  async #operation(appId: string, { operation, request }: Schedule): Promise<NamedOperation> {
    if (operation) return operation;
    const saved = await this.#parts.savedRequest(appId, request ?? '');
    if (!saved) {
      throw new ServiceError('invalid_request', `request: there is no saved request "${request}"`, {
        path: 'request',
      });
    }
    const { name: _, ...opParams } = saved;
    return { opName: 'HTTPRequest', opParams };
  }
}

/** What is said of it in the records, for people. */
/** What is said of it in the records, for people. */
function reasonOf(error: unknown): string {
  return error instanceof ServiceError
    ? `${error.code}: ${error.message}`
    : `internal_error: ${errorCodes.internal_error.text}`;
}

function isTransient(error: unknown): boolean {
  return error instanceof ServiceError && errorCodes[error.code].transient;
}
