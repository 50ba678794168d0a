import { HttpFailure } from './failure.ts';
import { Watchdog } from './watchdog.ts';

/** From the call to the last byte of the answer: ends with the caller's signal or after totalTimeout. */
export class Lifetime {
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal;
  readonly #watchdog = new Watchdog();

  constructor(outer: AbortSignal, totalTimeoutMs: number | undefined) {
    outer.throwIfAborted();
    this.#outer = outer;
    outer.addEventListener('abort', this.#onOuterAbort, { once: true });
    if (totalTimeoutMs !== undefined) {
      const text = `the request took longer than ${totalTimeoutMs / 1000} s (totalTimeout)`;
      this.#watchdog.start(totalTimeoutMs, () => {
        this.#abort.abort(new HttpFailure('total_timeout', text, { sent: true }));
      });
    }
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  end(): void {
    this.#watchdog.stop();
    this.#outer.removeEventListener('abort', this.#onOuterAbort);
  }

  readonly #onOuterAbort = (): void => this.#abort.abort(this.#outer.reason);
}

/** The same bytes, as long as the request lives; `onEnd` is called when the last one was read, or none will be. */
export async function* whileAlive(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  onEnd: () => void,
): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of body) {
      signal.throwIfAborted();
      yield chunk;
    }
    signal.throwIfAborted();
  } finally {
    onEnd();
  }
}
