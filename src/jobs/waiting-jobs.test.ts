import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { QueuedJob } from '../system/job-work.ts';
import { WaitingJobs } from './waiting-jobs.ts';

let count = 0;
const job = (appId: string, more: Partial<QueuedJob> = {}): QueuedJob => ({
  jobId: String(count++).padStart(6, '0'),
  appId,
  priority: 0,
  exclusiveKey: null,
  at: null,
  ...more,
});

test('jobs start in the order of their priority, then of their submission', () => {
  const waiting = new WaitingJobs({ jobsAtOnce: 10, jobsAtOncePerApplication: 10 });
  const [a, b, c] = [job('x'), job('x', { priority: 5 }), job('x')];
  for (const each of [c, a, b]) waiting.add(each);
  assert.deepEqual([waiting.takeNext(), waiting.takeNext(), waiting.takeNext()], [b, a, c]);
});

test('an application with few jobs does not wait behind one with many', () => {
  const waiting = new WaitingJobs({ jobsAtOnce: 4, jobsAtOncePerApplication: 3 });
  for (let n = 0; n < 100; n++) waiting.add(job('busy'));
  const small = job('small');
  waiting.add(small);
  waiting.takeNext();
  assert.equal(waiting.takeNext(), small);
  waiting.takeNext();
  waiting.takeNext();
  assert.equal(waiting.takeNext(), null, 'all slots are taken');
});

test('whatever comes and goes: limits hold, no two of one key run, and nothing is lost', () => {
  const jobs = fc.array(
    fc.record({
      appId: fc.constantFrom('a', 'b', 'c'),
      exclusiveKey: fc.option(fc.constantFrom('k1', 'k2', 'k3')),
      priority: fc.integer({ min: -1, max: 1 }),
    }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(
      jobs,
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 4 }),
      (specs, most, perApp) => {
        const waiting = new WaitingJobs({ jobsAtOnce: most, jobsAtOncePerApplication: perApp });
        const all = specs.map(({ appId, ...more }) => job(appId, more));
        for (const each of all) waiting.add(each);
        const running: QueuedJob[] = [];
        const done = new Set<string>();
        while (done.size < all.length) {
          for (let next = waiting.takeNext(); next; next = waiting.takeNext()) running.push(next);
          assert.ok(running.length > 0, 'jobs wait, and none may start');
          assert.ok(running.length <= most);
          for (const appId of ['a', 'b', 'c'])
            assert.ok(running.filter((each) => each.appId === appId).length <= perApp);
          const keys = running.flatMap(({ appId, exclusiveKey }) =>
            exclusiveKey ? [appId + exclusiveKey] : [],
          );
          assert.equal(new Set(keys).size, keys.length);
          const ended = running.shift() as QueuedJob;
          waiting.done(ended);
          assert.ok(!done.has(ended.jobId));
          done.add(ended.jobId);
        }
      },
    ),
  );
});
