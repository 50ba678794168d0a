import { Watchdog } from './watchdog.ts';

/** Above this the connection is not read any further until somebody takes what is there. */
const HIGH_WATER_BYTES = 256 * 1024;
/** What is read on for the sake of keeping the connection, when nobody wants the body. */
const DISCARD_BYTES = 256 * 1024;
const DISCARD_MS = 500;

export interface BodySource {
  pause(): void;
  resume(): void;
  /** Nobody wants the rest. */
  cancel(): void;
}

/** The bytes of an answer as they come off the connection, read once. */
export class IncomingBody implements AsyncIterable<Uint8Array> {
  readonly #source: BodySource;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #state: 'open' | 'ended' | 'failed' = 'open';
  #error: unknown = null;
  #paused = false;
  #taken = false;
  #discarding = false;
  #waiting: (() => void)[] = [];

  constructor(source: BodySource) {
    this.#source = source;
  }

  push(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength;
    if (!this.#discarding) this.#chunks.push(chunk);
    const limit = this.#discarding ? DISCARD_BYTES : HIGH_WATER_BYTES;
    if (this.#bytes >= limit) {
      if (this.#discarding) this.#source.cancel();
      else this.#pause();
    }
    this.#wakeUp();
  }

  end(): void {
    if (this.#state === 'open') this.#state = 'ended';
    this.#wakeUp();
  }

  fail(error: unknown): void {
    if (this.#state !== 'open') return;
    this.#state = 'failed';
    this.#error = error;
    this.#wakeUp();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    if (this.#taken) throw new TypeError('the body of an answer can be read only once');
    this.#taken = true;
    try {
      for (;;) {
        const chunk = this.#chunks.shift();
        if (chunk) {
          this.#bytes -= chunk.byteLength;
          if (this.#paused && this.#bytes < HIGH_WATER_BYTES / 2) this.#resume();
          yield chunk;
        } else if (this.#state === 'failed') {
          throw this.#error;
        } else if (this.#state === 'ended') {
          return;
        } else {
          await this.#change();
        }
      }
    } finally {
      this.cancel();
    }
  }

  /** Reads a small rest, so that the connection can be used again, and gives the connection up for a large or slow one. */
  async discard(): Promise<void> {
    this.#taken = true;
    this.#discarding = true;
    this.#chunks = [];
    this.#bytes = 0;
    if (this.#paused) this.#resume();
    const watchdog = new Watchdog();
    watchdog.start(DISCARD_MS, () => this.cancel());
    while (this.#isOpen()) await this.#change();
    watchdog.stop();
  }

  #isOpen(): boolean {
    return this.#state === 'open';
  }

  /** Nobody wants the rest: whoever waits for it is told, and the connection is given up. */
  cancel(): void {
    if (this.#isOpen()) this.#source.cancel();
  }

  #pause(): void {
    this.#paused = true;
    this.#source.pause();
  }

  #resume(): void {
    this.#paused = false;
    this.#source.resume();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #wakeUp(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
