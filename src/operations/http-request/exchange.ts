import { setTimeout as delay } from 'node:timers/promises';
import type { HttpRequest } from '../../model/http-request.ts';
import type { HttpSource } from '../../model/source.ts';
import type { Route } from '../../http/connect.ts';
import type { HttpClient, HttpResponse, SendOptions } from '../../http/http-client.ts';
import type { OutgoingRequest } from '../../http/request.ts';
import { defaultRetry } from '../../http/retry.ts';
import type { JobReport } from '../operation.ts';
import type { Authorizer } from './authorization.ts';
import type { PreparedRequest } from './interceptors/interceptor.ts';
import { RateLimiter } from './rate-limiter.ts';

export interface Exchanged<Result> {
  result: Result;
  /** As it went out last, signed. */
  sent: PreparedRequest;
  tries: number;
}

const UNAUTHORIZED = 401;

/** Sends the requests of one run: options, authorization, rate limit, the second try after a 401. */
export class Exchange {
  readonly #client: HttpClient;
  readonly #options: Omit<SendOptions, 'beforeSend' | 'onAttempt'>;
  readonly #authorizer: Authorizer;
  readonly #report: JobReport;
  readonly #limiters: RateLimiter[];

  constructor(parts: {
    client: HttpClient;
    options: HttpRequest['request']['options'];
    source: HttpSource | null;
    authorizer: Authorizer;
    report: JobReport;
    signal: AbortSignal;
    mayHaveCredentials: (url: URL) => boolean;
  }) {
    const { options, source } = parts;
    this.#client = parts.client;
    this.#authorizer = parts.authorizer;
    this.#report = parts.report;
    this.#limiters = [options.rateLimit, source?.rateLimit].flatMap((limit) =>
      limit ? [new RateLimiter(limit)] : [],
    );
    this.#options = {
      connectTimeoutMs: options.connectTimeout * 1000,
      readTimeoutMs: options.readTimeout * 1000,
      writeTimeoutMs: options.writeTimeout * 1000,
      totalTimeoutMs: options.totalTimeout && options.totalTimeout * 1000,
      retry: { ...defaultRetry, tries: options.retry === false ? 1 : options.retry.tries },
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
    if (first.statusCode !== UNAUTHORIZED || !withCredentials || !(await this.#authorizer.renew(first.sent)))
      return first;
    this.#report.log(
      'info',
      'the system answered 401: a new token was obtained, and the request is sent once more',
    );
    const again = await this.#once(await this.#authorizer.apply(withoutSourceHeaders(request)), true, read);
    return { ...again, tries: again.tries + first.tries };
  }

  async #once<Result>(
    request: PreparedRequest,
    withCredentials: boolean,
    read: (response: HttpResponse) => Promise<Result>,
  ): Promise<Exchanged<Result> & { statusCode: number }> {
    for (const limiter of this.#limiters)
      await delay(limiter.reserve(), undefined, { signal: this.#options.signal });
    let sent = request;
    let tries = 0;
    let statusCode = 0;
    const result = await this.#client.receive(
      outgoing(request),
      {
        ...this.#options,
        beforeSend: async (passedOn, hop) => {
          tries += 1;
          this.#report.stats.requests += 1;
          // What was signed for one address is not valid for another; unsigned credentials are the redirect's matter.
          if (hop.redirects > 0 || !withCredentials) return passedOn;
          sent = await this.#authorizer.sign(request);
          return outgoing(sent);
        },
        onAttempt: ({ statusCode: status, failure, waitMs }) => {
          if (waitMs === null || waitMs === 0) return;
          const what = failure ? failure.message : `the system answered ${status}`;
          this.#report.log('warn', `${what}; the request is tried again in ${(waitMs / 1000).toFixed(1)} s`);
        },
      },
      (response) => {
        statusCode = response.statusCode;
        return read(response);
      },
    );
    return { result, sent, tries, statusCode };
  }
}

/** How the hosts of a source are reached, if not in the usual way. */
export function routeOf(source: HttpSource | null): Route {
  const { tls, proxy } = source ?? {};
  return {
    ...(proxy !== undefined && { proxy }),
    ...(tls && {
      tls: { rejectUnauthorized: tls.rejectUnauthorized, ...(tls.ca !== undefined && { ca: tls.ca }) },
    }),
  };
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
