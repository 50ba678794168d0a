import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** What the fake API received; recorded when the head has come, the body's fields are filled as it arrives. */
export interface ReceivedRequest {
  method: string;
  /** Path and query exactly as they were sent. */
  url: string;
  path: string;
  query: URLSearchParams;
  /** Lower-case names. */
  headers: IncomingHttpHeaders;
  /** Names and values in turn, as they were sent. */
  rawHeaders: string[];
  /** The body's beginning where it is longer than the option `keepBodyBytes`. */
  body: Buffer;
  bodyBytes: number;
  /** Of the whole body; '' until it is complete. */
  bodySha256: string;
  complete: boolean;
  /** When the head arrived, by the clock of `performance.now()`. */
  atMs: number;
  /** undefined: not answered yet. */
  readonly status: number | undefined;
}

/** Thrown by a handler: answered as JSON with this status. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly code: string;
  readonly headers: OutgoingHttpHeaders;
  constructor(status: number, code: string, message: string, headers: OutgoingHttpHeaders = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** One request on its way through the fake API. `prefix` is the part of the path that guards have taken. */
export class Exchange {
  readonly request: ReceivedRequest;
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  readonly origin: string;
  prefix = '';
  path: string;

  constructor(request: ReceivedRequest, message: IncomingMessage, response: ServerResponse, origin: string) {
    this.request = request;
    this.message = message;
    this.response = response;
    this.origin = origin;
    this.path = request.path;
  }

  get query(): URLSearchParams {
    return this.request.query;
  }

  /** A query parameter that is a whole number. */
  number(name: string, fallback: number, { min = 0, max = 1_000_000_000 } = {}): number {
    const text = this.query.get(name);
    if (text === null || text === '') return fallback;
    const value = Number(text);
    if (!/^-?\d+$/.test(text) || value < min || value > max) {
      throw new Refusal(
        400,
        'bad_parameter',
        `${name} must be a whole number from ${min} to ${max}, not ${text}`,
      );
    }
    return value;
  }

  /** Path and query of this request with other parameters; a guard's prefix stays. */
  target(changes: Record<string, string | number>): string {
    const query = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) query.set(name, String(value));
    return `${this.prefix}${this.path}?${query.toString()}`;
  }

  /** The same as an absolute URL. */
  link(changes: Record<string, string | number>): string {
    return this.origin + this.target(changes);
  }

  json(status: number, value: unknown, headers: OutgoingHttpHeaders = {}): void {
    this.send(status, JSON.stringify(value), { 'content-type': 'application/json', ...headers });
  }

  send(status: number, body: string | Uint8Array, headers: OutgoingHttpHeaders = {}): void {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const length = status === 204 || status === 304 ? {} : { 'content-length': bytes.byteLength };
    this.response.writeHead(status, { ...length, ...headers }).end(bytes);
  }

  /** The body as JSON; anything else is refused with 400. */
  jsonBody(): unknown {
    try {
      return JSON.parse(this.request.body.toString('utf8'));
    } catch (error) {
      throw new Refusal(400, 'bad_json', `the body is no JSON: ${(error as Error).message}`);
    }
  }

  form(): URLSearchParams {
    return new URLSearchParams(this.request.body.toString('utf8'));
  }
}

/** Until more can be written, or nobody reads any more. */
export async function drained(response: ServerResponse): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  await Promise.race([once(response, 'drain', { signal }), once(response, 'close', { signal })]);
  over.abort();
}

const EMPTY_SHA256 = createHash('sha256').digest('hex');

/** Reads the body to its end; false: the other side broke off. */
export async function readBody(exchange: Exchange, keepBytes: number): Promise<boolean> {
  const { request, message } = exchange;
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  if (coding === undefined && (length === undefined || length === '0')) {
    message.resume();
    request.complete = true;
    request.bodySha256 = EMPTY_SHA256;
    return true;
  }
  const hash = createHash('sha256');
  const kept: Buffer[] = [];
  try {
    for await (const chunk of message as AsyncIterable<Buffer>) {
      hash.update(chunk);
      if (request.bodyBytes < keepBytes) kept.push(chunk.subarray(0, keepBytes - request.bodyBytes));
      request.bodyBytes += chunk.length;
    }
  } catch (error) {
    if (!message.destroyed && !message.errored) throw error;
  }
  request.body = Buffer.concat(kept);
  request.complete = message.complete;
  request.bodySha256 = message.complete ? hash.digest('hex') : '';
  return message.complete;
}

export function received(message: IncomingMessage, response: ServerResponse): ReceivedRequest {
  const { method = '', url = '', headers, rawHeaders } = message;
  const [path = '', ...query] = url.split('?');
  const request: ReceivedRequest = {
    method,
    url,
    path,
    query: new URLSearchParams(query.join('?')),
    headers,
    rawHeaders,
    body: Buffer.alloc(0),
    bodyBytes: 0,
    bodySha256: '',
    complete: false,
    atMs: performance.now(),
    get status() {
      return response.headersSent ? response.statusCode : undefined;
    },
  };
  // A record must not keep its connection.
  response.once('close', () => Object.defineProperty(request, 'status', { value: request.status }));
  return request;
}
