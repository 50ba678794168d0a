import { HttpFailure } from './failure.ts';
import { parameterName } from './redaction.ts';
import { parseUrl, type Headers, type OutgoingRequest } from './request.ts';

/** What must not go along to another origin, besides Authorization and Cookie. */
export interface Credentials {
  headers: readonly string[];
  /** Names of query parameters. */
  parameters: readonly string[];
}

export interface RedirectOptions {
  /** How many are followed; 0: none, the redirect itself is the answer. */
  redirects: number;
  credentials: Credentials;
  /** Whether credentials may go along to another origin. Never from https: to http:. */
  mayHaveCredentials?: ((url: URL) => boolean) | undefined;
}

const ALWAYS_CREDENTIALS = ['authorization', 'cookie', 'proxy-authorization'];
const OF_THE_BODY = /^(?:content-.*|transfer-encoding)$/i;

/** Where the answer sends the request; null: it does not. */
export function redirectTarget(
  statusCode: number,
  location: string | undefined,
  from: string,
): string | null {
  if (![301, 302, 303, 307, 308].includes(statusCode) || !location) return null;
  // Locations hold UTF-8 in practice, which the parser has read as latin1.
  const text = Buffer.from(location, 'latin1').toString('utf8');
  if (!URL.canParse(text, from))
    throw new HttpFailure('redirects', 'the answer redirects to a URL that cannot be parsed', { sent: true });
  return parseUrl(text, from).href;
}

/** The request as it goes to the new place: as browsers do, and without credentials that do not belong there. */
export function redirected(
  request: OutgoingRequest,
  statusCode: number,
  target: string,
  options: RedirectOptions,
): { request: OutgoingRequest; credentialsDropped: boolean } {
  const { method } = request;
  const becomesGet =
    (statusCode === 303 && method !== 'GET' && method !== 'HEAD') ||
    ((statusCode === 301 || statusCode === 302) && method === 'POST');
  const from = new URL(request.url);
  const to = new URL(target);
  const sameOrigin = from.origin === to.origin;
  const credentialsDropped = !sameOrigin && !mayTake(from, to, options);
  let headers: Headers = request.headers;
  if (becomesGet) headers = headers.filter(([name]) => !OF_THE_BODY.test(name));
  if (!sameOrigin) headers = headers.filter(([name]) => name.toLowerCase() !== 'host');
  if (credentialsDropped) headers = withoutCredentials(headers, options.credentials);
  if (sameOrigin) inheritUserInfo(from, to);
  if (credentialsDropped) {
    to.username = '';
    to.password = '';
  }
  const url = credentialsDropped ? withoutParameters(to.href, options.credentials.parameters) : to.href;
  const kept = becomesGet ? { method: 'GET', body: null } : { method, body: request.body };
  return { request: { ...kept, url, headers }, credentialsDropped };
}

function mayTake(from: URL, to: URL, { mayHaveCredentials }: RedirectOptions): boolean {
  const downgraded = from.protocol === 'https:' && to.protocol === 'http:';
  return !downgraded && (mayHaveCredentials?.(to) ?? false);
}

function inheritUserInfo(from: URL, to: URL): void {
  if (to.username !== '' || to.password !== '') return;
  to.username = from.username;
  to.password = from.password;
}

function withoutCredentials(headers: Headers, credentials: Credentials): Headers {
  const names = new Set([...ALWAYS_CREDENTIALS, ...credentials.headers.map((name) => name.toLowerCase())]);
  return headers.filter(([name]) => !names.has(name.toLowerCase()));
}

/** Cut out of the text, so that all other parameters keep their bytes. */
function withoutParameters(url: string, names: readonly string[]): string {
  const start = url.indexOf('?');
  if (start === -1 || names.length === 0) return url;
  const end = url.indexOf('#', start);
  const query = url.slice(start + 1, end === -1 ? undefined : end);
  const kept = query.split('&').filter((pair) => !names.includes(parameterName(pair)));
  return (
    url.slice(0, start) + (kept.length > 0 ? `?${kept.join('&')}` : '') + (end === -1 ? '' : url.slice(end))
  );
}
