import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { startExternalApi, type ExternalApi } from '../support/external-api.ts';
import { onEachDatabase } from '../support/databases.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { eventually } from '../support/shared-bench.ts';

const APP = 'shop';
/** What timers, connections and a busy machine shift between a turn and the arrival of its request. */
const JITTER_MS = 150;

interface Bench {
  services: TestService[];
  api: ExternalApi;
  /** When requests arrived, by the job that sent them. */
  arrivals: { job: string; at: number }[];
  putSource(more: Record<string, unknown>): Promise<void>;
  /** A job that asks for so many pages; gives its id. */
  submit(node: number, job: string, pages: number, options?: Record<string, unknown>): Promise<string>;
  state(jobId: string): Promise<string>;
  succeeded(jobId: string): Promise<void>;
}

onEachDatabase('The rate budget of a source', (newPlace) => {
  async function startBench(t: TestContext): Promise<Bench> {
    const place = await newPlace();
    t.after(() => place.remove());
    const services = [await startTestService(t, { place }), await startTestService(t, { place })];
    for (const { clock } of services) clock.run();
    const [service] = services as [TestService];
    await service.system.applications.create({ appId: APP });
    const token = await service.tokenOf('editor');
    const api = await startExternalApi(t);
    const arrivals: Bench['arrivals'] = [];
    api.beforeAnswer = ({ query }) => {
      arrivals.push({ job: query.get('job') ?? '', at: performance.now() });
    };
    const job = async (jobId: string) =>
      (await service.call('GET', `/api/v1/jobs/${jobId}`, token)).body.result;
    return {
      services,
      api,
      arrivals,
      async putSource(more) {
        const source = { name: 'erp', type: 'HTTPSource', baseUrl: api.url, ...more };
        const { status, text } = await service.call(
          'PUT',
          `/api/v1/applications/${APP}/sources/erp`,
          token,
          source,
        );
        assert.ok(status < 300, text);
      },
      async submit(node, name, pages, options = {}) {
        const opParams = {
          request: {
            source: 'erp',
            url: '/limited',
            method: 'GET',
            parameters: `return { job: '${name}', n: $ctx.variables.n ?? 1 };`,
            options,
          },
          target: {
            action: 'parse JSON',
            parsingScript: `
              const n = $ctx.variables.n ?? 1;
              return {
                data: [],
                variables: { n: { value: n + 1, scope: 'executionContext' } },
                doWhile: n < ${pages},
              };`,
          },
        };
        const answer = await (services[node] as TestService).call('POST', '/api/v1/executeJob', token, {
          appId: APP,
          isAsync: true,
          responseFormat: 'json',
          operation: { opName: 'HTTPRequest', opParams },
        });
        assert.equal(answer.status, 202, answer.text);
        return answer.body.result.jobId as string;
      },
      state: async (jobId) => (await job(jobId)).state,
      async succeeded(jobId) {
        for (;;) {
          const { state, error } = await job(jobId);
          if (state === 'succeeded') return;
          assert.ok(state === 'queued' || state === 'running' || state === 'waiting', JSON.stringify(error));
          await delay(50);
        }
      },
    };
  }

  /** Answers each request, in the order of arrival, with these header fields. */
  function answerWith({ api }: Bench, headersOf: (n: number) => Record<string, string>): void {
    let count = 0;
    api.answer('GET /limited', (exchange) => {
      count += 1;
      exchange.json(200, { n: count }, headersOf(count));
    });
  }

  test('jobs of two nodes at once never exceed the limit', async (t) => {
    const bench = await startBench(t);
    answerWith(bench, () => ({}));
    await bench.putSource({ rateLimit: { requests: 20, perSeconds: 1 } });
    const jobs = await Promise.all([0, 1, 0, 1].map((node, n) => bench.submit(node, `job${n}`, 20)));
    await Promise.all(jobs.map(bench.succeeded));
    const times = bench.arrivals.map(({ at }) => at);
    assert.equal(times.length, 80);
    const most = Math.max(...times.map((end) => times.filter((at) => at > end - 1_000 && at <= end).length));
    // Turns are spread evenly, so that each that is shifted by the jitter adds one.
    assert.ok(most <= 20 + (20 * JITTER_MS) / 1_000, `${most} in a second`);
    assert.equal(new Set(bench.arrivals.slice(0, 40).map(({ job }) => job)).size, 4, 'all get on');
  });

  test('a 429 that one job has met holds the others back, on all nodes, without a limit of ours too', async (t) => {
    const bench = await startBench(t);
    const { api, arrivals } = bench;
    await bench.putSource({});
    let refusedAt = 0;
    api.answer('GET /limited', async (exchange) => {
      await delay(20);
      if (arrivals.length > 60 && refusedAt === 0) {
        refusedAt = performance.now();
        exchange.json(429, {}, { 'retry-after': '3' });
      } else exchange.json(200, { at: performance.now() });
    });
    const jobs = await Promise.all([0, 1, 0, 1].map((node, n) => bench.submit(node, `job${n}`, 60)));
    await Promise.all(jobs.map(bench.succeeded));
    assert.equal(arrivals.length, 241);
    // A node looks once a second for what others have met.
    const meanwhile = arrivals.filter(
      ({ at }) => at > refusedAt + 1_000 + JITTER_MS && at < refusedAt + 2_990,
    );
    assert.deepEqual(meanwhile, []);
    assert.ok(arrivals.some(({ at }) => at > refusedAt + 2_990));
  });

  test('what an answer says of limits is kept to: shortly in the process, long as a pause of the job', async (t) => {
    const bench = await startBench(t);
    await bench.putSource({});
    answerWith(bench, (n): Record<string, string> => {
      if (n === 1) return { ratelimit: '"default";r=0;t=1', 'ratelimit-policy': '"default";q=1;w=1' };
      if (n === 2) return { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '9' };
      return { 'x-ratelimit-remaining': '5', 'x-ratelimit-reset': '9' };
    });
    const jobId = await bench.submit(0, 'job', 3, { retry: false });
    await eventually(async () => assert.equal(await bench.state(jobId), 'waiting'));
    const other = await bench.submit(1, 'other', 1);
    await bench.succeeded(jobId);
    await bench.succeeded(other);
    const [first, second, ...later] = bench.arrivals.map(({ at }) => at) as [number, number, number, number];
    assert.ok(second - first > 990, `${second - first}`);
    assert.equal(later.length, 2);
    for (const at of later) assert.ok(at - second > 8_990, `${at - second}`);
  });

  test('whoever has a turn in some time waits for it without a worker, and gets it', async (t) => {
    const bench = await startBench(t);
    answerWith(bench, () => ({}));
    await bench.putSource({ rateLimit: { requests: 1, perSeconds: 9 } });
    const first = await bench.submit(0, 'first', 1);
    await bench.succeeded(first);
    const second = await bench.submit(0, 'second', 1);
    await eventually(async () => assert.equal(await bench.state(second), 'waiting'));
    const third = await bench.submit(1, 'third', 1);
    await Promise.all([second, third].map(bench.succeeded));
    assert.deepEqual(
      bench.arrivals.map(({ job }) => job),
      ['first', 'second', 'third'],
    );
    const [a, b, c] = bench.arrivals.map(({ at }) => at) as [number, number, number];
    assert.ok(b - a > 9_000 - JITTER_MS && c - b > 9_000 - JITTER_MS, `${b - a} ${c - b}`);
    assert.ok(c - a < 18_000 + 6_000, `the turns were kept: ${c - a}`);
  });
});
