import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { startJobBench, type JobBench } from '../support/jobs.ts';
import { eventually, failure } from '../support/shared-bench.ts';

const SECRET = 'given-with-the-job-alone';
const HOUR = 3600;

/** Fails at its second page, with one page aside in a staging table. */
const half = ({ api }: JobBench, mode = 'createThenAppend', tmpTable = 'false') => ({
  request: {
    url: `${api.url}/orders/by-next?size=10`,
    method: 'GET',
    auth: { type: 'bearer', token: SECRET },
    options: { retry: false },
  },
  target: {
    action: 'parse JSON',
    table: 'half',
    parsingScript: `
      const { items, next } = $ctx.response.body;
      if (items[0].id > 10) throw new Error('half way');
      return { data: [{ data: items, mode: '${mode}', tmpTable: '${tmpTable}' }], doWhile: { url: next } };`,
  },
});

const stagedTables = ({ service, appId }: JobBench): string[] => {
  const file = join(service.settings.data, 'applications', appId, 'local.sqlite');
  if (!existsSync(file)) return [];
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return database
      .prepare('SELECT name FROM _table WHERE staged = 1')
      .all()
      .map(({ name }) => String(name));
  } finally {
    database.close();
  }
};

test('what a failed job leaves is kept for a resume, and goes in the end, the job itself last', async (t) => {
  const bench = await startJobBench(t, {
    api: { orders: 30 },
    settings: { resumableHours: 1, keptBodyDays: 1, keptJobDays: 2, sweepSeconds: 1 },
  });
  const { service, run } = bench;
  let token = bench.token;
  const call = (method: string, path: string) => service.call(method, `/api/v1/jobs/${path}`, token);
  const failed = await run(half(bench));
  const { jobId } = failed.body.result;
  assert.equal(failure(failed).code, 'script_error');
  const sealed = () => service.system.secrets.get(`job:${jobId}`);
  assert.deepEqual(stagedTables(bench), ['half']);
  assert.match((await sealed()) ?? '', new RegExp(SECRET));

  service.clock.advance(1.5 * HOUR);
  await eventually(async () => {
    assert.deepEqual(stagedTables(bench), []);
    assert.equal(await sealed(), null);
  });
  token = await service.tokenOf('editor');
  const resumed = await call('POST', `${jobId}/resume`);
  assert.equal(resumed.status, 409, resumed.text);
  assert.match(resumed.body.result.message, /no longer kept.*rerun it/);
  const rerun = await call('POST', `${jobId}/rerun`);
  assert.deepEqual([rerun.status, rerun.body.result.code], [409, 'conflict']);
  assert.match(rerun.body.result.message, /secrets.*no longer kept/);
  const body = `${jobId}/pages/1/body`;
  assert.equal((await call('GET', body)).status, 200);

  service.clock.advance(24 * HOUR);
  token = await service.tokenOf('editor');
  await eventually(async () => assert.equal((await call('GET', body)).status, 404));
  assert.equal((await call('GET', jobId)).status, 200);

  service.clock.advance(24 * HOUR);
  token = await service.tokenOf('editor');
  await eventually(async () => assert.equal((await call('GET', jobId)).status, 404));
});

test('a job whose temporary tables went with its end is not resumed, but can be run again', async (t) => {
  const bench = await startJobBench(t, { api: { orders: 30 } });
  const failed = await bench.run(half(bench, 'append', 'true'));
  const { jobId } = failed.body.result;
  const path = `/api/v1/jobs/${jobId}`;
  const resumed = await bench.service.call('POST', `${path}/resume`, bench.token);
  assert.equal(resumed.status, 409, resumed.text);
  assert.match(resumed.body.result.message, /temporary tables.*rerun it/);
  assert.equal((await bench.service.call('POST', `${path}/rerun`, bench.token)).status, 202);
});
