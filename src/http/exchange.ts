import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { proxyAuthorization, type Route } from './connect.ts';
import type { Connection, ConnectionPool } from './connection-pool.ts';
import { asHttpFailure, HttpFailure, type Stage } from './failure.ts';
import { IncomingBody, type BodySource } from './incoming-body.ts';
import { inOnePiece, needsSlices, watched, type SendingProgress } from './outgoing-body.ts';
import { headerOf, type WireRequest } from './request.ts';
import { Watchdog } from './watchdog.ts';

export interface Timeouts {
  /** Until the connection stands, TLS included. */
  connectTimeoutMs: number;
  /** The longest silence while waiting for headers or body. */
  readTimeoutMs: number;
  /** The longest time without progress while sending the body. */
  writeTimeoutMs: number;
}

/** Milliseconds since the attempt began; null: it did not come so far. */
export interface Timing {
  connectedMs: number | null;
  sentMs: number | null;
  answeredMs: number | null;
}

export interface Answer {
  statusCode: number;
  statusMessage: string;
  headers: IncomingHttpHeaders;
  body: IncomingBody;
}

/** One request and its answer on one connection, with the three timeouts. */
export class Exchange implements Dispatcher.DispatchHandler, SendingProgress, BodySource {
  readonly timing: Timing = { connectedMs: null, sentMs: null, answeredMs: null };
  readonly #request: WireRequest;
  readonly #timeouts: Timeouts;
  readonly #signal: AbortSignal;
  readonly #pool: ConnectionPool;
  readonly #connection: Connection;
  readonly #began = performance.now();
  readonly #watchdog = new Watchdog();
  readonly #answer = Promise.withResolvers<Answer>();
  readonly #body = new IncomingBody(this);
  #controller: Dispatcher.DispatchController | null = null;
  #stage: Stage | 'over' = 'connecting';
  #bodySent = false;

  constructor(
    request: WireRequest,
    route: Route,
    timeouts: Timeouts,
    signal: AbortSignal,
    pool: ConnectionPool,
  ) {
    this.#request = request;
    this.#timeouts = timeouts;
    this.#signal = signal;
    this.#pool = pool;
    this.#connection = pool.acquire(request.url, route);
    this.#watchdog.start(timeouts.connectTimeoutMs, this.#onConnectTimeout);
    signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#connection.dispatch(dispatchOptions(request, route, this), this);
  }

  /** Resolves with the head; the body comes after it. */
  get answer(): Promise<Answer> {
    return this.#answer.promise;
  }

  // ---- what undici reports

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#stage === 'over') {
      controller.abort(new Error('nobody waits for the request any longer'));
      return;
    }
    this.#controller = controller;
    this.#stage = 'sending';
    this.timing.connectedMs ??= this.#elapsed();
    this.#connection.expectAnswer();
    this.#watchdog.start(this.#timeouts.writeTimeoutMs, this.#onWriteTimeout);
  }

  onRequestSent(): void {
    this.#bodySent = true;
    this.timing.sentMs = this.#elapsed();
    if (this.#stage !== 'sending') return;
    this.#stage = 'waiting';
    this.#watchdog.start(this.#timeouts.readTimeoutMs, this.#onReadTimeout);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: IncomingHttpHeaders,
    statusMessage = '',
  ): void {
    this.#watchdog.touch();
    if (statusCode < 200 || this.#stage === 'over') return;
    this.#stage = 'receiving';
    this.timing.answeredMs = this.#elapsed();
    this.#watchdog.start(this.#timeouts.readTimeoutMs, this.#onReadTimeout);
    this.#answer.resolve({ statusCode, statusMessage, headers, body: this.#body });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#watchdog.touch();
    this.#body.push(chunk);
  }

  onResponseEnd(): void {
    if (this.#stage === 'over') return;
    if (this.#connection.broken) {
      const text = 'the connection broke before the answer was complete';
      this.#fail(new HttpFailure('truncated', `${this.#request.url.origin}: ${text}`, { sent: true }));
      return;
    }
    this.#finish();
    this.#body.end();
    if (this.#bodySent) this.#pool.release(this.#connection);
    else this.#pool.drop(this.#connection, new Error('the answer came before the request was sent'));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#stage !== 'over') this.#fail(asHttpFailure(error, this.#stage, this.#request.url.origin));
  }

  // ---- what the outgoing body reports

  onTaken(): void {
    if (this.#stage === 'sending') this.#watchdog.stop();
  }

  onHanded(): void {
    if (this.#stage === 'sending') this.#watchdog.start(this.#timeouts.writeTimeoutMs, this.#onWriteTimeout);
    else this.#watchdog.touch();
  }

  onSourceError(error: unknown): void {
    this.#fail(error);
  }

  // ---- what the reader of the incoming body asks for

  pause(): void {
    this.#watchdog.stop();
    this.#controller?.pause();
  }

  resume(): void {
    if (this.#stage === 'over') return;
    this.#watchdog.start(this.#timeouts.readTimeoutMs, this.#onReadTimeout);
    this.#controller?.resume();
  }

  cancel(): void {
    this.#fail(
      new HttpFailure('truncated', 'the rest of the answer was not wanted', { sent: true, transient: false }),
    );
  }

  // ----

  readonly #onAbort = (): void => this.#fail(this.#signal.reason);

  readonly #onConnectTimeout = (): void => {
    const seconds = this.#timeouts.connectTimeoutMs / 1000;
    this.#fail(this.#timeout('connect_timeout', `no connection within ${seconds} s (connectTimeout)`));
  };

  readonly #onWriteTimeout = (): void => {
    const seconds = this.#timeouts.writeTimeoutMs / 1000;
    this.#fail(
      this.#timeout('write_timeout', `the server took nothing of the body for ${seconds} s (writeTimeout)`),
    );
  };

  readonly #onReadTimeout = (): void => {
    const seconds = this.#timeouts.readTimeoutMs / 1000;
    const what = this.#stage === 'receiving' ? 'sent no more of its answer' : 'did not answer';
    this.#fail(this.#timeout('read_timeout', `the server ${what} for ${seconds} s (readTimeout)`));
  };

  #timeout(kind: 'connect_timeout' | 'read_timeout' | 'write_timeout', text: string): HttpFailure {
    return new HttpFailure(kind, `${this.#request.url.origin}: ${text}`, {
      sent: this.#stage !== 'connecting',
    });
  }

  #elapsed(): number {
    return performance.now() - this.#began;
  }

  #finish(): void {
    this.#stage = 'over';
    this.#watchdog.stop();
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  #fail(error: unknown): void {
    if (this.#stage === 'over') return;
    this.#finish();
    this.#answer.reject(error);
    this.#body.fail(error);
    const reason = error instanceof Error ? error : new Error('the request was given up', { cause: error });
    this.#controller?.abort(reason);
    this.#pool.drop(this.#connection, reason);
  }
}

function dispatchOptions(
  request: WireRequest,
  { proxy }: Route,
  progress: SendingProgress,
): Dispatcher.DispatchOptions & { servername?: string } {
  const { url, method, target } = request;
  const viaProxy = proxy !== undefined && url.protocol === 'http:';
  const authorization = viaProxy ? proxyAuthorization(new URL(proxy)) : null;
  const headers = request.headers.flat();
  if (authorization !== null) headers.push('Proxy-Authorization', authorization);
  const { body, length } = dispatchBody(request, progress);
  if (length !== null) headers.push('Content-Length', String(length));
  return {
    path: viaProxy ? url.origin + target : target,
    method,
    headers,
    body,
    // Without it undici takes the name from the Host header and reconnects when that changes.
    servername: url.hostname,
  };
}

function dispatchBody({ body, headers }: WireRequest, progress: SendingProgress) {
  // undici takes any async iterable, which its types do not say.
  const streamed = (source: AsyncIterable<Uint8Array>) => watched(source, progress) as unknown as Readable;
  if (typeof body === 'function') return { body: streamed(body()), length: null };
  if (body === null || !needsSlices(body)) return { body, length: null };
  const length = headerOf(headers, 'content-length') === undefined ? body.byteLength : null;
  return { body: streamed(inOnePiece(body)), length };
}
