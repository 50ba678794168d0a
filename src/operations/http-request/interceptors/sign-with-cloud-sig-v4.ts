import { createHash, createHmac } from 'node:crypto';
import type { RequestBody } from '../body.ts';
import type { HeaderList } from '../header-list.ts';
import { encodeRfc3986, kindOf, requestTarget } from '../url.ts';
import { InterceptorError, refuseUnknown, type Interceptor, type PreparedRequest } from './interceptor.ts';

/**
 * Contract 2.3: adds an Authorization header by Signature Version 4, over the request exactly as it will be sent.
 *
 * The hash of the body is the value of `x-<cloud>-content-sha256` (or `x-amz-content-sha256`) where the request
 * carries that header, so `UNSIGNED-PAYLOAD` there signs without reading. Otherwise the body is hashed; a
 * streamed one is read once for that and opened again for sending: two readings, but bounded memory and a
 * signature that every service takes. Should a table change in between, the other side refuses the signature.
 */
export const signWithCloudSigV4: Interceptor = {
  names: ['signWithCloudSigV4', 'signWithAWSSigV4'],

  prepare(params, path) {
    const credentials = checkedParams(params, `${path}.params`);
    return async (request) => {
      const authorization = await authorizationHeader(request, credentials, path);
      const headers = request.headers.clone();
      headers.set('Authorization', authorization, 'interceptor');
      return { ...request, headers };
    };
  },
};

const PARAMS = ['region', 'serviceName', 'accessKeyId', 'accessKey'] as const;

export type SigV4Params = Readonly<Record<(typeof PARAMS)[number], string>>;

function checkedParams(params: Readonly<Record<string, unknown>>, path: string): SigV4Params {
  refuseUnknown(params, PARAMS, path);
  for (const name of PARAMS) {
    const value = params[name];
    if (typeof value === 'string' && value !== '') continue;
    const found =
      value === undefined ? 'is missing' : `must be a string that is not empty, not ${kindOf(value)}`;
    throw new InterceptorError('invalid_params', `${path}.${name}`, found);
  }
  return params as SigV4Params;
}

/** What differs between the clouds; the rest of the algorithm is the same. */
interface Scheme {
  readonly algorithm: string;
  readonly keyPrefix: string;
  readonly terminator: string;
  readonly dateHeader: string;
  readonly payloadHashHeaders: readonly string[];
}

async function authorizationHeader(
  request: PreparedRequest,
  params: SigV4Params,
  path: string,
): Promise<string> {
  const { headers } = request;
  checkHost(headers, path);
  const scheme = schemeOf(headers, path);
  const date = checkedDate(headers, scheme.dateHeader, path);
  const day = date.slice(0, 8);
  const scope = `${day}/${params.region}/${params.serviceName}/${scheme.terminator}`;

  const signed = signedHeaders(headers);
  const signedNames = signed.map(([name]) => name).join(';');
  // The path of an object in S3 and in Google's storage is encoded once and stays as it is, dots and slashes too.
  const isObjectStore = S3_SERVICES.has(params.serviceName) || scheme.algorithm === GOOGLE.algorithm;
  const { pathname, query } = targetOf(request.url);
  const canonicalRequest = [
    request.method,
    isObjectStore ? recode(pathname, KEEP_SLASHES) : normalizedPath(pathname),
    canonicalQuery(query, isObjectStore ? '%20' : '%2B'),
    ...signed.map(([name, value]) => `${name}:${value}`),
    '',
    signedNames,
    givenPayloadHash(headers, scheme) ?? (await hashOf(request.body)),
  ].join('\n');
  const stringToSign = [scheme.algorithm, date, scope, sha256(canonicalRequest)].join('\n');

  let key: string | Buffer = scheme.keyPrefix + params.accessKey;
  for (const part of [day, params.region, params.serviceName, scheme.terminator])
    key = hmac(key, part).digest();
  const signature = hmac(key, stringToSign).digest('hex');
  const credential = `${params.accessKeyId}/${scope}`;
  return `${scheme.algorithm} Credential=${credential}, SignedHeaders=${signedNames}, Signature=${signature}`;
}

function hmac(key: string | Buffer, text: string) {
  return createHmac('sha256', key).update(text, 'utf8');
}

function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

// ---- what must be there before

const AMAZON = { algorithm: 'AWS4-HMAC-SHA256', keyPrefix: 'AWS4', terminator: 'aws4_request' };
const GOOGLE = { algorithm: 'GOOG4-HMAC-SHA256', keyPrefix: 'GOOG4', terminator: 'goog4_request' };
const S3_SERVICES = new Set(['s3', 's3express', 's3-outposts', 's3-object-lambda']);
const DATE_HEADER = /^x-([a-z0-9]+)-date$/;

/** x-amz-date before x-goog-date before the one of any other cloud. */
function schemeOf(headers: HeaderList, path: string): Scheme {
  const present = new Set(
    [...headers].map(({ name }) => name.toLowerCase()).filter((name) => DATE_HEADER.test(name)),
  );
  const wellKnown = ['x-amz-date', 'x-goog-date'].find((name) => present.has(name));
  const dateHeader = wellKnown ?? [...present][0];
  if (dateHeader === undefined) {
    throw notReady(
      path,
      `the header x-amz-date is missing (or x-<cloud>-date of another cloud); ${DATE_FORM}`,
    );
  }
  if (wellKnown === undefined && present.size > 1) {
    throw notReady(
      path,
      `the headers ${[...present].join(' and ')} could all be the date; only one may be there`,
    );
  }
  const cloud = DATE_HEADER.exec(dateHeader)?.[1];
  const payloadHashHeaders = [`x-${cloud}-content-sha256`, 'x-amz-content-sha256'];
  return { ...(dateHeader === 'x-goog-date' ? GOOGLE : AMAZON), dateHeader, payloadHashHeaders };
}

const DATE_FORM = "it must have the form yyyyMMdd'T'HHmmss'Z', such as 20260131T235959Z";

function checkedDate(headers: HeaderList, name: string, path: string): string {
  const date = headers.get(name) ?? '';
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date) ?? [];
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  const time = new Date(iso);
  if (Number.isNaN(time.getTime()) || time.toISOString() !== iso) {
    throw notReady(path, `the header ${name} is ${JSON.stringify(date)}; ${DATE_FORM}`);
  }
  return date;
}

const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::\d{1,5})?$/i;

function checkHost(headers: HeaderList, path: string): void {
  const host = headers.get('host');
  if (host === undefined) throw notReady(path, 'the header host is missing; it must be set before signing');
  if (!HOST.test(host))
    throw notReady(path, `the header host is ${JSON.stringify(host)}; it must be host or host:port`);
}

function notReady(path: string, message: string): InterceptorError {
  return new InterceptorError('request_not_ready', path, message);
}

// ---- the canonical request

/** Those that proxies and HTTP clients change on the way; the AWS SDK leaves the same ones out. */
const UNSIGNED_HEADERS = new Set([
  'authorization',
  'cache-control',
  'connection',
  'expect',
  'from',
  'keep-alive',
  'max-forwards',
  'pragma',
  'referer',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
  'x-amzn-trace-id',
]);

function signedHeaders(headers: HeaderList): [name: string, value: string][] {
  const values = new Map<string, string[]>();
  for (const { name, value } of headers) {
    const lowerCase = name.toLowerCase();
    if (UNSIGNED_HEADERS.has(lowerCase) || /^(?:proxy|sec)-/.test(lowerCase)) continue;
    const folded = value.replace(/[ \t]+/g, ' ').replace(/^ | $/g, '');
    values.set(lowerCase, [...(values.get(lowerCase) ?? []), folded]);
  }
  return [...values].map(([name, all]): [string, string] => [name, all.join(',')]).toSorted(byNameThenValue);
}

function targetOf(url: string): { pathname: string; query: string } {
  const { path } = requestTarget(url);
  const question = path.indexOf('?');
  if (question < 0) return { pathname: path, query: '' };
  return { pathname: path.slice(0, question), query: path.slice(question + 1) };
}

/** All services but the object stores: empty and dot segments resolved, then encoded once more. */
function normalizedPath(pathname: string): string {
  const segments: string[] = [];
  for (const segment of pathname.split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(segment);
  }
  const slash = segments.length > 0 && pathname.endsWith('/') ? '/' : '';
  return `/${segments.map(encodeRfc3986).join('/')}${slash}`;
}

/**
 * A plus sign is ambiguous: S3, MinIO, Ceph and Google's storage read it as a space, the AWS SDKs for other
 * services as itself. In parameters that a script gives it is always `%2B`, which all read alike.
 */
function canonicalQuery(query: string, plus: '%20' | '%2B'): string {
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair): [string, string] => {
      const [name, ...value] = pair.replaceAll('+', plus).split('=');
      return [recode(name ?? '', NOTHING_MORE), recode(value.join('='), NOTHING_MORE)];
    })
    .toSorted(byNameThenValue)
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

const NOTHING_MORE = /%[0-9a-f]{2}|[^A-Za-z0-9\-._~]/giu;
const KEEP_SLASHES = /%[0-9a-f]{2}|[^A-Za-z0-9\-._~/]/giu;

/** Percent-encodes what is not unreserved, and nothing twice: what the service makes of the URL it received. */
function recode(text: string, reserved: RegExp): string {
  return text.replace(reserved, (match) => {
    if (match.length < 3 || !match.startsWith('%')) return encodeRfc3986(match);
    const byte = Number.parseInt(match.slice(1), 16);
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9\-._~]/.test(character) ? character : match.toUpperCase();
  });
}

function byNameThenValue([nameA, valueA]: [string, string], [nameB, valueB]: [string, string]): number {
  return compare(nameA, nameB) || compare(valueA, valueB);
}

/** By code units; all of them are ASCII here. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function givenPayloadHash(headers: HeaderList, scheme: Scheme): string | undefined {
  const name = scheme.payloadHashHeaders.find((header) => headers.has(header));
  return name === undefined ? undefined : headers.get(name);
}

/** Of a body as it will be sent; a stream is read once for this and opened again for sending. */
export async function hashOf(body: RequestBody): Promise<string> {
  if (body === null) return sha256('');
  if (typeof body === 'string' || body instanceof Uint8Array) return sha256(body);
  const hash = createHash('sha256');
  for await (const chunk of body.open()) hash.update(chunk);
  return hash.digest('hex');
}
