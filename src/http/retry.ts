import type { HttpFailure } from './failure.ts';

export interface RetryOptions {
  /** How often a request is sent at most; 1: no retry. */
  tries: number;
  /** The wait before the second try; it doubles from try to try. */
  firstDelayMs: number;
  longestDelayMs: number;
  /** A Retry-After above this is not waited for here: the answer is handed over as it is. */
  longestRetryAfterMs: number;
}

export const defaultRetry: RetryOptions = {
  tries: 5,
  firstDelayMs: 500,
  longestDelayMs: 30_000,
  longestRetryAfterMs: 60_000,
};

export function mayRetryFreely(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** How long to wait before the next try; null: there is none. `tried` counts the tries so far. */
export function delayAfterStatus(
  method: string,
  statusCode: number,
  retryAfterMs: number | null,
  tried: number,
  options: RetryOptions,
): number | null {
  const worthwhile = mayRetryFreely(method)
    ? statusCode === 408 || statusCode === 429 || statusCode >= 500
    : statusCode === 429 || (statusCode === 503 && retryAfterMs !== null);
  if (!worthwhile || tried >= options.tries) return null;
  if (retryAfterMs === null) return backoff(tried, options);
  return retryAfterMs > options.longestRetryAfterMs ? null : retryAfterMs;
}

export function delayAfterFailure(
  method: string,
  failure: HttpFailure,
  tried: number,
  options: RetryOptions,
): number | null {
  if (!failure.transient || tried >= options.tries) return null;
  return mayRetryFreely(method) || !failure.sent ? backoff(tried, options) : null;
}

/** Between half of the exponential delay and all of it, so that many clients do not come back at once. */
function backoff(tried: number, { firstDelayMs, longestDelayMs }: RetryOptions): number {
  const delay = Math.min(longestDelayMs, firstDelayMs * 2 ** (tried - 1));
  return delay * (0.5 + Math.random() / 2);
}

/** A Retry-After of seconds or a date, which is compared with the server's own clock where that is known. */
export function parseRetryAfter(value: string | undefined, serverDate: string | undefined, now = Date.now()) {
  const text = value?.trim() ?? '';
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const until = httpDate(text);
  return until === null ? null : Math.max(0, until - (httpDate(serverDate ?? '') ?? now));
}

/** Date.parse alone would take "soon 5" for a day in May. */
function httpDate(text: string): number | null {
  const date = /^[A-Z][a-z]+,? .*\d{2}:\d{2}:\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? null : date;
}
