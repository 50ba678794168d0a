import type { HttpResponse } from '../../http/http-client.ts';
import { parseRetryAfter } from '../../http/retry.ts';

/** Of an answer: what tells how soon the next request is welcome. */
export type AnsweredLimits = Pick<HttpResponse, 'statusCode' | 'headers' | 'retryAfterMs'>;

/** An API that names a later time is asked again then: what it says may be a mistake. */
const LONGEST_BLOCK_MS = 3_600_000;
/** Longer fields are no rate limits. */
const LONGEST_FIELD = 2_000;
/** From here on a reset is a time, no number of seconds: 31 years. */
const EPOCH_SECONDS = 1e9;
const EPOCH_MILLISECONDS = 1e12;
const OLDER_NAMES = ['ratelimit', 'x-ratelimit', 'x-rate-limit'];

/** For how long the system takes no more requests, by the header fields of its answer; null: it takes them. */
export function blockOf({ statusCode, headers, retryAfterMs }: AnsweredLimits): number | null {
  const field = (name: string): string => [headers[name] ?? ''].flat().join(', ').slice(0, LONGEST_FIELD);
  const isRefused = statusCode === 429 || statusCode === 503;
  const waits = [
    isRefused ? (retryAfterMs ?? 0) : 0,
    ofCurrentDraft(field('ratelimit'), field('ratelimit-policy')),
    ofOneField(field('ratelimit')),
    ...OLDER_NAMES.map((name) =>
      ofTwoFields(field(`${name}-remaining`), field(`${name}-reset`), field('date')),
    ),
  ];
  const longest = Math.max(...waits);
  return longest > 0 ? Math.min(longest, LONGEST_BLOCK_MS) : null;
}

/** draft-ietf-httpapi-ratelimit-headers-10: `"default";r=0;t=30`, beside the policy `"default";q=100;w=60`. */
function ofCurrentDraft(limits: string, policies: string): number {
  const windows = new Map(itemsOf(policies).map(({ name, parameters }) => [name, parameters['w']]));
  const waits = itemsOf(limits)
    .filter(({ parameters }) => parameters['r'] === 0)
    .map(({ name, parameters }) => (parameters['t'] ?? windows.get(name) ?? 0) * 1000);
  return Math.max(0, ...waits);
}

/** Draft 7, in wide use still: `limit=100, remaining=0, reset=30`. */
function ofOneField(limits: string): number {
  const values = Object.fromEntries(split(limits, ',').map(parameterOf));
  return values['remaining'] === 0 ? (values['reset'] ?? 0) * 1000 : 0;
}

/** Older drafts and the customs before them; the reset is given in seconds or as a time. */
function ofTwoFields(remaining: string, reset: string, serverDate: string): number {
  const left = leadingNumber(remaining);
  if (left === null || left > 0) return 0;
  const value = leadingNumber(reset);
  if (value === null) return parseRetryAfter(reset, serverDate) ?? 0;
  if (value < EPOCH_SECONDS) return value * 1000;
  const at = new Date(value < EPOCH_MILLISECONDS ? value * 1000 : value);
  // Rounded up, as the text of a date has no fractions.
  at.setTime(Math.ceil(at.getTime() / 1000) * 1000);
  return parseRetryAfter(at.toUTCString(), serverDate) ?? 0;
}

interface Item {
  name: string;
  parameters: Record<string, number | undefined>;
}

/** RFC 9651: a list of strings, each with parameters; of these the numbers. */
function itemsOf(field: string): Item[] {
  return split(field, ',').map((item) => {
    const [name = '', ...parameters] = split(item, ';');
    return { name, parameters: Object.fromEntries(parameters.map(parameterOf)) };
  });
}

function parameterOf(text: string): [string, number | undefined] {
  const [name = '', value = ''] = split(text, '=');
  return [name, leadingNumber(value) ?? undefined];
}

function leadingNumber(text: string): number | null {
  const digits = /^\s*(\d{1,15}(?:\.\d{1,6})?)\s*(?:$|[,;])/.exec(text)?.[1];
  return digits === undefined ? null : Number(digits);
}

/** Outside of quotes, and trimmed. */
function split(text: string, separator: string): string[] {
  const parts = [''];
  let isQuoted = false;
  for (const char of text) {
    if (char === '"') isQuoted = !isQuoted;
    if (char === separator && !isQuoted) parts.push('');
    else parts[parts.length - 1] += char;
  }
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}
