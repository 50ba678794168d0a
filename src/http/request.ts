import { HttpFailure } from './failure.ts';

export type Headers = readonly (readonly [name: string, value: string])[];
/** A function is called anew for each try. */
export type OutgoingBody = string | Uint8Array | (() => AsyncIterable<Uint8Array>) | null;

export interface OutgoingRequest {
  method: string;
  url: string;
  /** Sent as they are; `Host` may be given. */
  headers: Headers;
  body: OutgoingBody;
}

/** A request that was checked, as it goes onto the wire. */
export interface WireRequest {
  method: string;
  url: URL;
  /** Path and query; the absolute URL when an HTTP proxy is to pass the request on. */
  target: string;
  headers: Headers;
  body: Uint8Array | (() => AsyncIterable<Uint8Array>) | null;
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/;
/** The connection's own matter: what a script says of it could only break the framing. */
const OF_THE_CONNECTION = ['keep-alive', 'upgrade', 'expect', 'proxy-authorization'];

/** Sent unless the request has a header of the same name: some APIs refuse requests without them. */
const DEFAULT_HEADERS: Headers = [
  ['Accept', '*/*'],
  ['Accept-Encoding', 'gzip, deflate, br, zstd'],
  ['User-Agent', 'millrace'],
];

export function parseUrl(url: string, base?: string): URL {
  if (!URL.canParse(url, base))
    throw new HttpFailure('invalid_url', 'the URL of the request cannot be parsed');
  const parsed = new URL(url, base);
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') {
    throw new HttpFailure(
      'egress',
      `the URL begins with ${parsed.protocol}, only http: and https: are allowed`,
    );
  }
  return parsed;
}

export function headerOf(headers: Headers, name: string): string | undefined {
  return headers.find(([candidate]) => candidate.toLowerCase() === name)?.[1];
}

export function wireRequest(request: OutgoingRequest): WireRequest {
  checkMethod(request.method);
  const url = parseUrl(request.url);
  checkHeaders(request.headers);
  const chunked = headerOf(request.headers, 'transfer-encoding') !== undefined;
  const known = typeof request.body === 'string' ? Buffer.from(request.body) : request.body;
  const body = chunked && known instanceof Uint8Array ? async function* () { yield known; } : known; // prettier-ignore
  checkLength(request.headers, body, chunked);
  const sent = request.headers.filter(([name]) => !isFraming(name, body));
  const missing = DEFAULT_HEADERS.filter(
    ([name]) => headerOf(request.headers, name.toLowerCase()) === undefined,
  );
  return {
    method: request.method,
    url,
    target: targetOf(url, request.url),
    body,
    headers: [...sent, ...missing, ...basic(url, sent)],
  };
}

/** Visible ASCII without a fragment, a backslash or what a URL parser would rewrite into something else. */
const SENDABLE_TARGET = /^\/[!$-[\]^_`a-z{|}~"]*$/;

/** Everything behind the origin, to the byte where it can be sent so: `new URL` would turn an apostrophe into %27. */
function targetOf(url: URL, written: string): string {
  const asWritten = written.startsWith(`${url.origin}/`) ? written.slice(url.origin.length) : '';
  if (SENDABLE_TARGET.test(asWritten) && !/\/\.{1,2}(?:[/?]|$)/.test(asWritten)) return asWritten;
  const bare = new URL(url);
  bare.username = '';
  bare.password = '';
  bare.hash = '';
  return bare.href.slice(bare.origin.length);
}

/** `http://user:password@host` means Basic authorization, as in browsers. */
function basic(url: URL, headers: Headers): Headers {
  if ((url.username === '' && url.password === '') || headerOf(headers, 'authorization') !== undefined)
    return [];
  const credentials = `${unescaped(url.username)}:${unescaped(url.password)}`;
  return [['Authorization', `Basic ${Buffer.from(credentials).toString('base64')}`]];
}

function unescaped(text: string): string {
  const bytes = text.replaceAll(/(?:%[0-9a-f]{2})+/gi, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'),
  );
  return bytes;
}

function checkMethod(method: string): void {
  if (TOKEN.test(method) && !['CONNECT', 'TRACE'].includes(method.toUpperCase())) return;
  throw new HttpFailure(
    'invalid_method',
    `${JSON.stringify(method.slice(0, 50))} is no method that can be sent`,
  );
}

function checkHeaders(headers: Headers): void {
  const seen = new Set<string>();
  for (const [name, value] of headers) {
    const shown = JSON.stringify(name.slice(0, 100));
    const lower = name.toLowerCase();
    if (!TOKEN.test(name))
      throw new HttpFailure(
        'invalid_header',
        `the header name ${shown} holds characters that no name may hold`,
      );
    const at = value.search(UNSENDABLE);
    if (at !== -1)
      throw new HttpFailure(
        'invalid_header',
        `the value of the header ${shown} holds ${characterName(value, at)}, which no header may hold`,
      );
    if (OF_THE_CONNECTION.includes(lower)) {
      throw new HttpFailure(
        'invalid_header',
        `the header ${shown} cannot be set: it belongs to the connection, which the service keeps`,
      );
    }
    if (['host', 'content-length', 'transfer-encoding'].includes(lower) && seen.has(lower)) {
      throw new HttpFailure('invalid_header', `the header ${shown} is given twice`);
    }
    seen.add(lower);
  }
  checkFraming(headers);
}

function checkFraming(headers: Headers): void {
  const encoding = headerOf(headers, 'transfer-encoding');
  const length = headerOf(headers, 'content-length');
  const host = headerOf(headers, 'host');
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'chunked') {
    throw new HttpFailure('invalid_header', 'the header "Transfer-Encoding" can only be chunked');
  }
  if (encoding !== undefined && length !== undefined) {
    throw new HttpFailure(
      'invalid_header',
      'the headers "Transfer-Encoding" and "Content-Length" exclude each other',
    );
  }
  if (length !== undefined && !/^\d{1,15}$/.test(length)) {
    throw new HttpFailure('invalid_header', 'the header "Content-Length" must be a whole number');
  }
  if (host !== undefined && !/^[^\s/?#@\\]*$/.test(host)) {
    throw new HttpFailure('invalid_header', 'the header "Host" must be a host name, with a port or without');
  }
  const connection = headerOf(headers, 'connection');
  if (connection !== undefined && !/^(?:close|keep-alive)$/i.test(connection.trim())) {
    throw new HttpFailure('invalid_header', 'the header "Connection" can only be close or keep-alive');
  }
}

function checkLength(headers: Headers, body: WireRequest['body'], chunked: boolean): void {
  const given = headerOf(headers, 'content-length');
  if (given === undefined || chunked || typeof body === 'function') return;
  const length = body?.byteLength ?? 0;
  if (Number(given) !== length) {
    throw new HttpFailure(
      'invalid_header',
      `the header "Content-Length" is ${given}, but the body has ${length} bytes`,
    );
  }
}

/** Headers that the transport writes itself, from the body that it sends. */
function isFraming(name: string, body: WireRequest['body']): boolean {
  const lower = name.toLowerCase();
  return lower === 'transfer-encoding' || (lower === 'content-length' && typeof body !== 'function');
}

function characterName(value: string, at: number): string {
  const code = value.codePointAt(at) as number;
  const names: Record<number, string> = { 0: 'a NUL', 10: 'a line feed', 13: 'a carriage return' };
  return (
    names[code] ?? `the character U+${code.toString(16).toUpperCase().padStart(4, '0')} at position ${at + 1}`
  );
}
