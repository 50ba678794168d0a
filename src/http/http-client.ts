import type { IncomingHttpHeaders } from 'node:http';
import { systemLookup, type Lookup, type Route } from './connect.ts';
import { ConnectionPool } from './connection-pool.ts';
import { decoded } from './content-coding.ts';
import type { EgressPolicy } from './egress.ts';
import { Exchange, type Answer, type Timeouts, type Timing } from './exchange.ts';
import { HttpFailure } from './failure.ts';
import { Lifetime, whileAlive } from './lifetime.ts';
import { redirected, redirectTarget, type RedirectOptions } from './redirect.ts';
import { Redactor } from './redaction.ts';
import { parseUrl, wireRequest, type OutgoingRequest } from './request.ts';
import { delayAfterFailure, delayAfterStatus, parseRetryAfter, type RetryOptions } from './retry.ts';
import { pause } from './watchdog.ts';

export interface SendOptions extends Timeouts, RedirectOptions, Route {
  /** For all tries, redirects and waits together, to the last byte. */
  totalTimeoutMs?: number | undefined;
  retry: RetryOptions;
  /** Whatever is under way rejects with its reason. */
  signal: AbortSignal;
  onAttempt?: ((attempt: AttemptLog) => void) | undefined;
  /**
   * Called before each try at each hop; what it returns is sent, this once. For what depends on the time or the URL:
   * signatures, tokens.
   */
  beforeSend?:
    | ((
        request: OutgoingRequest,
        hop: HopInfo,
        signal: AbortSignal,
      ) => OutgoingRequest | Promise<OutgoingRequest>)
    | undefined;
  /** Told of the head of each answer at each hop, also of those that are tried again. */
  onAnswer?: ((response: HttpResponse, hop: HopInfo) => void | Promise<void>) | undefined;
}

export interface HopInfo {
  /** From 1. */
  try: number;
  /** How many redirects led here. */
  redirects: number;
  /** Whether the way led over another origin: nothing may be signed or added. */
  credentialsDropped: boolean;
}

export interface AttemptLog extends HopInfo, Timing {
  method: string;
  /** Without user, password and the parameters named in `credentials`. */
  url: string;
  statusCode: number | null;
  failure: Error | null;
  tookMs: number;
  /** Until the next try; null: there is none. */
  waitMs: number | null;
}

export interface HttpResponse {
  statusCode: number;
  statusMessage: string;
  /** Lower-case names; repeated ones joined by ", ", set-cookie an array. */
  headers: Record<string, string | string[]>;
  /** After redirects. It may hold credentials: redact before showing it. */
  url: string;
  method: string;
  /** Decompressed; to be read once. */
  body: AsyncIterable<Uint8Array>;
  tries: number;
  redirects: number;
  /** What the server asks for, also when it was too long to be waited for here. */
  retryAfterMs: number | null;
  /** Needed when the body is not read: frees the connection. */
  discard(): Promise<void>;
}

interface Hop extends HopInfo {
  request: OutgoingRequest;
}

export class HttpClient {
  readonly #pool: ConnectionPool;

  constructor(policy: EgressPolicy, options: { lookup?: Lookup } = {}) {
    this.#pool = new ConnectionPool({ policy, lookup: options.lookup ?? systemLookup });
  }

  /** Resolves with the head of the last answer, whatever its status. A body that breaks off fails while it is read. */
  async send(request: OutgoingRequest, options: SendOptions): Promise<HttpResponse> {
    const lifetime = new Lifetime(options.signal, options.totalTimeoutMs);
    try {
      const response = await this.#run(request, options, lifetime, async (answered) => answered);
      const end = () => lifetime.end();
      const body = whileAlive(response.body, lifetime.signal, end);
      return { ...response, body, discard: () => response.discard().finally(end) };
    } catch (error) {
      lifetime.end();
      throw error;
    }
  }

  /** The same with the reading: `read` is called anew when the body of an answer to GET broke off and is tried again. */
  async receive<Result>(
    request: OutgoingRequest,
    options: SendOptions,
    read: (response: HttpResponse) => Promise<Result>,
  ): Promise<Result> {
    const lifetime = new Lifetime(options.signal, options.totalTimeoutMs);
    try {
      return await this.#run(request, options, lifetime, async (response) => {
        const body = whileAlive(response.body, lifetime.signal, () => undefined);
        const result = await read({ ...response, body });
        await response.discard();
        return result;
      });
    } finally {
      lifetime.end();
    }
  }

  /** Breaks off what is under way. */
  async close(): Promise<void> {
    await this.#pool.close();
  }

  async #run<Result>(
    request: OutgoingRequest,
    options: SendOptions,
    lifetime: Lifetime,
    read: (response: HttpResponse) => Promise<Result>,
  ): Promise<Result> {
    let hop: Hop = { request, try: 1, redirects: 0, credentialsDropped: false };
    for (;;) {
      const attempt = new Attempt(hop, options);
      let waitMs: number | null;
      try {
        const response = await attempt.send(this.#pool, lifetime.signal);
        await options.onAnswer?.(response, hop);
        const next = nextHop(hop, response, options);
        waitMs = next ? 0 : delayAfter(hop, response, options);
        if (waitMs === null) {
          const result = await read(response);
          attempt.log(null, null);
          return result;
        }
        await response.discard();
        attempt.log(null, next ? null : waitMs);
        if (next) {
          hop = next;
          continue;
        }
      } catch (error) {
        await attempt.abandon();
        lifetime.signal.throwIfAborted();
        waitMs =
          error instanceof HttpFailure
            ? delayAfterFailure(hop.request.method, error, hop.try, options.retry)
            : null;
        attempt.log(error as Error, waitMs);
        if (waitMs === null) throw error;
      }
      await pause(waitMs, lifetime.signal);
      hop = { ...hop, try: hop.try + 1 };
    }
  }
}

/** One try at one hop, and what is told of it. */
class Attempt {
  readonly #hop: Hop;
  readonly #options: SendOptions;
  readonly #began = performance.now();
  #exchange: Exchange | null = null;
  #answer: Answer | null = null;

  constructor(hop: Hop, options: SendOptions) {
    this.#hop = hop;
    this.#options = options;
  }

  async send(pool: ConnectionPool, signal: AbortSignal): Promise<HttpResponse> {
    const { request, ...info } = this.#hop;
    const wire = wireRequest((await this.#options.beforeSend?.(request, info, signal)) ?? request);
    signal.throwIfAborted();
    this.#exchange = new Exchange(wire, this.#options, this.#options, signal, pool);
    this.#answer = await this.#exchange.answer;
    return responseOf(this.#answer, this.#hop, wire.url.href);
  }

  async abandon(): Promise<void> {
    await this.#answer?.body.discard();
  }

  log(failure: Error | null, waitMs: number | null): void {
    const { request, ...info } = this.#hop;
    const timing = this.#exchange?.timing ?? { connectedMs: null, sentMs: null, answeredMs: null };
    const redactor = new Redactor({
      headers: [],
      parameters: this.#options.credentials.parameters,
      values: [],
    });
    this.#options.onAttempt?.({
      ...info,
      ...timing,
      method: request.method,
      url: redactor.url(request.url),
      statusCode: this.#answer?.statusCode ?? null,
      failure,
      tookMs: performance.now() - this.#began,
      waitMs,
    });
  }
}

function responseOf(answer: Answer, hop: Hop, url: string): HttpResponse {
  const headers = responseHeaders(answer.headers);
  return {
    statusCode: answer.statusCode,
    statusMessage: answer.statusMessage,
    headers,
    url,
    method: hop.request.method,
    body: decodedBody(answer, text(headers['content-encoding'])),
    tries: hop.try,
    redirects: hop.redirects,
    retryAfterMs: parseRetryAfter(text(headers['retry-after']), text(headers['date'])),
    discard: () => answer.body.discard(),
  };
}

/** Decoded from the first read on: an unknown coding is an error only for whom reads the body. */
function decodedBody({ body }: Answer, contentEncoding: string | undefined): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      let iterator: AsyncIterator<Uint8Array> | null = null;
      return {
        async next() {
          try {
            iterator ??= decoded(body, contentEncoding)[Symbol.asyncIterator]();
            return await iterator.next();
          } catch (error) {
            body.cancel();
            throw error;
          }
        },
        async return() {
          body.cancel();
          await iterator?.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

function responseHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value = '']) => {
      if (name === 'set-cookie') return [name, [value].flat()];
      return [name, Array.isArray(value) ? value.join(', ') : value];
    }),
  );
}

function text(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

function nextHop(hop: Hop, response: HttpResponse, options: SendOptions): Hop | null {
  if (options.redirects === 0) return null;
  const target = redirectTarget(response.statusCode, text(response.headers['location']), response.url);
  if (target === null) return null;
  if (hop.redirects >= options.redirects) {
    throw new HttpFailure(
      'redirects',
      `more than ${options.redirects} redirects; the last one came from ${new URL(response.url).origin}`,
      { sent: true },
    );
  }
  const from = { ...hop.request, url: parseUrl(hop.request.url).href };
  const { request, credentialsDropped } = redirected(from, response.statusCode, target, options);
  return {
    request,
    try: hop.try,
    redirects: hop.redirects + 1,
    credentialsDropped: hop.credentialsDropped || credentialsDropped,
  };
}

function delayAfter(hop: Hop, response: HttpResponse, { retry }: SendOptions): number | null {
  return delayAfterStatus(hop.request.method, response.statusCode, response.retryAfterMs, hop.try, retry);
}
