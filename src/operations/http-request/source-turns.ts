import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable } from '../../database/database.ts';
import type { HttpSource } from '../../model/source.ts';
import type { Block, RateBudgets } from '../../system/rate-budgets.ts';
import { LONGEST_PAUSE_MS } from './pause.ts';

type RateLimit = NonNullable<HttpSource['rateLimit']>;

export interface Ask {
  /** Ends the wait at once. */
  signal: AbortSignal;
  /** Asked before a long wait, with its end: throws where the job is to give its place away meanwhile. */
  pause(until: number): Promise<void>;
  /** The turn for which the job has waited elsewhere, as the time that `pause` was given. */
  kept: number | null;
}

/**
 * Turns that are reserved at once: those of so much time. What a process reserves and does not use is lost to the
 * others, and what it knows of a block may be so old.
 */
const RUN_MS = 200;
/** A turn may be used so much later. The time between turns allows for it: see `intervalOf`. */
const LATE_MS = 50;
const FRESH_MS = 1_000;
/** A block that moves by less is the same one, which many answers tell of. */
const SAME_BLOCK_MS = 100;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** Sources that no job asks for are forgotten when there are more. */
const MOST_SOURCES = 1_000;

/**
 * The requests of this process to the sources of all applications: each waits for its turn in the budget of its
 * source, which all processes share, and for the end of blocks that any of them has met.
 *
 * To reserve turns takes 0.5 ms with SQLite and 0.8 ms with PostgreSQL, to look for blocks 0.05 and 0.2 ms. A source
 * with a limit costs one reservation for as many turns as are asked for within 200 ms: fewer than 100 for 1,000 turns.
 * One without a limit costs none; blocks are looked up once a second, for all sources together, while requests go out.
 */
export class SourceLimits {
  readonly #budgets: RateBudgets;
  readonly #turns = new Map<string, SourceTurns>();
  readonly #blockedUntil = new Map<string, number>();
  #lookedAt = Number.NEGATIVE_INFINITY;
  #look: Promise<void> | null = null;

  constructor(budgets: RateBudgets) {
    this.#budgets = budgets;
  }

  /** `source`: as `appId/source`. */
  of(source: string, limit: RateLimit | undefined): SourceTurns {
    let turns = this.#turns.get(source);
    if (!turns) {
      this.#dropIdle();
      this.#turns.set(source, (turns = new SourceTurns(source, this.#budgets, this)));
    }
    turns.limit = limit ?? null;
    return turns;
  }

  /** By the clock of `performance.now()`; 0: it is not. */
  blockedUntil(source: string): number {
    return this.#blockedUntil.get(source) ?? 0;
  }

  /** For all jobs of all processes. */
  async block(block: Block): Promise<void> {
    const until = performance.now() + block.ms;
    if (until <= this.blockedUntil(block.source) + SAME_BLOCK_MS) return;
    this.#blockedUntil.set(block.source, until);
    try {
      await this.#budgets.block(block);
    } catch (error) {
      // The answer is there and must not be lost; this process keeps to the block all the same.
      if (!isUnavailable(error)) throw error;
    }
  }

  /** Learns of the blocks that others have met. */
  async look(): Promise<void> {
    const isStale = performance.now() - this.#lookedAt >= FRESH_MS;
    if (isStale) this.#look ??= this.#readBlocks().finally(() => (this.#look = null));
    await this.#look;
  }

  async forget(source: string): Promise<void> {
    this.#blockedUntil.delete(source);
    await this.#budgets.forget(source);
  }

  async #readBlocks(): Promise<void> {
    const now = performance.now();
    this.#lookedAt = now;
    for (const [source, until] of this.#blockedUntil) {
      if (until <= now) this.#blockedUntil.delete(source);
    }
    try {
      for (const { source, ms } of await this.#budgets.blocks()) {
        this.#blockedUntil.set(source, Math.max(this.blockedUntil(source), performance.now() + ms));
      }
    } catch (error) {
      // Without the database no page is committed; a request alone does not depend on it.
      if (!isUnavailable(error)) throw error;
    }
  }

  #dropIdle(): void {
    if (this.#turns.size < MOST_SOURCES) return;
    for (const [source, turns] of this.#turns) if (turns.isIdle) this.#turns.delete(source);
  }
}

/** The requests of this process to one source, in the order of asking. */
export class SourceTurns {
  limit: RateLimit | null = null;
  readonly #source: string;
  readonly #budgets: RateBudgets;
  readonly #all: SourceLimits;
  readonly #asking: PromiseWithResolvers<number>[] = [];
  /** Reserved and not given yet. */
  #stock: number[] = [];
  #isReserving = false;
  #given = 0;
  #wanted = 1;
  #usedAt = performance.now();

  constructor(source: string, budgets: RateBudgets, all: SourceLimits) {
    this.#source = source;
    this.#budgets = budgets;
    this.#all = all;
  }

  get isIdle(): boolean {
    return this.#asking.length === 0 && performance.now() - this.#usedAt > FRESH_MS;
  }

  /** Resolves when a request may go out. */
  async take({ signal, pause, kept }: Ask): Promise<void> {
    const keptAt = kept === null ? Number.NEGATIVE_INFINITY : kept - Date.now() + performance.now();
    let at = keptAt + LATE_MS < performance.now() ? await this.#next() : keptAt;
    for (;;) {
      await until(at, { signal, pause });
      await this.#all.look();
      if (this.#all.blockedUntil(this.#source) <= performance.now()) return;
      at = await this.#next();
    }
  }

  /** What the system has said of its own limits. */
  blocked(ms: number): Promise<void> {
    return this.#all.block({ source: this.#source, ms });
  }

  #next(): Promise<number> {
    this.#usedAt = performance.now();
    if (!this.limit) return Promise.resolve(Math.max(this.#usedAt, this.#all.blockedUntil(this.#source)));
    const asked = Promise.withResolvers<number>();
    this.#asking.push(asked);
    this.#give();
    return asked.promise;
  }

  #give(): void {
    this.#dropUseless();
    while (this.#asking.length > 0 && this.#stock.length > 0) {
      this.#asking.shift()?.resolve(this.#stock.shift() as number);
      this.#given += 1;
    }
    if (this.#asking.length > 0 && !this.#isReserving && this.limit) void this.#reserve(this.limit);
  }

  #dropUseless(): void {
    const now = performance.now();
    const blockedUntil = this.#all.blockedUntil(this.#source);
    const useful = this.#stock.filter((at) => at + LATE_MS >= now && at >= blockedUntil);
    if (useful.length < this.#stock.length) this.#wanted = Math.max(1, this.#given);
    this.#stock = useful;
  }

  /** As many as were used of the last run, twice as many when that was not enough. */
  async #reserve(limit: RateLimit): Promise<void> {
    const intervalMs = intervalOf(limit);
    const fitting = Math.max(1, Math.floor(RUN_MS / intervalMs));
    const turns = Math.min(fitting, Math.max(this.#wanted, this.#asking.length));
    this.#isReserving = true;
    try {
      const { waitMs } = await this.#budgets.reserve(this.#source, turns, intervalMs);
      const first = performance.now() + waitMs;
      this.#stock = Array.from({ length: turns }, (_, index) => first + index * intervalMs);
      this.#given = 0;
      this.#wanted = turns * 2;
    } catch (error) {
      for (const asked of this.#asking.splice(0)) asked.reject(error);
    }
    this.#isReserving = false;
    this.#give();
  }
}

/** So that even with the latest use of a turn no window of `perSeconds` has more than `requests`. */
function intervalOf({ requests, perSeconds }: RateLimit): number {
  return (perSeconds * 1000 + LATE_MS) / requests;
}

/** `at`: by the clock of `performance.now()`. */
export async function until(at: number, { signal, pause }: Omit<Ask, 'kept'>): Promise<void> {
  for (let waitMs = at - performance.now(); waitMs > 0; waitMs = at - performance.now()) {
    signal.throwIfAborted();
    if (waitMs > LONGEST_PAUSE_MS) await pause(Math.ceil(Date.now() + waitMs));
    try {
      await delay(Math.min(waitMs, LONGEST_TIMER_MS), undefined, { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }
}
