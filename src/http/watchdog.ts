/** The longest delay that a timer can hold; a longer one would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** One timer that is moved from one stage of a request to the next. */
export class Watchdog {
  #timer: NodeJS.Timeout | null = null;

  start(milliseconds: number, onExpiry: () => void): void {
    this.stop();
    this.#timer = setTimeout(onExpiry, Math.min(milliseconds, LONGEST_TIMER_MS));
  }

  /** Something moved: the time begins again. */
  touch(): void {
    this.#timer?.refresh();
  }

  stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/** Rejects with the signal's reason when it is aborted first. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => reject(signal.reason as Error);
  const timer = setTimeout(resolve, Math.min(milliseconds, LONGEST_TIMER_MS));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
