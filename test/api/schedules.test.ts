import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { startJobBench, type JobBench } from '../support/jobs.ts';

const LIST = '/schedules';
const NIGHTLY = `${LIST}/nightly`;

async function bench(t: TestContext): Promise<JobBench & { nightly: Record<string, unknown> }> {
  const made = await startJobBench(t);
  const opParams = { request: { url: `${made.api.url}/orders/by-page`, method: 'GET' } };
  const operation = { opName: 'HTTPRequest', opParams };
  return { ...made, nightly: { name: 'nightly', cron: '30 2 * * *', timezone: 'Europe/Berlin', operation } };
}

async function until<Value>(look: () => Promise<Value | null>): Promise<Value> {
  for (;;) {
    const found = await look();
    if (found !== null) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('Schedules in the API', () => {
  test('saved, read, listed, changed and deleted', async (t) => {
    const { app, nightly, service } = await bench(t);
    const created = await app('PUT', NIGHTLY, nightly);
    assert.deepEqual([created.status, created.body.result], [201, { name: 'nightly', change: 'created' }]);
    assert.equal((await app('PUT', NIGHTLY, nightly)).body.result.change, 'unchanged');
    assert.equal((await app('PUT', NIGHTLY, { ...nightly, overlap: 'queue' })).body.result.change, 'changed');

    const { body } = await app('GET', NIGHTLY);
    const { nextAt, savedBy, operation, ...rest } = body.result;
    assert.deepEqual(rest, {
      name: 'nightly',
      cron: '30 2 * * *',
      timezone: 'Europe/Berlin',
      overlap: 'queue',
      missed: 'once',
      job: { priority: 0, exclusive: false },
      pauseAfterFailures: null,
      paused: false,
      pausedBecause: null,
      lastRun: null,
      failuresInARow: 0,
    });
    assert.deepEqual(operation, nightly['operation']);
    assert.ok(Date.parse(nextAt) > service.clock.now());
    assert.match(savedBy.clientId, /./);
    assert.deepEqual((await app('GET', LIST)).body.result, { items: [body.result], next: null });

    const { body: next } = await app('GET', `${NIGHTLY}/next?count=3`);
    assert.equal(next.result.length, 3);
    assert.equal(next.result[0], nextAt);

    assert.equal((await app('DELETE', NIGHTLY)).status, 200);
    for (const [method, path] of [
      ['GET', NIGHTLY],
      ['GET', `${NIGHTLY}/next`],
      ['GET', `${NIGHTLY}/runs`],
      ['DELETE', NIGHTLY],
      ['POST', `${NIGHTLY}/pause`],
      ['POST', `${NIGHTLY}/resume`],
      ['POST', `${NIGHTLY}/run`],
    ] as const) {
      const { status, body: missing } = await app(method, path);
      assert.deepEqual([status, missing.result.message], [404, 'there is no schedule "nightly"'], path);
    }
  });

  test('what cannot work is refused with the path of the field', async (t) => {
    const { app, nightly, api } = await bench(t);
    const request = { url: api.url, method: 'GET' };
    const { operation: _, ...bare } = nightly;
    const faults: [Record<string, unknown>, string, RegExp][] = [
      [{ ...nightly, cron: '61 * * * *' }, 'cron', /allowed: 0 to 59/],
      [{ ...nightly, cron: '0 0 30 2 *' }, 'cron', /never fires/],
      [{ ...nightly, timezone: 'Europe/Berlln' }, 'timezone', /Did you mean "Europe\/Berlin"/],
      [{ ...nightly, operation: { opName: 'HttpReqest' } }, 'operation.opName', /there is no operation/],
      [
        {
          ...nightly,
          operation: { opName: 'HTTPRequest', opParams: { request: { ...request, method: 'GTE' } } },
        },
        'operation.opParams.request.method',
        /operation\.opParams\.request\.method/,
      ],
      [
        {
          ...nightly,
          operation: { opName: 'HTTPRequest', opParams: { request: { ...request, source: 'crm' } } },
        },
        'operation.opParams.request.source',
        /crm/,
      ],
      [
        {
          ...nightly,
          operation: {
            opName: 'HTTPRequest',
            opParams: { request: { ...request, auth: { type: 'bearer', token: 'very secret' } } },
          },
        },
        'operation.opParams.request.auth',
        /secrets are not kept in a schedule/,
      ],
      [{ ...bare, request: 'orders' }, 'request', /there is no saved request "orders"/],
      [{ ...nightly, request: 'orders' }, 'operation', /not both/],
      [bare, 'operation', /must be given/],
      [{ ...nightly, overlapp: 'skip' }, 'overlapp', /Did you mean "overlap"/],
      [{ ...nightly, pauseAfterFailures: 0 }, 'pauseAfterFailures', /./],
      [{ ...nightly, name: 'daily' }, 'name', /as in the path/],
    ];
    for (const [schedule, path, says] of faults) {
      const { status, body, text } = await app('PUT', NIGHTLY, schedule);
      assert.equal(status, 400, text);
      assert.equal(body.result.path, path, text);
      assert.match(body.result.message, says);
      assert.ok(!text.includes('very secret'));
    }
    assert.deepEqual((await app('GET', LIST)).body.result.items, []);
  });

  test('paused it does not fire, run by hand it does, and its runs can be read', async (t) => {
    const { app, nightly, service, token } = await bench(t);
    await app('PUT', NIGHTLY, nightly);
    const paused = (await app('POST', `${NIGHTLY}/pause`)).body.result;
    assert.deepEqual(
      [paused.paused, paused.nextAt, paused.pausedBecause],
      [true, null, 'it was paused by hand'],
    );
    const run = await app('POST', `${NIGHTLY}/run`);
    assert.equal(run.status, 202);
    assert.equal(run.headers.get('location'), run.body.result.statusUrl);
    const { jobId } = run.body.result;
    await until(async () => {
      const { body } = await service.call('GET', `/api/v1/jobs/${jobId}`, token);
      return body.result.state === 'succeeded' ? true : null;
    });
    const { lastRun } = (await app('GET', NIGHTLY)).body.result;
    assert.deepEqual([lastRun.jobId, lastRun.state], [jobId, 'succeeded']);
    const { body: runs } = await app('GET', `${NIGHTLY}/runs?limit=1`);
    const expected = { at: lastRun.at, cause: 'manual', state: 'succeeded', jobId, why: null };
    assert.deepEqual(runs.result, { items: [expected], next: null });
    const resumed = (await app('POST', `${NIGHTLY}/resume`)).body.result;
    assert.deepEqual([resumed.paused, resumed.pausedBecause], [false, null]);
    assert.ok(resumed.nextAt);
  });

  test('it fires in a running service, in the name of whoever saved it; a saved request as it is then', async (t) => {
    const { app, api, service, token } = await bench(t);
    const request = { request: { url: `${api.url}/nowhere`, method: 'GET' } };
    await app('PUT', '/requests/orders', { name: 'orders', ...request });
    const often = { name: 'often', cron: '* * * * * *', request: 'orders', pauseAfterFailures: 1 };
    const { status, text } = await app('PUT', `${LIST}/often`, often);
    assert.equal(status, 201, text);
    const shown = await until(async () => {
      const { body } = await app('GET', `${LIST}/often`);
      return body.result.paused ? body.result : null;
    });
    assert.match(shown.pausedBecause, /^1 run failed, the last one: job \w+: http_status: /);
    const { body } = await service.call('GET', `/api/v1/jobs/${shown.lastRun.jobId}`, token);
    assert.deepEqual(body.result.submittedBy, shown.savedBy);
    assert.equal(body.result.opName, 'HTTPRequest');
  });

  test('viewers read, operators pause and run, editors save', async (t) => {
    const { nightly, service, app } = await bench(t);
    await app('PUT', NIGHTLY, nightly);
    const at = `/api/v1/applications/shop${NIGHTLY}`;
    const viewer = await service.tokenOf('viewer');
    const operator = await service.tokenOf('operator');
    const stranger = await service.tokenOf('administrator', { applications: ['other'] });
    assert.equal((await service.call('GET', at, viewer)).status, 200);
    assert.equal((await service.call('POST', `${at}/run`, viewer)).status, 403);
    assert.equal((await service.call('POST', `${at}/pause`, viewer)).status, 403);
    assert.equal((await service.call('POST', `${at}/pause`, operator)).status, 200);
    assert.equal((await service.call('PUT', at, operator, nightly)).status, 403);
    assert.equal((await service.call('DELETE', at, operator)).status, 403);
    assert.equal((await service.call('GET', at, stranger)).status, 403);
    assert.equal((await service.call('GET', at.replace('shop', 'nowhere'), viewer)).status, 404);
  });
});
