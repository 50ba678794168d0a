import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DatabaseUnavailable } from '../../src/database/database.ts';
import { firingsOf } from '../../src/jobs/firings.ts';
import { ServiceError } from '../../src/model/errors.ts';
import { onEachDatabase } from '../support/databases.ts';
import { startScheduleBench, type ScheduleBench, type SchedulerNode } from '../support/schedules.ts';

const onlyJob = async (bench: ScheduleBench) => {
  const [job, ...others] = await bench.jobs();
  assert.ok(job);
  assert.deepEqual(others, []);
  return job;
};
const shown = async ({ schedules }: SchedulerNode) => {
  const found = await schedules.show('shop', 'nightly');
  assert.ok(found);
  return found;
};

onEachDatabase('Schedules', (newPlace) => {
  test('a firing becomes one job in the name of whoever saved the schedule', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, {});
    assert.equal(await node.scheduler.tick(), 30_000);
    assert.deepEqual(await bench.jobs(), []);
    bench.setTime('2026-01-01T01:59:59.900Z');
    assert.equal(await node.scheduler.tick(), 100);
    bench.setTime('2026-01-01T02:00:00Z');
    await node.scheduler.tick();
    await node.scheduler.tick();
    const job = await onlyJob(bench);
    assert.equal(job.key, 'schedule:shop/nightly:2026-01-01T02:00:00.000Z');
    const now = await shown(node);
    assert.equal(now.nextAt, '2026-01-02T02:00:00.000Z');
    assert.deepEqual(now.lastRun, { at: '2026-01-01T02:00:00.000Z', jobId: job.jobId, state: 'queued' });
    await bench.endJob(job.jobId, 'succeeded');
    assert.equal((await shown(node)).lastRun?.state, 'succeeded');
  });

  test('of several nodes exactly one fires, each time', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const nodes = [bench.node(), bench.node(), bench.node()];
    await bench.put(nodes[0] as SchedulerNode, { cron: '* * * * *', overlap: 'allow' });
    for (let minute = 1; minute <= 20; minute += 1) {
      bench.setTime(`2026-01-01T00:${String(minute).padStart(2, '0')}:00.500Z`);
      await Promise.all(nodes.map(({ scheduler }) => scheduler.tick()));
    }
    const keys = (await bench.jobs()).map(({ key }) => key);
    assert.equal(keys.length, 20);
    assert.equal(new Set(keys).size, 20);
    assert.deepEqual(
      nodes.flatMap(({ errors }) => errors),
      [],
    );
  });

  test('claimed by a node that then crashed: another one submits it', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const [crashed, other] = [bench.node(), bench.node()];
    await bench.put(crashed, {});
    bench.setTime('2026-01-01T02:00:00Z');
    const [due] = await crashed.schedules.runs.dueSchedules(1);
    assert.ok(due);
    assert.ok(await crashed.schedules.runs.claim(due, firingsOf(due, Date.parse('2026-01-01T02:00:00Z'))));
    assert.deepEqual(await bench.jobs(), []);
    await other.scheduler.tick();
    await onlyJob(bench);
    assert.equal(await other.schedules.runs.claim(due, firingsOf(due, Date.now())), false);
  });

  test('submitted by a node that then crashed: the job is found again, however late', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const crashed: SchedulerNode = bench.node({
      async submit(job) {
        await crashed.submit(job);
        throw new DatabaseUnavailable('the node is gone');
      },
    });
    const other = bench.node();
    await bench.put(crashed, {});
    bench.setTime('2026-01-01T02:00:00Z');
    await assert.rejects(crashed.scheduler.tick(), /the node is gone/);
    const job = await onlyJob(bench);
    assert.deepEqual(await bench.story(), ['2026-01-01T02:00:00 due']);
    // An idempotency key of the API is forgotten after 24 hours.
    bench.setTime('2026-01-03T01:00:00Z');
    await bench.put(other, { paused: true });
    await other.scheduler.tick();
    assert.equal((await onlyJob(bench)).jobId, job.jobId);
    assert.deepEqual(await bench.story(), ['2026-01-01T02:00:00 queued']);
  });

  test('overlap skip: a firing while the last job is not over is recorded as skipped', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, { cron: '0 * * * *' });
    for (const hour of ['01', '02']) {
      bench.setTime(`2026-01-01T${hour}:00:00Z`);
      await node.scheduler.tick();
    }
    assert.deepEqual(await bench.story(), ['2026-01-01T01:00:00 queued', '2026-01-01T02:00:00 skipped']);
    const [skipped] = await node.schedules.history.list('shop', 'nightly', { limit: 1 });
    assert.equal(skipped?.why, 'the run of 2026-01-01T01:00:00.000Z was not over');
    assert.equal((await shown(node)).lastRun?.at, '2026-01-01T01:00:00.000Z');
    await bench.endJob((await onlyJob(bench)).jobId, 'cancelled');
    bench.setTime('2026-01-01T03:00:00Z');
    await node.scheduler.tick();
    assert.deepEqual((await bench.story()).slice(2), ['2026-01-01T03:00:00 queued']);
  });

  test('overlap queue: one firing waits for the end of the last job, further ones are skipped', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const nodes = [bench.node(), bench.node()];
    const tick = () => Promise.all(nodes.map(({ scheduler }) => scheduler.tick()));
    await bench.put(nodes[0] as SchedulerNode, { cron: '0 * * * *', overlap: 'queue' });
    for (const hour of ['01', '02', '03']) {
      bench.setTime(`2026-01-01T${hour}:00:00Z`);
      await tick();
    }
    const before = ['2026-01-01T01:00:00 queued', '2026-01-01T02:00:00 held', '2026-01-01T03:00:00 skipped'];
    assert.deepEqual(await bench.story(), before);
    assert.deepEqual(await tick(), [1_000, 1_000]);
    await bench.endJob((await onlyJob(bench)).jobId, 'succeeded');
    await tick();
    const after = [
      '2026-01-01T01:00:00 succeeded',
      '2026-01-01T02:00:00 queued',
      '2026-01-01T03:00:00 skipped',
    ];
    assert.deepEqual(await bench.story(), after);
    assert.equal((await bench.jobs()).length, 2);
  });

  test('overlap allow: at once', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, { cron: '0 * * * *', overlap: 'allow' });
    for (const hour of ['01', '02']) {
      bench.setTime(`2026-01-01T${hour}:00:00Z`);
      await node.scheduler.tick();
    }
    assert.equal((await bench.jobs()).length, 2);
  });

  test('missed firings: skip leaves them out, once runs the last one, all runs each one after the other', async (t) => {
    const stories = { skip: [] as string[], once: [] as string[], all: [] as string[] };
    for (const missed of ['skip', 'once', 'all'] as const) {
      const bench = await startScheduleBench(t, newPlace);
      const node = bench.node();
      await bench.put(node, { cron: '0 * * * *', missed });
      bench.setTime('2026-01-01T03:30:00Z');
      await node.scheduler.tick();
      stories[missed] = await bench.story();
      assert.equal((await shown(node)).nextAt, '2026-01-01T04:00:00.000Z');
      if (missed !== 'all') continue;
      for (let run = 0; run < 3; run += 1) {
        const queued = (await bench.jobs()).filter(({ state }) => state === 'queued');
        assert.equal(queued.length, 1);
        await bench.endJob(queued[0]?.jobId ?? '', 'succeeded');
        await node.scheduler.tick();
      }
      assert.equal((await bench.jobs()).length, 3);
    }
    assert.deepEqual(stories, {
      skip: ['2026-01-01T01:00:00 skipped'],
      once: ['2026-01-01T01:00:00 skipped', '2026-01-01T03:00:00 queued'],
      all: ['2026-01-01T01:00:00 queued', '2026-01-01T02:00:00 held', '2026-01-01T03:00:00 held'],
    });
  });

  test('missed firings without end: the last 100 are caught up with, and it is told', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, { cron: '* * * * *', missed: 'all', overlap: 'allow' });
    bench.setTime('2026-01-08T00:00:30Z');
    await node.scheduler.tick();
    const jobs = await bench.jobs();
    assert.equal(jobs.length, 100);
    assert.equal(jobs.at(-1)?.key, 'schedule:shop/nightly:2026-01-08T00:00:00.000Z');
    const [first] = (await node.schedules.history.list('shop', 'nightly', { limit: 200 })).toReversed();
    assert.match(first?.why ?? '', /^more than 100 firings were missed from 2026-01-01T00:01:00.000Z on/);
  });

  test('after so many failures in a row it pauses by itself and says why; a success begins anew', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const nodes = [bench.node(), bench.node()];
    const [node] = nodes as [SchedulerNode, SchedulerNode];
    await bench.put(node, { pauseAfterFailures: 2 });
    const failures: number[] = [];
    for (const [day, state] of [
      ['01', 'failed'],
      ['02', 'succeeded'],
      ['03', 'failed'],
      ['04', 'failed'],
    ] as const) {
      bench.setTime(`2026-01-${day}T02:00:00Z`);
      await node.scheduler.tick();
      const job = (await bench.jobs()).find(({ state: current }) => current === 'queued');
      await bench.endJob(job?.jobId ?? '', state);
      await Promise.all(nodes.map(({ scheduler }) => scheduler.tick()));
      failures.push((await shown(node)).failuresInARow);
    }
    assert.deepEqual(failures, [1, 0, 1, 2]);
    const paused = await shown(node);
    assert.equal(paused.paused, true);
    assert.equal(paused.nextAt, null);
    const because = /^2 runs in a row failed, the last one: job \w+: http_status: answered 500$/;
    assert.match(paused.pausedBecause ?? '', because);
    bench.setTime('2026-01-09T00:00:00Z');
    await node.scheduler.tick();
    assert.equal((await bench.jobs()).length, 4);
    assert.ok(await node.schedules.resume('shop', 'nightly'));
    const resumed = await shown(node);
    assert.equal(resumed.nextAt, '2026-01-09T02:00:00.000Z');
    assert.deepEqual([resumed.pausedBecause, resumed.failuresInARow], [null, 0]);
  });

  test('what cannot be submitted is refused, and counts as a failure; what may work later stays due', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    let fault: ServiceError | null = new ServiceError('overloaded', 'too much waits');
    const node: SchedulerNode = bench.node({
      async submit(job) {
        if (fault) throw fault;
        return node.submit(job);
      },
    });
    await bench.put(node, { pauseAfterFailures: 1 });
    bench.setTime('2026-01-01T02:00:00Z');
    assert.equal(await node.scheduler.tick(), 5_000);
    assert.deepEqual(await bench.story(), ['2026-01-01T02:00:00 due']);
    fault = null;
    await node.scheduler.tick();
    await bench.endJob((await onlyJob(bench)).jobId, 'succeeded');
    fault = new ServiceError('unknown_source', 'there is no source "crm"');
    bench.setTime('2026-01-02T02:00:00Z');
    await node.scheduler.tick();
    assert.deepEqual((await bench.story())[1], '2026-01-02T02:00:00 refused');
    const { pausedBecause } = await shown(node);
    assert.equal(pausedBecause, '1 run failed, the last one: unknown_source: there is no source "crm"');
  });

  test('a change that leaves the times alone takes no firing away; another cron counts from now', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, {});
    bench.setTime('2026-01-01T02:00:00Z');
    await bench.put(node, { overlap: 'queue' });
    await node.scheduler.tick();
    assert.deepEqual(await bench.story(), ['2026-01-01T02:00:00 queued']);
    await bench.put(node, { cron: '30 2 * * *' });
    assert.equal((await shown(node)).nextAt, '2026-01-01T02:30:00.000Z');
  });

  test('a pause outlives saving the schedule again without saying paused, and drops what waited', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, { cron: '0 * * * *', overlap: 'queue' });
    for (const hour of ['01', '02']) {
      bench.setTime(`2026-01-01T${hour}:00:00Z`);
      await node.scheduler.tick();
    }
    assert.ok(await node.schedules.pause('shop', 'nightly'));
    assert.deepEqual((await bench.story())[1], '2026-01-01T02:00:00 skipped');
    await bench.put(node, { cron: '30 * * * *', overlap: 'queue' });
    const { paused, nextAt, pausedBecause } = await shown(node);
    assert.deepEqual([paused, nextAt, pausedBecause], [true, null, 'it was paused by hand']);
    await bench.put(node, { cron: '30 * * * *', overlap: 'queue', paused: false });
    assert.equal((await shown(node)).nextAt, '2026-01-01T02:30:00.000Z');
  });

  test('run by hand: at once, also while it is paused, in the name of the caller', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, { paused: true });
    const bob = { clientId: 'bob', username: 'bob' };
    const jobIds = [
      await node.scheduler.runNow('shop', 'nightly', bob),
      await node.scheduler.runNow('shop', 'nightly', bob),
    ];
    assert.equal(new Set(jobIds).size, 2);
    assert.deepEqual(new Set((await bench.jobs()).map(({ jobId }) => jobId)), new Set(jobIds));
    await node.scheduler.tick();
    assert.equal((await bench.jobs()).length, 2);
    await assert.rejects(node.scheduler.runNow('shop', 'daily', bob), /there is no schedule "daily"/);
  });

  test('of the firings of a schedule the last 200 are kept', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, { cron: '* * * * *' });
    for (let minute = 0; minute < 230; minute += 1) {
      bench.setTime(new Date(Date.UTC(2026, 0, 1, 0, minute + 1)).toISOString());
      await node.scheduler.tick();
    }
    // And the one whose job is not over.
    const story = await bench.story();
    assert.equal(story.length, 201);
    assert.equal(story[0], '2026-01-01T00:01:00 queued');
  });

  test('by its own timer: fires in time, looks again after the database was away, and stops', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const late: number[] = [];
    let away = true;
    let fired = () => {};
    const twice = new Promise<void>((resolve) => {
      fired = () => late.length >= 2 && resolve();
    });
    const logged: unknown[] = [];
    const node: SchedulerNode = bench.node({
      async submit(job) {
        if (away) throw new DatabaseUnavailable('the database is away');
        late.push(Date.now() - Date.parse(job.idempotency.key.replace(/^.*nightly:/, '')));
        fired();
        return node.submit(job);
      },
      logError(error) {
        logged.push(error);
        away = false;
        setImmediate(() => node.scheduler.wake());
      },
    });
    bench.runClock();
    await bench.put(node, { cron: '* * * * * *', overlap: 'allow' });
    node.scheduler.start();
    await twice;
    await node.scheduler.stop();
    assert.match(String(logged), /^DatabaseUnavailable: the database is away$/);
    assert.ok(Math.max(...late) < 1_000, String(late));
    const jobs = (await bench.jobs()).length;
    node.scheduler.wake();
    await node.scheduler.stop();
    assert.equal((await bench.jobs()).length, jobs);
  });

  test('deleted: it fires no more, and its jobs stay', async (t) => {
    const bench = await startScheduleBench(t, newPlace);
    const node = bench.node();
    await bench.put(node, {});
    bench.setTime('2026-01-01T02:00:00Z');
    await node.scheduler.tick();
    assert.ok(await node.schedules.delete('shop', 'nightly'));
    bench.setTime('2026-01-05T02:00:00Z');
    await node.scheduler.tick();
    await onlyJob(bench);
    assert.equal(await node.schedules.show('shop', 'nightly'), null);
  });
});
