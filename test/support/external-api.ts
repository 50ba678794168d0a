/**
 * A stand-in for the JSON APIs that users draw from and send to: a real HTTP server on a random port of 127.0.0.1.
 * It records everything it receives. What each path does is said beside its routes in external-api/:
 *
 *   paging.ts        /orders/by-page by-offset by-cursor by-link by-next until-empty, /customers/{id}/orders, /repeat
 *   writing.ts       POST /orders and /orders/bulk, PATCH and DELETE /orders/{id}
 *   transfers.ts     /upload, /files/{size}
 *   huge.ts          /huge?records=&size=
 *   credentials.ts   /basic/… /bearer/… /key/… in front of any other path; with oauth.ts and signed.ts /oauth/… /signed/…
 *   misbehaviour.ts  /status/{code} /slow-body /slow-read /reset /truncated-chunks /short-length /redirect /redirect-loop
 *                    /echo, and in front of any other path /flaky/… /rate-limited/… /latency/… /slow-headers/…
 *   odd-bodies.ts    /gzip /half-gzip /gzip-bomb /latin1 /bom /empty /no-content /malformed-json /big-numbers
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  basicGuard,
  bearerGuard,
  defaultCredentials,
  keyGuard,
  type Credentials,
} from './external-api/credentials.ts';
import { Exchange, readBody, received, Refusal, type ReceivedRequest } from './external-api/exchange.ts';
import { huge } from './external-api/huge.ts';
import { addMisbehaviour } from './external-api/misbehaviour.ts';
import { OAuthServer } from './external-api/oauth.ts';
import { oddBodies } from './external-api/odd-bodies.ts';
import { OrderBook } from './external-api/orders.ts';
import { pagingRoutes } from './external-api/paging.ts';
import { Router, type Handler } from './external-api/router.ts';
import { signedGuard } from './external-api/signed.ts';
import { transfers } from './external-api/transfers.ts';
import { writingRoutes } from './external-api/writing.ts';

export type { Credentials } from './external-api/credentials.ts';
export type { ReceivedRequest } from './external-api/exchange.ts';
export { BIG_NUMBERS } from './external-api/odd-bodies.ts';
export { makeOrder, type Order } from './external-api/orders.ts';
export { fileChecksum, multipartParts } from './external-api/transfers.ts';

export interface ExternalApiOptions {
  /** 0, the default: a free one. */
  port?: number;
  /** Default 1,000. */
  orders?: number;
  /** Default 50. */
  customers?: number;
  /** Of OAuth access tokens; default 3600. */
  expiresInSeconds?: number;
  credentials?: Partial<Credentials>;
  /** How much of each body is kept; default 16 MiB. Size and SHA-256 cover the whole body all the same. */
  keepBodyBytes?: number;
  /** The oldest records go when there are more; default 50,000. */
  keepRequests?: number;
}

export class ExternalApi {
  url = '';
  /** In the order in which their heads arrived. */
  readonly requests: ReceivedRequest[] = [];
  readonly orders: OrderBook;
  readonly oauth: OAuthServer;
  readonly credentials: Credentials;
  /** Awaited before each answer: a test can hold a page back, or stop the service just then. */
  beforeAnswer: ((request: ReceivedRequest) => void | Promise<void>) | undefined;
  /** How many requests were being answered at once, at most. */
  mostAtOnce = 0;
  /** How many connections were opened. */
  connections = 0;
  #atOnce = 0;
  readonly #options: Required<Pick<ExternalApiOptions, 'keepBodyBytes' | 'keepRequests'>>;
  readonly #router = new Router();
  readonly #server: Server;
  readonly #waiting = new Set<() => void>();

  constructor(options: ExternalApiOptions) {
    this.#options = { keepBodyBytes: 16 * 1024 * 1024, keepRequests: 50_000, ...options };
    this.credentials = { ...defaultCredentials, ...options.credentials };
    this.orders = new OrderBook(options.orders ?? 1000, options.customers ?? 50);
    this.oauth = new OAuthServer(this.credentials, options.expiresInSeconds ?? 3600);
    this.#addRoutes();
    this.#server = createServer({ requestTimeout: 0 }, (message, response) => {
      this.#serve(message, response).catch((error: unknown) => response.destroy(error as Error));
    });
    this.#server.on('connection', () => (this.connections += 1));
  }

  /** One more endpoint, or another answer of an existing one, for this test alone: 'GET /mine', handler. */
  answer(methodAndPath: string, handler: Handler): void {
    this.#router.add({ [methodAndPath]: handler });
  }

  /** The requests for this path, query apart. */
  requestsTo(path: string): ReceivedRequest[] {
    return this.requests.filter((request) => request.path === path);
  }

  /** Resolves once `isThere` is true of what was received; looked at when a request arrives and when it is answered. */
  async until(isThere: () => boolean): Promise<void> {
    while (!isThere()) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  async start(port: number): Promise<this> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #addRoutes(): void {
    this.#router.add(pagingRoutes(this.orders)).add(writingRoutes(this.orders)).add(this.oauth.routes());
    this.#router.add(oddBodies).add(transfers).add(huge).add(this.#control());
    addMisbehaviour(this.#router);
    this.#router.guard('basic', basicGuard(this.credentials));
    this.#router.guard('bearer', bearerGuard(this.credentials));
    this.#router.guard('key', keyGuard(this.credentials));
    this.#router.guard('oauth', this.oauth.guard());
    this.#router.guard('signed', signedGuard(this.credentials));
  }

  /** For tests that run the API as a process of its own; these requests are not recorded. */
  #control() {
    return {
      'GET /_/requests': (exchange: Exchange) =>
        exchange.json(
          200,
          this.requests.map(({ body, query, ...request }) => ({
            ...request,
            query: [...query],
            body: body.toString('utf8'),
          })),
        ),
      'DELETE /_/requests': (exchange: Exchange) => {
        this.requests.length = 0;
        exchange.send(204, '');
      },
    };
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = received(message, response);
    if (!request.path.startsWith('/_/')) this.#record(request);
    this.#atOnce += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#atOnce);
    response.once('close', () => {
      this.#atOnce -= 1;
      this.#wake();
    });
    this.#wake();
    const exchange = new Exchange(request, message, response, this.url);
    try {
      // For the client's write timeout: nothing of the body is taken from the socket for a while.
      if (request.path === '/slow-read') await delay(exchange.number('ms', 0), undefined, { ref: false });
      if (!(await readBody(exchange, this.#options.keepBodyBytes))) return;
      await this.beforeAnswer?.(request);
      if (request.path === '/slow-read') exchange.json(200, { bytes: request.bodyBytes });
      else await this.#router.run(exchange);
    } catch (error) {
      refuse(exchange, error);
    }
  }

  #record(request: ReceivedRequest): void {
    this.requests.push(request);
    const over = this.requests.length - this.#options.keepRequests;
    // In large steps: shifting a long array for each request would limit benchmarks.
    if (over > 1000) this.requests.splice(0, over);
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

function refuse(exchange: Exchange, error: unknown): void {
  if (exchange.response.headersSent) throw error;
  if (error instanceof Refusal) {
    const { status, code, message, headers } = error;
    exchange.json(status, { error: { code, message } }, headers);
  } else {
    exchange.json(500, { error: { code: 'bug_of_the_fake_api', message: String(error) } });
  }
}

/** Ends with the test where one is given. */
export async function startExternalApi(
  t?: Pick<TestContext, 'after'>,
  options: ExternalApiOptions = {},
): Promise<ExternalApi> {
  const api = await new ExternalApi(options).start(options.port ?? 0);
  t?.after(() => api.stop());
  return api;
}
