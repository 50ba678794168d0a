import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FairQueue } from './fair-queue.ts';

/** Two slots and a clock that is set by hand. */
function queueOf(slots = 2) {
  const clock = { now: 0 };
  return { clock, queue: new FairQueue<string>(slots, () => clock.now) };
}

const apps = (queue: FairQueue<string>) => queue.candidates().map(({ appId }) => appId);

describe('FairQueue', () => {
  it('lets the application go first that has used least lately', () => {
    const { clock, queue } = queueOf();
    for (const [appId, ms] of [
      ['a', 40],
      ['b', 10],
    ] as const) {
      queue.add(appId, 'x');
      const { done } = queue.take(appId);
      clock.now += ms;
      done();
    }
    queue.add('a', 'a1');
    queue.add('b', 'b1');
    queue.add('c', 'c1');
    assert.deepEqual(apps(queue), ['c', 'b', 'a']);
  });

  it('keeps the order of one application', () => {
    const { queue } = queueOf();
    queue.add('a', 'first');
    queue.add('a', 'second');
    const { item } = queue.take('a');
    assert.equal(item, 'first');
    queue.putBack('a', item);
    assert.equal(queue.take('a').item, 'first');
    assert.equal(queue.waitingOf('a'), 1);
  });

  it('never gives the last slot to a heavy application', () => {
    const { clock, queue } = queueOf();
    for (let i = 0; i < 3; i++) queue.add('heavy', `${i}`);
    const { done } = queue.take('heavy');
    assert.deepEqual(apps(queue), [], 'its first call is not known yet');
    queue.add('light', 'x');
    assert.deepEqual(apps(queue), ['light']);
    clock.now += 5_000;
    done();
    queue.take('light');
    assert.deepEqual(apps(queue), [], 'its calls are known to be slow');
  });

  it('gives all slots to an application with short calls', () => {
    const { clock, queue } = queueOf();
    for (let i = 0; i < 3; i++) queue.add('light', `${i}`);
    const { done } = queue.take('light');
    clock.now += 5;
    done();
    queue.take('light');
    assert.deepEqual(apps(queue), ['light']);
    queue.take('light');
    assert.deepEqual(apps(queue), [], 'no slot is left');
  });

  it('forgets after a while', () => {
    const { clock, queue } = queueOf();
    queue.add('heavy', 'x');
    const { done } = queue.take('heavy');
    clock.now += 5_000;
    done();
    clock.now += 10 * 60_000;
    queue.add('other', 'x');
    queue.take('other');
    queue.add('heavy', 'y');
    assert.deepEqual(apps(queue), ['heavy']);
  });

  it('removes what is named', () => {
    const { queue } = queueOf();
    queue.add('a', 'x');
    queue.add('b', 'y');
    assert.deepEqual(
      queue.remove((item) => item === 'x'),
      ['x'],
    );
    assert.deepEqual(apps(queue), ['b']);
  });
});
