import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { onPostgres, sqlitePlace } from '../support/databases.ts';
import { startExternalApi } from '../support/external-api.ts';
import { Line } from '../support/line.ts';
import { Cluster, downloadOf, rowsOfDownload } from '../support/nodes.ts';
import { millrace } from '../support/service-process.ts';

const SIZE = 10;

test('a role other than all needs a database that nodes can share', async (t) => {
  const { data, remove } = await sqlitePlace();
  t.after(remove);
  const { code, stderr } = await millrace(['serve', '--role', 'worker', '--data', data]);
  assert.notEqual(code, 0);
  assert.match(stderr, /role: worker needs the setting database.*only the role all is possible/s);
});

onPostgres('Several nodes', (newPlace) => {
  test('a job waits for a worker; the sync call on an api node is answered when a worker has run it', async (t) => {
    const place = await newPlace();
    const cluster = new Cluster(t, place);
    t.after(() => place.remove());
    const api = await startExternalApi(t, { orders: 30 });
    const front = await cluster.start('api');
    const operation = { opName: 'HTTPRequest', opParams: downloadOf(api.url, 'orders', SIZE) };
    const body = { appId: Cluster.appId, responseFormat: 'json', operation };
    const answer = front.call('POST', '/executeJob', body);
    await delay(2_000);
    const { items } = await front.call('GET', '/jobs');
    assert.deepEqual([items.length, items[0].state, api.requests.length], [1, 'queued', 0]);
    const worker = await cluster.start('worker');
    const result = await answer;
    assert.deepEqual([result.state, result.stats.pages], ['succeeded', 3]);
    assert.deepEqual(await front.rows('orders'), rowsOfDownload(30, SIZE));

    const started = performance.now();
    await front.call('POST', '/executeJob', body);
    t.diagnostic(`a sync call over two nodes took ${Math.round(performance.now() - started)} ms`);

    assert.equal((await fetch(`${worker.url}/health/ready`)).status, 200);
    assert.equal((await fetch(`${worker.url}/metrics`)).status, 401, 'as everywhere, without openMetrics');
    assert.equal((await worker.fetch('GET', '/jobs')).status, 404, 'a worker has no API');
    assert.match(worker.output.stderr, /all nodes must share the folder, or be given the key/);
  });

  test('cancel reaches a job on another node', async (t) => {
    const place = await newPlace();
    const cluster = new Cluster(t, place);
    t.after(() => place.remove());
    const api = await startExternalApi(t, { orders: 100_000 });
    api.beforeAnswer = () => delay(20);
    const [front] = await Promise.all([cluster.start('api'), cluster.start('worker')]);
    const jobId = await front.submit(downloadOf(api.url, 'orders', SIZE));
    await api.until(() => api.requests.length > 5);
    const asked = performance.now();
    await front.call('POST', `/jobs/${jobId}/cancel`);
    const job = await front.ended(jobId);
    const ms = performance.now() - asked;
    t.diagnostic(`cancelled after ${Math.round(ms)} ms`);
    assert.equal(job.state, 'cancelled');
    assert.ok(ms < 3_000, `cancelled after ${ms} ms`);
  });

  test('events come from another node in order and without gaps, also on a third node after a break', async (t) => {
    const place = await newPlace();
    const cluster = new Cluster(t, place);
    t.after(() => place.remove());
    const api = await startExternalApi(t, { orders: 600 });
    api.beforeAnswer = () => delay(10);
    const front = await cluster.start('api');
    const [other] = await Promise.all([cluster.start('api'), cluster.start('worker')]);
    const jobId = await front.submit(downloadOf(api.url, 'orders', SIZE));
    const seen: number[] = [];
    await readEvents(await front.fetch('GET', `/jobs/${jobId}/events`), seen, 12);
    const last = { 'last-event-id': String(seen.at(-1)) };
    await readEvents(await other.fetch('GET', `/jobs/${jobId}/events`, undefined, last), seen, Infinity);
    assert.deepEqual(
      seen,
      seen.map((_, at) => at + 1),
    );
    const all: number[] = [];
    await readEvents(await front.fetch('GET', `/jobs/${jobId}/events`), all, Infinity);
    assert.deepEqual(seen, all);
    assert.ok(seen.length >= 60);
  });

  test('SIGTERM: a node hands its jobs back at the next page, and another node goes on at once', async (t) => {
    const place = await newPlace();
    const cluster = new Cluster(t, place);
    t.after(() => place.remove());
    const api = await startExternalApi(t, { orders: 1_000 });
    const arrivals: number[] = [];
    api.beforeAnswer = () => {
      arrivals.push(performance.now());
      return delay(20);
    };
    const front = await cluster.start('api');
    const oldNode = await cluster.start('worker');
    const jobId = await front.submit(downloadOf(api.url, 'orders', SIZE));
    await api.until(() => api.requests.length > 10);
    const newNode = await cluster.start('worker');
    assert.equal(await oldNode.end('SIGTERM'), 0, oldNode.output.stderr);
    const job = await front.ended(jobId);
    assert.deepEqual([job.state, job.stats.pages], ['succeeded', 100], newNode.output.stderr);
    const rows = await front.rows('orders');
    assert.deepEqual(rows, rowsOfDownload(1_000, SIZE));
    const gaps = arrivals.slice(10).map((at, n) => at - (arrivals[n + 9] ?? at));
    const handoverMs = Math.max(...gaps);
    t.diagnostic(`handed over within ${Math.round(handoverMs)} ms`);
    assert.ok(handoverMs < 5_000, `handed over within ${handoverMs} ms`);
  });

  test('the database goes away in the midst of a job: the job goes on by itself when it is back', async (t) => {
    const place = await newPlace();
    const line = new Line(place.database);
    await line.open();
    t.after(async () => {
      await line.close();
      await place.remove();
    });
    const cluster = new Cluster(t, { ...place, database: line.url });
    const api = await startExternalApi(t, { orders: 1_500 });
    api.beforeAnswer = () => delay(20);
    const node = await cluster.start('all');
    const jobId = await node.submit(downloadOf(api.url, 'orders', SIZE));
    await api.until(() => api.requests.length > 10);
    await line.close();
    await delay(3_000);
    const refused = await node.fetch('POST', '/executeJob', {});
    assert.equal(refused.status, 503);
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    await line.open();
    const back = performance.now();
    const asked = api.requests.length;
    await api.until(() => api.requests.length > asked);
    t.diagnostic(`went on ${Math.round(performance.now() - back)} ms after the return`);
    const job = await node.ended(jobId);
    assert.deepEqual([job.state, job.stats.pages], ['succeeded', 150], node.output.stderr);
    const rows = await node.rows('orders');
    assert.deepEqual(rows, rowsOfDownload(1_500, SIZE));
    assert.equal(await node.end('SIGTERM'), 0);
  });

  test('a node with another data folder says so, and one with another master key does not start', async (t) => {
    const place = await newPlace();
    const cluster = new Cluster(t, place);
    t.after(() => place.remove());
    await cluster.start('api', { MILLRACE_MASTER_KEY: Buffer.alloc(32, 1).toString('base64') });
    const elsewhere = await sqlitePlace();
    t.after(elsewhere.remove);
    const far = new Cluster(t, { ...place, data: elsewhere.data });
    await assert.rejects(
      far.start('worker'),
      /the master key does not fit the database.*All nodes of one database need the same master key/s,
    );
    const worker = await far.start('worker', {
      MILLRACE_MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
    });
    assert.match(worker.output.stderr, /other nodes have another data folder/);
  });
});

/** Until so many ids are seen, or the stream ends. */
async function readEvents(response: Response, seen: number[], most: number): Promise<void> {
  assert.equal(response.status, 200);
  let text = '';
  for await (const chunk of (response.body as ReadableStream<Uint8Array>).pipeThrough(
    new TextDecoderStream(),
  )) {
    text += chunk;
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const id = /^id: (\d+)$/m.exec(block)?.[1];
      if (id === undefined) continue;
      seen.push(Number(id));
      if (seen.length >= most) return;
    }
  }
}
