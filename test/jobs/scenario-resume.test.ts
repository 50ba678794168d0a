import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { onEachDatabase, type Place } from '../support/databases.ts';
import { startExternalApi, type ExternalApi } from '../support/external-api.ts';
import { calling, type ScenarioBody } from '../support/scenarios.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { eventually } from '../support/shared-bench.ts';

interface Bench {
  api: ExternalApi;
  service: TestService;
  token: string;
  /** Stops the service in the middle of its jobs, and starts it anew. */
  restart(): Promise<void>;
  save(scenario: ScenarioBody): Promise<void>;
  submit(scenario: string): Promise<string>;
  job(jobId: string): Promise<Job>;
  ended(jobId: string): Promise<Job>;
  log(jobId: string): Promise<string[]>;
  /** How often each path was called. */
  calls(): Record<string, number>;
}

interface Job {
  state: string;
  endedAt: string | null;
  output: never;
  stats: { pages: number; records: number };
  error: { code: string; message: string } | null;
}

async function startBench(t: TestContext, newPlace: () => Promise<Place>): Promise<Bench> {
  const place = await newPlace();
  const api = await startExternalApi(t);
  const endings: (() => unknown)[] = [() => place.remove()];
  t.after(async () => {
    for (const end of endings.toReversed()) await end();
  });
  const ofService = { after: (end: () => unknown) => void endings.push(end) } as TestContext;
  const start = async () => {
    const service = await startTestService(ofService, { place, settings: { stopGraceSeconds: 0 } });
    service.clock.run();
    return service;
  };
  const bench = { api, service: await start() } as Bench;
  await bench.service.system.applications.create({ appId: 'shop' });
  bench.token = await bench.service.tokenOf('editor');
  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await bench.service.call(method, `/api/v1${path}`, bench.token, body);
    assert.ok(answer.status < 300, answer.text);
    return answer.body.result;
  };
  Object.assign(bench, {
    async restart() {
      await bench.service.stop();
      bench.service = await start();
    },
    async save(scenario) {
      await call('PUT', `/applications/shop/scenarios/${scenario.name}`, scenario);
    },
    async submit(scenario) {
      const operation = { opName: 'RunScenario', opParams: { scenario } };
      return (await call('POST', '/executeJob', { appId: 'shop', isAsync: true, operation })).jobId as string;
    },
    job: (jobId) => call('GET', `/jobs/${jobId}`),
    async ended(jobId) {
      let job = await bench.job(jobId);
      await eventually(async () => {
        job = await bench.job(jobId);
        assert.notEqual(job.endedAt, null);
      });
      return job;
    },
    async log(jobId) {
      const events = await bench.service.system.jobs.history.events(jobId, { limit: 1000 });
      return events.flatMap(({ type, data }) => (type === 'log' ? [data['text'] as string] : []));
    },
    calls: () => {
      const counts: Record<string, number> = {};
      for (const { path } of api.requests) counts[path] = (counts[path] ?? 0) + 1;
      return counts;
    },
  } satisfies Partial<Bench>);
  return bench;
}

/** Counts the pages of its step in the execution context, and loads a record with each. */
const counting = (api: ExternalApi, name: string, pages: number, more = {}) => ({
  name,
  operation: {
    opName: 'HTTPRequest',
    opParams: {
      request: { url: `${api.url}/${name}`, method: 'GET' },
      target: {
        action: 'parse JSON',
        table: name,
        parsingScript: `
          const n = ($ctx.variables.${name} || 0) + 1;
          const told = { value: n, scope: 'executionContext' };
          return {
            data: [{ data: [{ n, before: JSON.stringify(_.pick($ctx.variables, 'one', 'two', 'deep')) }] }],
            variables: { ${name}: told },
            doWhile: n < ${pages} && { url: '/${name}?page=' + (n + 1) },
          };`,
      },
    },
  },
  ...more,
});

function answering(api: ExternalApi, ...names: string[]): void {
  for (const name of names) api.answer(`GET /${name}`, (exchange) => exchange.json(200, {}));
}

/** Holds the request with this URL until it is let go. */
function hold(api: ExternalApi, url: string): { arrived: Promise<void>; letGo: () => void } {
  let arrive = () => {};
  let letGo = () => {};
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  const held = new Promise<void>((resolve) => (letGo = resolve));
  api.beforeAnswer = async (request) => {
    if (request.url !== url) return;
    arrive();
    await held;
  };
  return { arrived, letGo };
}

onEachDatabase('RunScenario: taken up again', (newPlace) => {
  test('after a restart: steps that are over are not run again, the one under way goes on at its page', async (t) => {
    const bench = await startBench(t, newPlace);
    const { api } = bench;
    answering(api, 'one', 'two', 'three');
    await bench.save({
      name: 's',
      steps: [counting(api, 'one', 2), counting(api, 'two', 3), counting(api, 'three', 1)],
      output: 'return [$ctx.variables, _.mapObject($ctx.steps, ({ pages, records }) => [pages, records])];',
    });
    const { arrived, letGo } = hold(api, '/two?page=2');
    const jobId = await bench.submit('s');
    await arrived;
    await bench.restart();
    letGo();
    const { state, output, stats, error } = await bench.ended(jobId);
    assert.equal(state, 'succeeded', JSON.stringify(error));
    assert.deepEqual(output, [
      { one: 2, two: 3, three: 1 },
      { one: [2, 2], two: [3, 3], three: [1, 1] },
    ]);
    assert.deepEqual([stats.pages, stats.records], [6, 6]);
    assert.deepEqual(
      bench.calls(),
      { '/one': 2, '/two': 4, '/three': 1 },
      'the page that was broken off twice',
    );
    const begun = (await bench.log(jobId)).filter((line) => line.endsWith('begins'));
    assert.deepEqual(
      begun,
      ['one', 'two', 'two', 'three'].map((name) => `step "${name}" begins`),
    );
  });

  test('after a restart inside of a scenario that is a step', async (t) => {
    const bench = await startBench(t, newPlace);
    const { api } = bench;
    answering(api, 'one', 'deep', 'two', 'three');
    await bench.save({
      name: 'inner',
      parameters: [{ name: 'own', default: 1 }],
      steps: [counting(api, 'deep', 2), counting(api, 'two', 2)],
    });
    await bench.save({
      name: 'outer',
      steps: [counting(api, 'one', 1), calling('call', { scenario: 'inner' }), counting(api, 'three', 1)],
      output: 'return [$ctx.variables, _.mapObject($ctx.steps, ({ pages, records }) => [pages, records])];',
    });
    const { arrived, letGo } = hold(api, '/two?page=2');
    const jobId = await bench.submit('outer');
    await arrived;
    await bench.restart();
    letGo();
    const { state, output, error } = await bench.ended(jobId);
    assert.equal(state, 'succeeded', JSON.stringify(error));
    assert.deepEqual(output, [
      { one: 1, deep: 2, two: 2, three: 1 },
      { one: [1, 1], call: [4, 4], three: [1, 1] },
    ]);
    assert.deepEqual(bench.calls(), { '/one': 1, '/deep': 2, '/two': 3, '/three': 1 });
  });

  test('after a failure, when the scenario was mended', async (t) => {
    const bench = await startBench(t, newPlace);
    const { api, service, token } = bench;
    answering(api, 'one', 'two', 'three');
    const scenario = (when: string) => ({
      name: 's',
      steps: [counting(api, 'one', 2), counting(api, 'two', 1, { when }), counting(api, 'three', 1)],
      output: 'return $ctx.variables;',
    });
    await bench.save(scenario('return nothing;'));
    const jobId = await bench.submit('s');
    const failed = await bench.ended(jobId);
    assert.deepEqual([failed.state, failed.error?.code], ['failed', 'script_error']);
    assert.match(failed.error?.message ?? '', /^step "two": when/);
    await bench.save(scenario('return $ctx.variables.one === 2;'));
    const resumed = await service.call('POST', `/api/v1/jobs/${jobId}/resume`, token);
    assert.ok(resumed.status < 300, resumed.text);
    const { state, output } = await bench.ended(jobId);
    assert.deepEqual([state, output], ['succeeded', { one: 2, two: 1, three: 1 }]);
    assert.deepEqual(bench.calls(), { '/one': 2, '/two': 1, '/three': 1 });
  });

  test('a pause is no failure: onError continue lets it pass, and the job waits', async (t) => {
    const bench = await startBench(t, newPlace);
    const { api, service, token } = bench;
    answering(api, 'one', 'two');
    const pausing = counting(api, 'one', 1, { onError: 'continue' });
    pausing.operation.opParams.target.parsingScript = 'return { doWhile: true, doWhileDelay: 3600000 };';
    await bench.save({ name: 's', steps: [pausing, counting(api, 'two', 1)] });
    const jobId = await bench.submit('s');
    await eventually(async () => assert.equal((await bench.job(jobId)).state, 'waiting'));
    await service.call('POST', `/api/v1/jobs/${jobId}/cancel`, token);
    assert.equal((await bench.ended(jobId)).state, 'cancelled');
    assert.deepEqual(bench.calls(), { '/one': 1 });
  });

  test('cancelled in its first step: no further step begins, whatever onError says', async (t) => {
    const bench = await startBench(t, newPlace);
    const { api, service, token } = bench;
    answering(api, 'one', 'two');
    await bench.save({
      name: 's',
      steps: [counting(api, 'one', 5, { onError: 'continue' }), counting(api, 'two', 1)],
    });
    const { arrived, letGo } = hold(api, '/one?page=2');
    const jobId = await bench.submit('s');
    await arrived;
    await service.call('POST', `/api/v1/jobs/${jobId}/cancel`, token);
    letGo();
    assert.equal((await bench.ended(jobId)).state, 'cancelled');
    assert.equal(bench.calls()['/two'], undefined);
  });

  test('a scenario that has come to call itself while the job runs ends the job', async (t) => {
    const bench = await startBench(t, newPlace);
    const { api, service } = bench;
    answering(api, 'one', 'two');
    await bench.save({ name: 'inner', steps: [counting(api, 'two', 1)] });
    await bench.save({
      name: 'outer',
      steps: [counting(api, 'one', 1), calling('call', { scenario: 'inner' })],
    });
    const { arrived, letGo } = hold(api, '/one');
    const jobId = await bench.submit('outer');
    await arrived;
    await service.system.saved.scenarios.put('shop', {
      name: 'inner',
      parameters: [],
      steps: [{ ...calling('back', { scenario: 'outer' }), onError: 'fail' }],
    });
    letGo();
    const { state, error } = await bench.ended(jobId);
    assert.deepEqual([state, error?.code], ['failed', 'invalid_configuration']);
    assert.match(error?.message ?? '', /^step "call\/back": .*"outer" calls "inner" calls "outer"$/);
    assert.deepEqual(bench.calls(), { '/one': 1 });
  });
});
