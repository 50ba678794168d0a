import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { onEachDatabase } from '../support/databases.ts';
import { Line } from '../support/line.ts';
import { startTestService } from '../support/service.ts';

onEachDatabase('The database of the records goes away and comes back', (newPlace, kind) => {
  if (kind === 'sqlite') {
    test('locked by another process for longer than the busy timeout: 503, and all is well afterwards', async (t) => {
      const service = await startTestService(t);
      const grant = { grant_type: 'client_credentials', ...(await service.newClient()) };
      const other = new DatabaseSync(join(service.settings.data, 'millrace.sqlite'));
      t.after(() => other.close());
      other.exec('BEGIN EXCLUSIVE');
      const locked = await service.form(grant);
      assert.deepEqual([locked.status, locked.body.error], [503, 'temporarily_unavailable']);
      other.exec('ROLLBACK');
      assert.equal((await service.form(grant)).status, 200);
    });
    return;
  }
  test('503 with Retry-After meanwhile, in both error shapes, and all is well afterwards', async (t) => {
    const place = await newPlace();
    const line = new Line(place.database);
    await line.open();
    t.after(() => place.remove());
    const service = await startTestService(t, { place: { ...place, database: line.url } });
    const client = await service.newClient();
    const grant = { grant_type: 'client_credentials', ...client };
    const { body: pair } = await service.form(grant);

    await line.close();
    const answer = await service.call('GET', '/api/v1/applications', pair.access_token);
    assert.equal(answer.status, 503);
    assert.equal(answer.body.result.code, 'records_unavailable');
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
    const form = await service.form(grant);
    assert.deepEqual([form.status, form.body.error], [503, 'temporarily_unavailable']);
    assert.equal((await service.call('GET', '/health/ready', null)).status, 503);
    assert.equal((await service.call('GET', '/health/live', null)).status, 200);

    await line.open();
    t.after(() => line.close());
    assert.equal((await service.call('GET', '/health/ready', null)).status, 200);
    assert.equal((await service.call('GET', '/api/v1/applications', pair.access_token)).status, 200);
    assert.equal((await service.form(grant)).status, 200);
  });
});
