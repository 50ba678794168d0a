import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable, type Database } from '../database/database.ts';
import type { Records } from './records.ts';

/** Somebody else took the lease, because this holder could not renew it in time. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';

  constructor(lease: string, options?: ErrorOptions) {
    super(`the lease "${lease}" was not renewed in time and may be another's now`, options);
  }
}

const FIRST_POLL_MS = 10;
/** How late a waiter notices that its turn has come; 20 waiters then cost 100 small reads a second. */
const LONGEST_POLL_MS = 200;
const RENEWALS_PER_TTL = 3;

/**
 * What only one may do at a time, among all processes of one database. A holder that dies keeps the others waiting
 * for `ttlMs` at most. Times are those of the processes: their clocks may differ by a part of `ttlMs` only.
 */
export class Leases {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
  }

  /**
   * Waits for the lease, holds it while `work` runs, however long, and gives it back. The signal that `work` gets
   * is aborted when the lease was lost, and with the caller's.
   */
  async withLease<Result>(
    name: string,
    ttlMs: number,
    work: (signal: AbortSignal) => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    const holder = randomUUID();
    await this.#wait(name, holder, ttlMs, signal);
    const ended = new AbortController();
    const lost = new AbortController();
    const keeping = this.#keep(name, holder, ttlMs, ended.signal, lost);
    try {
      return await work(AbortSignal.any(signal ? [signal, lost.signal] : [lost.signal]));
    } finally {
      ended.abort();
      await keeping;
      await this.#release(name, holder);
    }
  }

  async #wait(name: string, holder: string, ttlMs: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    let pollMs = FIRST_POLL_MS;
    while (!((await this.#isFree(name)) && (await this.#take(name, holder, ttlMs)))) {
      // Not all at the same moment, so that nobody is always second.
      await wait(pollMs * (0.5 + Math.random() / 2), signal);
      signal?.throwIfAborted();
      pollMs = Math.min(LONGEST_POLL_MS, pollMs * 1.5);
    }
  }

  /** Only reads, so that waiting costs no writes. */
  async #isFree(name: string): Promise<boolean> {
    const lease = await this.#database.query
      .selectFrom('lease')
      .select('until')
      .where('name', '=', name)
      .executeTakeFirst();
    return lease === undefined || lease.until <= this.#now();
  }

  /** One statement: of several that try, the database lets one win. */
  async #take(name: string, holder: string, ttlMs: number): Promise<boolean> {
    const now = this.#now();
    const until = now + ttlMs;
    const taken = await this.#database.query
      .insertInto('lease')
      .values({ name, holder, until })
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet({ holder, until }).where('lease.until', '<=', now),
      )
      .returning('holder')
      .executeTakeFirst();
    return taken?.holder === holder;
  }

  async #keep(
    name: string,
    holder: string,
    ttlMs: number,
    ended: AbortSignal,
    lost: AbortController,
  ): Promise<void> {
    let until = this.#now() + ttlMs;
    while (await wait(ttlMs / RENEWALS_PER_TTL, ended, false)) {
      const next = this.#now() + ttlMs;
      try {
        if (!(await this.#renew(name, holder, next))) {
          lost.abort(new LeaseLost(name));
          return;
        }
        until = next;
      } catch (error) {
        // A database that is away for a moment costs no lease: it may be back before the time is over.
        if (isUnavailable(error) && this.#now() < until) continue;
        lost.abort(new LeaseLost(name, { cause: error }));
        return;
      }
    }
  }

  async #renew(name: string, holder: string, until: number): Promise<boolean> {
    const renewed = await this.#database.query
      .updateTable('lease')
      .set({ until })
      .where('name', '=', name)
      .where('holder', '=', holder)
      .returning('holder')
      .executeTakeFirst();
    return renewed !== undefined;
  }

  async #release(name: string, holder: string): Promise<void> {
    try {
      await this.#database.query
        .deleteFrom('lease')
        .where('name', '=', name)
        .where('holder', '=', holder)
        .execute();
    } catch (error) {
      // The work is done, and the lease ends by itself.
      if (!isUnavailable(error)) throw error;
    }
  }
}

/** False: the signal came first. `ref`: whether the process stays alive for it. */
async function wait(milliseconds: number, signal?: AbortSignal, ref = true): Promise<boolean> {
  try {
    await delay(milliseconds, undefined, { ref, ...(signal && { signal }) });
    return true;
  } catch (error) {
    if (signal?.aborted) return false;
    throw error;
  }
}
