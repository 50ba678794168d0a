import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { onPostgres, type Place } from '../../../test/support/databases.ts';
import { noStats } from '../../model/job.ts';
import { queueConformance, type QueueNode } from '../queue-conformance.ts';
import { openEmbeddedNodeOn, openPgBossNode } from './test-nodes.ts';

const LIMITS = { jobsAtOnce: 2, jobsAtOncePerApplication: 2 };

onPostgres('The queue of several nodes', (newPlace) => {
  queueConformance({
    newPlace,
    open: openPgBossNode,
    module: new URL('./test-nodes.ts', import.meta.url).href,
    nodes: 3,
    takeoverMs: 15_000,
  });

  test('a job whose entry is lost is put back, unless it belongs to a process outside of the queue', async (t) => {
    const place = await newPlace();
    const first = await openPgBossNode(place, LIMITS);
    await first.applications.create({ appId: 'shop' });
    const lost = await submit(first);
    await execute(place, 'delete from millrace_queue.job');
    const outside = await openEmbeddedNodeOn(place, LIMITS);
    const release = Promise.withResolvers<void>();
    await outside.queue.start(() => release.promise);
    await submit(outside);
    const brought = Promise.withResolvers<string>();
    await first.queue.start(async (jobId) => brought.resolve(jobId));
    t.after(async () => {
      release.resolve();
      await Promise.all([first.close(), outside.close()]);
      await place.remove();
    });
    assert.equal(await brought.promise, lost);
    const entries = await execute(place, `select data->>'jobId' as id from millrace_queue.job`);
    assert.deepEqual(entries, [{ id: lost }]);
  });

  test('a job that runs for too long goes on as a new attempt, and the old one is refused', async (t) => {
    const place = await newPlace();
    const node = await openPgBossNode(place, LIMITS);
    t.after(async () => {
      await node.close();
      await place.remove();
    });
    await node.applications.create({ appId: 'shop' });
    const [isTaken, isOver] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const outcome = { state: 'succeeded', output: null, error: null, keepMs: 0 } as const;
    const news = { stats: noStats, pages: [], events: [], bodies: [] };
    const ends: [number, boolean][] = [];
    await node.queue.start(async (jobId) => {
      const work = await node.jobs.life.claim(jobId, node.owner);
      if (!work) return;
      if (work.epoch === 1) {
        await execute(place, 'update millrace_queue.job set expire_seconds = 1');
        await isTaken.promise;
      }
      ends.push([work.epoch, await node.jobs.life.end(jobId, work.epoch, outcome, news)]);
      isTaken.resolve();
      if (ends.length === 2) isOver.resolve();
    });
    await submit(node);
    await isOver.promise;
    assert.deepEqual(ends, [
      [2, true],
      [1, false],
    ]);
  });
});

async function submit({ jobs }: Pick<QueueNode, 'jobs'>): Promise<string> {
  const { jobId } = await jobs.submit({
    appId: 'shop',
    clientId: 'test',
    username: null,
    opName: 'HTTPRequest',
    opParams: {},
    policy: { priority: 0, exclusiveKey: null },
    idempotency: null,
  });
  return jobId;
}

async function execute({ database }: Place, statement: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}
