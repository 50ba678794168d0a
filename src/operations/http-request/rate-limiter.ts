/** At most so many requests of one job in so many seconds: each request gets the next free moment. */
export class RateLimiter {
  readonly #intervalMs: number;
  readonly #now: () => number;
  #free = 0;

  constructor(
    { requests, perSeconds }: { requests: number; perSeconds: number },
    now: () => number = Date.now,
  ) {
    this.#intervalMs = (perSeconds * 1000) / requests;
    this.#now = now;
  }

  /** How long to wait until it is this request's turn, in milliseconds. */
  reserve(): number {
    const now = this.#now();
    const turn = Math.max(now, this.#free);
    this.#free = turn + this.#intervalMs;
    return turn - now;
  }
}
