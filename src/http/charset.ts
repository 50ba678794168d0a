import { isUtf8 } from 'node:buffer';
import { HttpFailure } from './failure.ts';

interface Answer {
  headers: Readonly<Record<string, string | string[]>>;
  body: AsyncIterable<Uint8Array>;
}

/** The whole body as UTF-8 without a byte order mark, whatever charset it came in. */
export async function readUtf8(answer: Answer, limitBytes: number): Promise<Uint8Array> {
  return toUtf8(await readBytes(answer, limitBytes), answer.headers['content-type']);
}

/** The whole body; larger than the limit (after decompression) is an error, and the rest is not read. */
export async function readBytes({ headers, body }: Answer, limitBytes: number): Promise<Uint8Array> {
  const announced = headers['content-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : 0;
  if (announced > limitBytes) throw tooLarge(limitBytes);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > limitBytes) throw tooLarge(limitBytes);
    chunks.push(chunk);
  }
  return chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks, bytes);
}

function tooLarge(limitBytes: number): HttpFailure {
  return new HttpFailure(
    'too_large',
    `the answer is larger than the limit of ${limitBytes} bytes (maxResponseBytes)`,
    {
      sent: true,
    },
  );
}

/** A byte order mark says more than the header, as in browsers. Bytes that are no UTF-8 become U+FFFD. */
export function toUtf8(bytes: Uint8Array, contentType: string | string[] | undefined): Uint8Array {
  const mark = markedCharset(bytes);
  const charset = mark ?? charsetOf(String(contentType ?? '')) ?? 'utf-8';
  const start = mark === 'utf-8' ? 3 : 0;
  const rest = start ? bytes.subarray(start) : bytes;
  if (/^(?:utf-?8|us-ascii|ascii)$/i.test(charset) && isUtf8(rest)) return rest;
  return Buffer.from(decoderFor(charset, bytes).decode(rest), 'utf8');
}

function markedCharset(bytes: Uint8Array): string | null {
  const [a, b, c] = bytes;
  if (a === 0xef && b === 0xbb && c === 0xbf) return 'utf-8';
  if (a === 0xff && b === 0xfe) return 'utf-16le';
  return a === 0xfe && b === 0xff ? 'utf-16be' : null;
}

export function charsetOf(contentType: string): string | null {
  const found = /;\s*charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,]+))/i.exec(contentType);
  return (
    found
      ?.slice(1)
      .find((value) => value)
      ?.trim() || null
  );
}

function decoderFor(charset: string, bytes: Uint8Array): Pick<InstanceType<typeof TextDecoder>, 'decode'> {
  try {
    return new TextDecoder(charset);
  } catch (cause) {
    // Some servers name their database's charset ("utf8mb4"): what is valid UTF-8 is taken as that.
    if (isUtf8(bytes)) return new TextDecoder();
    throw new HttpFailure('decoding', `the charset ${JSON.stringify(charset)} of the answer is unknown`, {
      sent: true,
      cause,
    });
  }
}
