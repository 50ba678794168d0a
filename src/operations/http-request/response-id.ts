import type { HttpResponse } from '../../http/http-client.ts';

const HEADERS = ['location', 'x-request-id'];
const LARGEST_BODY_BYTES = 64 * 1024;

/** What the system calls what it made: where it is, which request it was, or the `id` in the JSON of the answer. */
export function responseIdOf({
  headers,
  body,
}: Pick<HttpResponse, 'headers'> & { body: Uint8Array }): string | null {
  for (const name of HEADERS) {
    const value = headers[name];
    if (typeof value === 'string' && value !== '') return value;
  }
  return body.byteLength <= LARGEST_BODY_BYTES ? idIn(Buffer.from(body).toString()) : null;
}

function idIn(text: string): string | null {
  if (!text.trimStart().startsWith('{')) return null;
  try {
    const { id } = JSON.parse(text) as { id?: unknown };
    return typeof id === 'string' || Number.isSafeInteger(id) ? String(id) : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null; // whether it had to be JSON is not asked here
    throw error;
  }
}
