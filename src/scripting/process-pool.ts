import { type Confinement, confinements } from './confinement.ts';
import type { ScriptLimits } from './script-limits.ts';
import { SandboxProcess } from './sandbox-process.ts';

export type Log = (
  level: 'debug' | 'info' | 'warn' | 'error',
  message: string,
  detail?: Record<string, unknown>,
) => void;

/** A process that belongs to an application until it goes. */
export interface BoundProcess {
  readonly process: SandboxProcess;
  readonly appId: string;
  /** Runs that have an isolate in it, as far as known. */
  readonly runs: Set<string>;
  isBusy: boolean;
  idleSince: number;
  measuredAt: number;
}

const SWEEPS_PER_IDLE_TIME = 4;
/** Asking for the memory of a process takes 40 us, as long as a short call. */
const MEASURE_MS = 100;

/** Keeps the sandbox processes: one spare and warm, the others each bound to one application. */
export class ProcessPool {
  readonly #limits: ScriptLimits;
  readonly #log: Log;
  readonly #ladder: readonly Confinement[];
  readonly #onReady: () => void;
  readonly #onStartFailed: (error: Error) => void;
  #confinement: Confinement | undefined;
  readonly #bound = new Set<BoundProcess>();
  #spare: SandboxProcess | undefined;
  #starting: Promise<void> | undefined;
  readonly #ending = new Set<Promise<void>>();
  readonly #sweep: NodeJS.Timeout;
  #isClosed = false;

  constructor(
    limits: ScriptLimits,
    log: Log,
    events: { ready: () => void; startFailed: (error: Error) => void },
    ladder: readonly Confinement[] = confinements(),
  ) {
    this.#limits = limits;
    this.#log = log;
    this.#onReady = events.ready;
    this.#onStartFailed = events.startFailed;
    this.#ladder = ladder;
    const sweepMs = (limits.idleSeconds * 1000) / SWEEPS_PER_IDLE_TIME;
    this.#sweep = setInterval(() => this.#endIdle(), sweepMs).unref();
  }

  /** A free process of the application, best one that has the run's isolate; undefined: none can be had now. */
  take(appId: string, run: string): BoundProcess | undefined {
    const free = this.#freeOf(appId);
    const bound = free.find(({ runs }) => runs.has(run)) ?? free[0] ?? this.#bindSpare(appId);
    if (!bound) return undefined;
    bound.isBusy = true;
    bound.runs.add(run);
    return bound;
  }

  giveBack(bound: BoundProcess): void {
    bound.isBusy = false;
    bound.idleSince = performance.now();
    if (!bound.process.isAlive || this.#isFull(bound)) this.discard(bound);
  }

  /** What runs have left in their isolates must not count against the next call. */
  #isFull(bound: BoundProcess): boolean {
    if (bound.idleSince - bound.measuredAt < MEASURE_MS) return false;
    bound.measuredAt = bound.idleSince;
    return (bound.process.residentMib() ?? 0) > this.#limits.processMib / 2;
  }

  discard(bound: BoundProcess): void {
    this.#bound.delete(bound);
    this.#end(bound.process);
  }

  closeRun(run: string): void {
    for (const { process, runs } of this.#bound) if (runs.delete(run)) process.closeRun(run);
  }

  /** An application waits and there is no process for it: starts one, and ends an idle one of others for it. */
  demand(busyWith: ReadonlySet<string>): void {
    if (this.#isClosed || this.#starting || this.#spare) return;
    if (this.#bound.size >= this.#limits.processes) {
      const idle = [...this.#bound].filter(({ isBusy, appId }) => !isBusy && !busyWith.has(appId));
      const oldest = idle.toSorted((a, b) => a.idleSince - b.idleSince)[0];
      if (!oldest) return;
      this.discard(oldest);
    }
    this.#startSpare();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweep);
    for (const bound of this.#bound) this.discard(bound);
    await this.#starting;
    if (this.#spare) this.#end(this.#spare);
    this.#spare = undefined;
    await Promise.all(this.#ending);
  }

  #freeOf(appId: string): BoundProcess[] {
    const free: BoundProcess[] = [];
    for (const bound of this.#bound) {
      if (bound.isBusy || bound.appId !== appId) continue;
      if (bound.process.isAlive) free.push(bound);
      else this.discard(bound);
    }
    return free;
  }

  #bindSpare(appId: string): BoundProcess | undefined {
    const process = this.#spare;
    this.#spare = undefined;
    if (!process?.isAlive) {
      if (process) this.#end(process);
      return undefined;
    }
    const bound = {
      process,
      appId,
      runs: new Set<string>(),
      isBusy: false,
      idleSince: performance.now(),
      measuredAt: 0,
    };
    this.#bound.add(bound);
    if (this.#bound.size < this.#limits.processes) this.#startSpare();
    return bound;
  }

  #startSpare(): void {
    if (this.#isClosed || this.#starting) return;
    this.#starting = this.#start().then(
      (process) => {
        this.#starting = undefined;
        if (this.#isClosed) return this.#end(process);
        this.#spare = process;
        this.#onReady();
      },
      (error: Error) => {
        this.#starting = undefined;
        this.#log('error', 'no sandbox process can be started', { error: error.message });
        this.#onStartFailed(error);
      },
    );
  }

  async #start(): Promise<SandboxProcess> {
    const start = (confinement: Confinement) => SandboxProcess.start(confinement);
    // One that worked before gets a second try: something may have killed the process while it started.
    const known = this.#confinement;
    if (known) return start(known).catch(() => start(known));
    const reasons: string[] = [];
    for (const confinement of this.#ladder) {
      try {
        const process = await start(confinement);
        this.#confinement = confinement;
        const detail = { confinement: confinement.name, reasons };
        if (confinement.isTight) this.#log('info', 'scripts are confined', detail);
        else
          this.#log(
            'warn',
            'scripts run without a network of their own and without the optimizing compiler',
            detail,
          );
        return process;
      } catch (error) {
        reasons.push(`${confinement.name}: ${(error as Error).message}`);
      }
    }
    throw new Error(reasons.join('; '));
  }

  #end(process: SandboxProcess): void {
    process.kill();
    const ending = process.exited.then(() => void this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  #endIdle(): void {
    const now = performance.now();
    for (const bound of this.#bound) {
      if (!bound.isBusy && now - bound.idleSince > this.#limits.idleSeconds * 1000) this.discard(bound);
    }
  }
}
