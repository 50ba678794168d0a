import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Place } from './databases.ts';
import { spawnService, type ServiceProcess } from './service-process.ts';

const CLIENT = { client_id: 'nodes-test', client_secret: 'nodes-test-secret-1' };
const ENVIRONMENT = {
  MILLRACE_BOOTSTRAP_CLIENT_ID: CLIENT.client_id,
  MILLRACE_BOOTSTRAP_CLIENT_SECRET: CLIENT.client_secret,
  MILLRACE_ARGON2_MEMORY_KIB: '64',
  MILLRACE_ARGON2_PASSES: '1',
};

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
export type Result = Record<string, any>;

export interface Node extends ServiceProcess {
  fetch(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** The result of a call below /api/v1 that must succeed. */
  call(method: string, path: string, body?: unknown): Promise<Result>;
  submit(opParams: unknown, more?: Record<string, unknown>): Promise<string>;
  /** The rows of a download into a table of the source local, in the order of their ids. */
  rows(table: string): Promise<{ id: number; page: number }[]>;
  /** The job once it is over. */
  ended(jobId: string): Promise<Result>;
  /** Resolves with the exit code. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null>;
}

/** Several processes of the service over one database and one data folder, with one application. */
export class Cluster {
  static readonly appId = 'shop';
  readonly place: Place;
  readonly #t: TestContext;
  #token = '';

  constructor(t: TestContext, place: Place) {
    this.place = place;
    this.#t = t;
  }

  async start(role: 'all' | 'api' | 'worker', env: Record<string, string> = {}): Promise<Node> {
    const service = await spawnService(this.#t, {
      data: this.place.data,
      args: ['--role', role],
      env: { MILLRACE_DATABASE: this.place.database, ...ENVIRONMENT, ...env },
    });
    if (role !== 'worker' && this.#token === '') await this.#signIn(service);
    return this.#node(service);
  }

  async #signIn(service: ServiceProcess): Promise<void> {
    const grant = new URLSearchParams({ grant_type: 'client_credentials', ...CLIENT });
    const answer = await service.form(grant.toString());
    this.#token = ((await answer.json()) as { access_token: string }).access_token;
    const { status } = await this.#fetch(service.url, 'POST', '/applications', { appId: Cluster.appId });
    assert.equal(status, 201);
  }

  #fetch(
    url: string,
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    return fetch(`${url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  }

  #node(service: ServiceProcess): Node {
    const { child, url, output } = service;
    const call = async (method: string, path: string, body?: unknown): Promise<Result> => {
      const response = await this.#fetch(url, method, path, body);
      const text = await response.text();
      assert.ok(response.ok, `${text}\n${output.stderr}`);
      return (JSON.parse(text) as { result: Result }).result;
    };
    return {
      ...service,
      fetch: (...ask) => this.#fetch(url, ...ask),
      call,
      async submit(opParams, more = {}) {
        const operation = { opName: 'HTTPRequest', opParams };
        const { jobId } = await call('POST', '/executeJob', {
          appId: Cluster.appId,
          isAsync: true,
          operation,
          ...more,
        });
        return jobId as string;
      },
      async rows(table) {
        const { items } = await call(
          'GET',
          `/applications/${Cluster.appId}/tables/local/main/${table}?limit=10000`,
        );
        const rows = (items as { id: number; page: number }[]).map(({ id, page }) => ({ id, page }));
        return rows.toSorted((a, b) => a.id - b.id);
      },
      async ended(jobId) {
        for (;;) {
          const job = await call('GET', `/jobs/${jobId}`);
          if (job.endedAt !== null) return job;
          await delay(100);
        }
      },
      async end(signal) {
        assert.equal(child.exitCode, null, `the node has ended by itself: ${output.stderr}`);
        const exited = once(child, 'exit') as Promise<[number | null]>;
        child.kill(signal);
        return (await exited)[0];
      },
    };
  }
}

/** A download of all orders of the fake API, one row an order, with the page that it came with. */
export function downloadOf(url: string, table: string, size: number) {
  return {
    request: { url: `${url}/orders/by-next?size=${size}`, method: 'GET' },
    target: {
      action: 'parse JSON',
      table,
      parsingScript: `
        const { items, next } = $ctx.response.body;
        const page = ($ctx.variables.page ?? 0) + 1;
        return {
          data: [{ data: items.map(({ id }) => ({ id, page })), mode: 'append' }],
          variables: { page: { value: page, scope: 'executionContext' } },
          doWhile: next === null ? false : { url: next },
        };`,
    },
  };
}

export function rowsOfDownload(orders: number, size: number): { id: number; page: number }[] {
  return Array.from({ length: orders }, (_, n) => ({ id: n + 1, page: Math.floor(n / size) + 1 }));
}
