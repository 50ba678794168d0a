import type { JobPage } from '../../model/job.ts';
import type { Redactor } from '../../http/redaction.ts';
import type { PreparedRequest } from './interceptors/interceptor.ts';

const BODY_SHOWN = 2_000;

/** As it stands in the page log. null: it was not made. */
export function shownRequest(
  request: PreparedRequest | null,
  method: string,
  overriddenParameters: string[],
  redactor: Redactor,
): JobPage['request'] {
  if (!request) return { method, url: '', headers: [], body: null, overriddenParameters };
  const headers = [...request.headers];
  const values = redactor.headers(headers.map(({ name, value }) => [name, value]));
  return {
    method: request.method,
    url: redactor.url(request.url),
    headers: headers.map(({ name, setBy }, index) => ({ name, value: values[index]?.[1] ?? '', setBy })),
    body: shownBody(request.body, redactor),
    overriddenParameters,
  };
}

function shownBody(body: PreparedRequest['body'], redactor: Redactor): string | null {
  if (body === null) return null;
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) return '(streamed)';
  const text = typeof body === 'string' ? body : Buffer.from(body.subarray(0, BODY_SHOWN * 4)).toString();
  return redactor.text(text).slice(0, BODY_SHOWN);
}
