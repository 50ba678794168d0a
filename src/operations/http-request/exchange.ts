import type { HttpRequest } from '../../model/http-request.ts';
import type { HttpSource } from '../../model/source.ts';
import type { Route } from '../../http/connect.ts';
import type { HopInfo, HttpClient, HttpResponse, SendOptions } from '../../http/http-client.ts';
import type { OutgoingRequest } from '../../http/request.ts';
import { defaultRetry, delayAfterStatus } from '../../http/retry.ts';
import type { JobReport, Paused } from '../operation.ts';
import type { Authorizer } from './authorization.ts';
import type { PreparedRequest } from './interceptors/interceptor.ts';
import { LONGEST_PAUSE_MS } from './pause.ts';
import { blockOf } from './rate-limit-headers.ts';
import { RateLimiter } from './rate-limiter.ts';
import { until, type SourceTurns } from './source-turns.ts';

export interface Exchanged<Result> {
  result: Result;
  /** As it went out last, signed. */
  sent: PreparedRequest;
  tries: number;
}

/** Whether a job may give its place away for as long as a system asks it to wait. */
export interface LongWaits {
  /** null: no. Then shorter waits are waited for, and after longer ones the answer counts as it is. */
  until(waitMs: number): Promise<Paused | null>;
  /** Until the turn of a request that was not sent yet; the turn is kept for the job. */
  untilTurn(at: number): Promise<Paused>;
  /** The turn that was waited for so, once. */
  keptTurn(): number | null;
}

const UNAUTHORIZED = 401;
const LONGEST_WAIT_MS = 24 * 3_600_000;

/** Sends the requests of one run: options, authorization, rate limit, the second try after a 401. */
export class Exchange {
  readonly #client: HttpClient;
  readonly #options: Omit<SendOptions, 'beforeSend' | 'onAnswer' | 'onAttempt'>;
  readonly #authorizer: Authorizer;
  readonly #report: JobReport;
  readonly #limiter: RateLimiter | null;
  readonly #turns: SourceTurns | null;
  readonly #waitSignal: AbortSignal;
  readonly #longWaits: LongWaits | null;

  constructor(parts: {
    client: HttpClient;
    options: HttpRequest['request']['options'];
    source: HttpSource | null;
    authorizer: Authorizer;
    report: JobReport;
    signal: AbortSignal;
    /** Ends the wait for a turn, with nothing sent. */
    stopSignal: AbortSignal;
    mayHaveCredentials: (url: URL) => boolean;
    longWaits: LongWaits | null;
    /** Of the source, which its jobs share. */
    turns: SourceTurns | null;
  }) {
    const { options, source } = parts;
    this.#client = parts.client;
    this.#authorizer = parts.authorizer;
    this.#report = parts.report;
    this.#longWaits = parts.longWaits;
    this.#limiter = options.rateLimit ? new RateLimiter(options.rateLimit) : null;
    this.#turns = parts.turns;
    this.#waitSignal = AbortSignal.any([parts.signal, parts.stopSignal]);
    this.#options = {
      connectTimeoutMs: options.connectTimeout * 1000,
      readTimeoutMs: options.readTimeout * 1000,
      writeTimeoutMs: options.writeTimeout * 1000,
      totalTimeoutMs: options.totalTimeout && options.totalTimeout * 1000,
      retry: {
        ...defaultRetry,
        tries: options.retry === false ? 1 : options.retry.tries,
        ...(parts.longWaits && { longestRetryAfterMs: LONGEST_PAUSE_MS }),
      },
      redirects: options.redirects,
      credentials: parts.authorizer.credentials,
      mayHaveCredentials: parts.mayHaveCredentials,
      signal: parts.signal,
      ...routeOf(source),
    };
  }

  /** `read` may be called again, when an answer broke off and was asked for anew. */
  async receive<Result>(
    request: PreparedRequest,
    withCredentials: boolean,
    read: (response: HttpResponse) => Promise<Result>,
  ): Promise<Exchanged<Result>> {
    const first = await this.#once(request, withCredentials, read);
    if (!withCredentials) return first;
    if (first.statusCode !== UNAUTHORIZED) this.#authorizer.judged(first.sent, 'accepted');
    else if (await this.#authorizer.renew(first.sent)) return this.#onceMore(request, read, first.tries);
    return first;
  }

  async #onceMore<Result>(
    request: PreparedRequest,
    read: (response: HttpResponse) => Promise<Result>,
    triesBefore: number,
  ): Promise<Exchanged<Result>> {
    this.#report.log(
      'info',
      'the system answered 401: a new token was obtained, and the request is sent once more',
    );
    const again = await this.#once(await this.#authorizer.apply(withoutSourceHeaders(request)), true, read);
    this.#authorizer.judged(again.sent, again.statusCode === UNAUTHORIZED ? 'refused again' : 'accepted');
    return { ...again, tries: again.tries + triesBefore };
  }

  async #once<Result>(
    request: PreparedRequest,
    withCredentials: boolean,
    read: (response: HttpResponse) => Promise<Result>,
  ): Promise<Exchanged<Result> & { statusCode: number }> {
    await this.#turn(this.#waitSignal);
    let sent = request;
    let tries = 0;
    let statusCode = 0;
    const result = await this.#client.receive(
      outgoing(request),
      {
        ...this.#options,
        beforeSend: async (passedOn, hop, signal) => {
          if (hop.try > 1 || hop.redirects > 0) await this.#furtherTurn(hop, signal);
          tries += 1;
          this.#report.stats.requests += 1;
          // What was signed for one address is not valid for another; unsigned credentials are the redirect's matter.
          if (hop.redirects > 0 || !withCredentials) return passedOn;
          sent = await this.#authorizer.sign(request);
          return outgoing(sent);
        },
        onAnswer: async (response, { credentialsDropped }) => {
          // What another system says is no matter of the source.
          if (!withCredentials || credentialsDropped) return;
          const blockMs = this.#turns && blockOf(response);
          if (blockMs) await this.#turns?.blocked(blockMs);
        },
        onAttempt: ({ statusCode: status, failure, waitMs }) => {
          if (waitMs === null || waitMs === 0) return;
          const what = failure ? failure.message : `the system answered ${status}`;
          this.#report.log('warn', `${what}; the request is tried again in ${(waitMs / 1000).toFixed(1)} s`);
        },
      },
      async (response) => {
        statusCode = response.statusCode;
        await this.#pauseFor(request.method, response);
        return read(response);
      },
    );
    return { result, sent, tries, statusCode };
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const pause = async (at: number) => {
      const paused = await this.#longWaits?.untilTurn(at);
      if (paused) throw paused;
    };
    if (this.#limiter) await until(performance.now() + this.#limiter.reserve(), { signal, pause });
    await this.#turns?.take({ signal, pause, kept: this.#longWaits?.keptTurn() ?? null });
  }

  /**
   * For a retry or a redirect. Such a wait counts among those that a system asks for: whoever refuses every request
   * and then asks to wait keeps no job alive for ever.
   */
  async #furtherTurn({ credentialsDropped }: HopInfo, lifetime: AbortSignal): Promise<void> {
    if (credentialsDropped) return;
    const signal = AbortSignal.any([lifetime, this.#waitSignal]);
    const pause = async (at: number) => {
      const paused = await this.#longWaits?.until(at - Date.now());
      if (paused) throw paused;
    };
    if (this.#limiter) await until(performance.now() + this.#limiter.reserve(), { signal, pause });
    await this.#turns?.take({ signal, pause, kept: null });
  }

  async #pauseFor(method: string, { statusCode, retryAfterMs }: HttpResponse): Promise<void> {
    if (!this.#longWaits || retryAfterMs === null || retryAfterMs <= LONGEST_PAUSE_MS) return;
    const asAllowed = { ...this.#options.retry, longestRetryAfterMs: LONGEST_WAIT_MS };
    if (delayAfterStatus(method, statusCode, retryAfterMs, 1, asAllowed) === null) return;
    const paused = await this.#longWaits.until(retryAfterMs);
    if (paused) throw paused;
  }
}

/** How the hosts of a source are reached, if not in the usual way. */
export function routeOf(source: HttpSource | null): Route {
  const { tls, proxy, proxyPassword } = source ?? {};
  return {
    ...(proxy !== undefined && { proxy: withPassword(proxy, proxyPassword) }),
    ...(tls && {
      tls: { rejectUnauthorized: tls.rejectUnauthorized, ...(tls.ca !== undefined && { ca: tls.ca }) },
    }),
  };
}

function withPassword(proxy: string, password: string | undefined): string {
  if (password === undefined) return proxy;
  const url = new URL(proxy);
  url.password = encodeURIComponent(password.toWellFormed());
  return url.href;
}

/** So that a renewed token takes the place of the old one, and what a script has set stays. */
function withoutSourceHeaders(request: PreparedRequest): PreparedRequest {
  const headers = request.headers.clone();
  for (const { name, setBy } of request.headers) if (setBy === 'source') headers.delete(name);
  return { ...request, headers };
}

function outgoing({ method, url, headers, body }: PreparedRequest): OutgoingRequest {
  const list: [string, string][] = [...headers].map(({ name, value }) => [name, value]);
  if (body === null || typeof body === 'string' || body instanceof Uint8Array)
    return { method, url, headers: list, body };
  if (body.length !== undefined && !headers.has('content-length'))
    list.push(['Content-Length', String(body.length)]);
  return { method, url, headers: list, body: () => body.open() };
}
