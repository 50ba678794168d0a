import { unescape } from 'node:querystring';
import { parameterName } from '../../http/redaction.ts';

/** A URL or a parameter that cannot be sent. `path` is the field at fault, such as `parameters.ids[2]`. */
export class UrlError extends Error {
  override readonly name = 'UrlError';
  readonly kind: 'invalid_url' | 'invalid_parameter';
  readonly path: string;

  constructor(kind: UrlError['kind'], path: string, message: string, options?: ErrorOptions) {
    super(`${path}: ${message}`, options);
    this.kind = kind;
    this.path = path;
  }
}

/** An object as a script returns it: no array, no null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Says of a wrong value what it is, without showing it: it may be a secret. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  return typeof value === 'number' ? `the number ${value}` : `a ${typeof value}`;
}

/** RFC 3986: everything but the unreserved characters is percent-encoded. */
export function encodeRfc3986(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/**
 * The URL of a request, as it will be sent: absolute, or below the `baseUrl` of its source. As base URLs are
 * used everywhere, a leading slash does not leave the base: `https://h/v1` and `/items` give `https://h/v1/items`.
 */
export function requestUrl(url: unknown, baseUrl?: string): string {
  const reference = cleaned(url, 'request.url');
  if (baseUrl === undefined || SCHEME.test(reference)) return resolve(reference, 'request.url');
  const base = resolve(cleaned(baseUrl, 'baseUrl'), 'baseUrl');
  if (/[?#]/.test(baseUrl))
    throw new UrlError('invalid_url', 'baseUrl', 'it must have no query and no fragment');
  if (/^(?:\?|\/\/)/.test(reference)) return resolve(reference, 'request.url', base);
  return resolve(`./${reference.replace(/^\//, '')}`, 'request.url', base.endsWith('/') ? base : `${base}/`);
}

/** The `url` of a `doWhile`: absolute, or relative to the last one by RFC 3986. */
export function nextUrl(url: unknown, lastUrl: string): string {
  return resolve(cleaned(url, 'doWhile.url'), 'doWhile.url', lastUrl);
}

/**
 * A URL of this module in the two parts that HTTP sends. `new URL()` would change bytes of the query (an
 * apostrophe becomes %27), so a sender takes `path` from here.
 */
export function requestTarget(url: string): { origin: string; path: string } {
  const { origin } = new URL(url);
  return { origin, path: url.slice(origin.length) };
}

/**
 * Adds parameters to a URL. One that is given takes the place of all of the same (decoded) name in the URL, an
 * empty array thus removes them; the others keep their bytes and order. `overridden` names what was replaced.
 */
export function withParameters(
  url: string,
  parameters: unknown,
  path = 'parameters',
): { url: string; overridden: string[] } {
  const given = parameterValues(parameters, path);
  const [beforeQuery, query] = splitQuery(url);
  const present = (query ?? '').split('&').filter((pair) => pair !== '');
  const kept = present.filter((pair) => !given.has(parameterName(pair)));
  const added = [...given].flatMap(([name, values]) =>
    values.map((value) => `${encodeRfc3986(name)}=${encodeRfc3986(value)}`),
  );
  const presentNames = new Set(present.map(parameterName));
  const pairs = [...kept, ...added];
  return {
    // Without parameters nothing is touched, not even an empty pair as in `?a=1&&b=2`.
    url: given.size === 0 ? url : beforeQuery + (pairs.length > 0 ? `?${pairs.join('&')}` : ''),
    overridden: [...given.keys()].filter((name) => presentNames.has(name)),
  };
}

/** Cuts out the parameters of these names that hold one of these values; the others keep their bytes. */
export function withoutParameters(url: string, names: readonly string[], values: readonly string[]): string {
  const [beforeQuery, query] = splitQuery(url);
  const pairs = query?.split('&') ?? [];
  const kept = pairs.filter(
    (pair) => !names.includes(parameterName(pair)) || !values.includes(parameterValue(pair)),
  );
  if (kept.length === pairs.length) return url;
  return beforeQuery + (kept.length > 0 ? `?${kept.join('&')}` : '');
}

function parameterValue(pair: string): string {
  const equals = pair.indexOf('=');
  return equals < 0 ? '' : unescape(pair.slice(equals + 1).replaceAll('+', ' '));
}

function parameterValues(parameters: unknown, path: string): Map<string, string[]> {
  if (parameters === null || parameters === undefined) return new Map();
  if (!isRecord(parameters)) {
    throw new UrlError(
      'invalid_parameter',
      path,
      `must be an object of parameter names and values, not ${kindOf(parameters)}`,
    );
  }
  const values = new Map<string, string[]>();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined) continue;
    const field = name === '' ? path : `${path}.${name}`;
    if (name === '') throw new UrlError('invalid_parameter', field, 'there is a parameter without a name');
    if (!name.isWellFormed()) {
      throw new UrlError('invalid_parameter', path, 'the name of a parameter holds half of a surrogate pair');
    }
    values.set(
      name,
      Array.isArray(value)
        ? value.map((item: unknown, index) => parameterText(item, `${field}[${index}]`))
        : [parameterText(value, field)],
    );
  }
  return values;
}

function parameterText(value: unknown, path: string): string {
  if (value === null) return '';
  if (typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)))
    return String(value);
  if (typeof value !== 'string') {
    const allowed = 'a string, a finite number, a boolean, null (an empty value) or an array of these';
    throw new UrlError('invalid_parameter', path, `must be ${allowed}, not ${kindOf(value)}`);
  }
  if (!value.isWellFormed()) {
    throw new UrlError('invalid_parameter', path, 'holds half of a surrogate pair, which UTF-8 cannot carry');
  }
  return value;
}

const SCHEME = /^[a-z][a-z0-9+.-]*:/i;
const ALLOWED = 'it must begin with http:// or https://';

function resolve(reference: string, path: string, base?: string): string {
  const [scheme] = SCHEME.exec(reference) ?? [];
  if (scheme !== undefined && !/^https?:\/\//i.test(reference)) {
    const hint =
      base === undefined ? '' : `; a relative URL with a colon in its first segment begins with ./`;
    throw new UrlError(
      'invalid_url',
      path,
      `"${shown(reference)}" has the scheme "${scheme}": ${ALLOWED}${hint}`,
    );
  }
  if (scheme === undefined && base === undefined) {
    throw new UrlError(
      'invalid_url',
      path,
      `"${shown(reference)}" is no absolute URL: ${ALLOWED}, or the source must have a baseUrl`,
    );
  }
  const [beforeQuery, query] = splitQuery(reference);
  let url: URL;
  try {
    url = new URL(beforeQuery, base);
  } catch (cause) {
    throw new UrlError('invalid_url', path, `"${shown(reference)}" is no URL`, { cause });
  }
  if (url.username !== '' || url.password !== '') {
    throw new UrlError(
      'invalid_url',
      path,
      'user and password do not belong in a URL; use the authorization "basic"',
    );
  }
  const sent = query ?? (beforeQuery === '' && base !== undefined ? splitQuery(base)[1] : undefined);
  return url.origin + url.pathname + (sent ? `?${sendableQuery(sent)}` : '');
}

/** Without the fragment. */
function splitQuery(url: string): [beforeQuery: string, query: string | undefined] {
  const [withoutFragment = ''] = url.split('#', 1);
  const question = withoutFragment.indexOf('?');
  if (question < 0) return [withoutFragment, undefined];
  return [withoutFragment.slice(0, question), withoutFragment.slice(question + 1)];
}

/** Encodes only what a request line cannot carry. */
function sendableQuery(query: string): string {
  return query.replace(/[^\u0021-\u007e]|["<>]/gu, encodeURIComponent);
}

function cleaned(url: unknown, path: string): string {
  if (typeof url !== 'string')
    throw new UrlError('invalid_url', path, `must be a string, not ${kindOf(url)}`);
  const text = url.trim();
  if (text === '') throw new UrlError('invalid_url', path, 'is empty');
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(text)) {
    throw new UrlError('invalid_url', path, 'holds a line break, a tab or another control character');
  }
  if (!text.isWellFormed()) throw new UrlError('invalid_url', path, 'holds half of a surrogate pair');
  return text;
}

/** A query and a user part may hold secrets. */
function shown(url: string): string {
  const [visible = ''] = url.split(/[?#]/, 1);
  const withoutUser = visible.replace(/^([^/]*\/\/)?[^/]*@/, '$1…@');
  return withoutUser.length > 200 ? `${withoutUser.slice(0, 200)}…` : withoutUser;
}
