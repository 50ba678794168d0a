/** How much is handed to the socket at once, so that progress can be seen within a large body. */
const SLICE_BYTES = 64 * 1024;

export interface SendingProgress {
  /** The transport has asked for more: what came before is on its way. The source may now take its time. */
  onTaken(): void;
  /** More was handed to the transport. */
  onHanded(): void;
  /** The source itself failed. */
  onSourceError(error: unknown): void;
}

export async function* watched(
  source: AsyncIterable<Uint8Array>,
  progress: SendingProgress,
): AsyncGenerator<Uint8Array, void> {
  const iterator = source[Symbol.asyncIterator]();
  let ended = false;
  try {
    for (;;) {
      progress.onTaken();
      const { done, value } = await next(iterator, progress);
      if (done) {
        ended = true;
        break;
      }
      for (let at = 0; at < value.byteLength; at += SLICE_BYTES) {
        progress.onHanded();
        yield value.subarray(at, at + SLICE_BYTES);
      }
    }
  } finally {
    if (!ended) await iterator.return?.();
  }
  progress.onHanded();
}

async function next(iterator: AsyncIterator<Uint8Array>, progress: SendingProgress) {
  try {
    return await iterator.next();
  } catch (error) {
    progress.onSourceError(error);
    throw error;
  }
}

export async function* inOnePiece(body: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield body;
}

/** A body that fits is handed over whole, and the transport tells its length. */
export function needsSlices(body: Uint8Array): boolean {
  return body.byteLength > SLICE_BYTES;
}
