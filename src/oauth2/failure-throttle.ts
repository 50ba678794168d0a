/**
 * Counts failures by key: `burst` of them are free, one more every `secondsPerFailure`. Kept in memory, so each
 * node counts for itself.
 */
export class FailureThrottle {
  readonly #burst: number;
  readonly #msPerFailure: number;
  readonly #now: () => number;
  /** When all failures of a key will be forgiven. */
  readonly #forgivenAt = new Map<string, number>();

  constructor(limit: { burst: number; secondsPerFailure: number }, now: () => number = Date.now) {
    this.#burst = limit.burst;
    this.#msPerFailure = limit.secondsPerFailure * 1000;
    this.#now = now;
  }

  /** Seconds until the key has a failure free again; 0: it has one now. */
  retryAfter(key: string): number {
    const excess = this.#debt(key) - (this.#burst - 1) * this.#msPerFailure;
    return Math.max(0, Math.ceil(excess / 1000));
  }

  fail(key: string): void {
    // A key that is over its limit is not pushed further away: who goes on failing does not lock others out for hours.
    const debt = Math.min(this.#debt(key) + this.#msPerFailure, this.#burst * this.#msPerFailure);
    this.#forgivenAt.delete(key);
    if (this.#forgivenAt.size >= KEYS) this.#forget();
    this.#forgivenAt.set(key, this.#now() + debt);
  }

  #debt(key: string): number {
    return Math.max(0, (this.#forgivenAt.get(key) ?? 0) - this.#now());
  }

  /** The forgiven ones, and if there are none the oldest. */
  #forget(): void {
    const now = this.#now();
    for (const [key, forgivenAt] of this.#forgivenAt) if (forgivenAt <= now) this.#forgivenAt.delete(key);
    if (this.#forgivenAt.size >= KEYS)
      this.#forgivenAt.delete(this.#forgivenAt.keys().next().value as string);
  }
}

const KEYS = 100_000;
