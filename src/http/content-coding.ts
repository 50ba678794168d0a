import { once } from 'node:events';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
  type ZlibOptions,
} from 'node:zlib';
import { HttpFailure } from './failure.ts';

type Decoder = ReturnType<typeof createGunzip> | ReturnType<typeof createBrotliDecompress>;
type Bytes = AsyncIterable<Uint8Array>;

interface Coding {
  /** Chosen by the first byte: `deflate` is sent with a zlib header and without. */
  decoder(first: Uint8Array): Decoder;
  /** Whether another stream may follow the first one (RFC 8878, 3). Gunzip goes on by itself. */
  repeats: boolean;
}

const OPTIONS: ZlibOptions = { chunkSize: 64 * 1024 };
const MOST_CODINGS = 5;

const gzip: Coding = { decoder: () => createGunzip(OPTIONS), repeats: false };
const codings: Record<string, Coding> = {
  gzip,
  'x-gzip': gzip,
  deflate: {
    decoder: (first) => (((first[0] ?? 0) & 0x0f) === 8 ? createInflate(OPTIONS) : createInflateRaw(OPTIONS)),
    repeats: false,
  },
  br: { decoder: () => createBrotliDecompress({ chunkSize: OPTIONS.chunkSize }), repeats: false },
  zstd: { decoder: () => createZstdDecompress({ chunkSize: OPTIONS.chunkSize }), repeats: true },
};

/** Undoes the Content-Encoding, the last one first. A stream that is cut short is an error. */
export function decoded(body: Bytes, contentEncoding: string | undefined): Bytes {
  const names = (contentEncoding ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length > MOST_CODINGS) {
    throw new HttpFailure(
      'decoding',
      `the answer has ${names.length} codings, at most ${MOST_CODINGS} are undone`,
      { sent: true },
    );
  }
  return names.reduceRight<Bytes>((bytes, name) => {
    const coding = Object.hasOwn(codings, name) ? codings[name] : undefined;
    if (!coding) {
      const known = 'gzip, deflate, br, zstd';
      throw new HttpFailure(
        'decoding',
        `the Content-Encoding ${JSON.stringify(name)} is unknown; known are ${known}`,
        { sent: true },
      );
    }
    return undo(bytes, name, coding);
  }, body);
}

async function* undo(body: Bytes, name: string, coding: Coding): AsyncGenerator<Uint8Array, void> {
  const input = new Input(body);
  try {
    let chunk = await input.next();
    // An empty body is no compressed stream: HEAD, 204, and servers that set the header always.
    while (chunk) {
      const decoder = coding.decoder(chunk);
      yield* oneStream(input, chunk, decoder, name);
      chunk = await input.next();
      if (chunk && !coding.repeats)
        throw new HttpFailure('decoding', `the ${name} stream is followed by something else`, { sent: true });
    }
  } finally {
    input.close();
  }
}

async function* oneStream(
  input: Input,
  first: Uint8Array,
  decoder: Decoder,
  name: string,
): AsyncGenerator<Uint8Array, void> {
  const feeding = feed(input, first, decoder);
  // Its failure reaches the reader through the decoder, which it destroys.
  const fed = feeding.catch((error: Error) => decoder.destroy(error));
  try {
    for await (const chunk of decoder) yield chunk as Uint8Array;
    await fed;
  } catch (error) {
    throw asDecodingFailure(error, name);
  } finally {
    decoder.destroy();
  }
}

/** Gives the decoder one chunk after the other; what lies behind the end of the stream goes back to the input. */
async function feed(input: Input, first: Uint8Array, decoder: Decoder): Promise<void> {
  const ended = once(decoder, 'end').then(() => undefined, () => undefined); // prettier-ignore
  let chunk: Uint8Array | null = first;
  while (chunk && !decoder.destroyed && !decoder.readableEnded) {
    const before: number = decoder.bytesWritten;
    const piece: Uint8Array = chunk;
    const written = new Promise<void>((resolve) => {
      decoder.write(piece, () => resolve());
    });
    await Promise.race([written, ended]);
    const taken = decoder.bytesWritten - before;
    if (taken < piece.byteLength) {
      input.putBack(piece.subarray(taken));
      return;
    }
    chunk = await input.next();
  }
  if (chunk) input.putBack(chunk);
  else decoder.end();
}

function asDecodingFailure(error: unknown, name: string): unknown {
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (code === 'Z_BUF_ERROR') {
    return new HttpFailure('truncated', `the ${name} stream of the answer ends before it is complete`, {
      sent: true,
      cause: error,
    });
  }
  const fromZlib = /^(?:Z_|ERR_|ZSTD_|BROTLI_)/.test(code);
  return fromZlib
    ? new HttpFailure('decoding', `the answer is no valid ${name} stream: ${message}`, {
        sent: true,
        cause: error,
      })
    : error;
}

/** The chunks of a body, of which the rest of one can be put back. */
class Input {
  readonly #iterator: AsyncIterator<Uint8Array>;
  #back: Uint8Array | null = null;

  constructor(body: Bytes) {
    this.#iterator = body[Symbol.asyncIterator]();
  }

  putBack(rest: Uint8Array): void {
    this.#back = rest;
  }

  async next(): Promise<Uint8Array | null> {
    if (this.#back) {
      const back = this.#back;
      this.#back = null;
      return back;
    }
    for (;;) {
      const { done, value } = await this.#iterator.next();
      if (done) return null;
      if (value.byteLength > 0) return value;
    }
  }

  /** Not waited for: a chunk may be asked for that never comes. Whoever reads the body cancels it. */
  close(): void {
    void this.#iterator.return?.();
  }
}
