import assert from 'node:assert/strict';
import type { ReceivedRequest } from './external-api.ts';
import type { Answer } from './service.ts';
import { sharedBench, type SharedBench } from './shared-bench.ts';

type Params = Record<string, unknown>;

interface Refusal {
  status: number;
  code: string;
  path?: string;
  message: RegExp;
}

interface RequestBench extends SharedBench {
  /** Runs an HTTPRequest, which must succeed; GET /echo unless `request` says more. Gives what the API received. */
  send(request?: Params, rest?: Params): Promise<ReceivedRequest[]>;
  /** The same where it is one request. */
  sendOne(request?: Params, rest?: Params): Promise<ReceivedRequest>;
  /** Runs an HTTPRequest that must be refused before anything is sent. */
  refuse(expected: Refusal, request?: Params, rest?: Params): Promise<void>;
  /** Writes records into a table of the source local. */
  fill(table: string, records: Params[], space?: string): Promise<void>;
  /** The bytes of a saved file; null: there is none. They are read by sending them to the API. */
  file(table: string, space?: string): Promise<Buffer | null>;
}

/** For all tests of a suite; each has tables and files of its own. */
export function requestBench(options: Parameters<typeof sharedBench>[0] = {}): () => RequestBench {
  const shared = sharedBench(options);
  return () => withRequests(shared());
}

function withRequests(bench: SharedBench): RequestBench {
  const { api, app, run } = bench;

  async function answerTo(request: Params, rest: Params): Promise<Answer> {
    const { url = '/echo' } = request;
    const absolute = typeof url === 'string' && url.startsWith('/') ? api.url + url : url;
    api.requests.length = 0;
    return run({ ...rest, request: { method: 'GET', ...request, url: absolute } });
  }

  const requests: Omit<RequestBench, keyof SharedBench> = {
    async send(request = {}, rest = {}) {
      const answer = await answerTo(request, rest);
      assert.equal(answer.status, 200, answer.text);
      return [...api.requests];
    },
    async sendOne(request, rest) {
      const received = await requests.send(request, rest);
      assert.equal(received.length, 1);
      return received[0] as ReceivedRequest;
    },
    async refuse({ status, code, path, message }, request = {}, rest = {}) {
      const answer = await answerTo(request, rest);
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.body.status, 'error');
      const { result } = answer.body;
      assert.equal(result.code, code, answer.text);
      assert.match(result.message, message);
      if (path !== undefined) assert.equal(result.path, path);
      assert.deepEqual(
        api.requests.map(({ method, url }) => `${method} ${url}`),
        [],
        'nothing may be sent',
      );
    },
    async fill(table, records, space = 'main') {
      const answer = await app('POST', `/tables/local/${space}/${encodeURIComponent(table)}`, records);
      assert.ok(answer.status < 300, answer.text);
    },
    async file(tableName, spaceName) {
      const body = { sourceName: 'files', tableName, ...(spaceName !== undefined && { spaceName }) };
      const answer = await answerTo(
        {
          url: '/upload',
          method: 'POST',
          bodyType: 'JSON -> transmitSourceTable()',
          body: JSON.stringify(body),
        },
        {},
      );
      if (answer.status === 200) return api.requests[0]?.body ?? null;
      assert.match(answer.body.result.message, /does not exist/, answer.text);
      return null;
    },
  };
  return { ...bench, ...requests };
}

/** A refusal of the call itself: the field stands in the body of executeJob. */
export function badRequest(path: string, message: RegExp, code = 'invalid_request'): Refusal {
  return { status: 400, code, path: `operation.opParams.${path}`, message };
}

/** A job that failed before it sent anything: the configuration is at fault. */
export function badConfiguration(path: string, message: RegExp, code = 'invalid_configuration'): Refusal {
  return { status: 422, code, path, message };
}
