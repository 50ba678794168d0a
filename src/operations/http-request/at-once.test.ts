import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { eachAtOnce } from './at-once.ts';

async function* numbers(count: number, onReturn = () => {}) {
  try {
    for (let n = 1; n <= count; n += 1) yield n;
  } finally {
    onReturn();
  }
}

test('each item once, never more at once than allowed', async () => {
  const done: number[] = [];
  let [now, most] = [0, 0];
  await eachAtOnce(numbers(50), 7, async (n) => {
    now += 1;
    most = Math.max(most, now);
    await turn();
    now -= 1;
    done.push(n);
  });
  assert.equal(most, 7);
  assert.deepEqual(
    done.toSorted((a, b) => a - b),
    Array.from({ length: 50 }, (_, index) => index + 1),
  );
});

test('after a failure nothing more is taken, the others are told, and the items are closed', async () => {
  const begun: number[] = [];
  const told: number[] = [];
  let closed = false;
  const work = async (n: number, signal: AbortSignal) => {
    begun.push(n);
    await turn();
    if (n === 2) throw new Error('the second');
    await turn();
    if (signal.aborted) told.push(n);
    signal.throwIfAborted();
  };
  await assert.rejects(
    eachAtOnce(
      numbers(50, () => (closed = true)),
      3,
      work,
    ),
    /the second/,
  );
  assert.deepEqual(
    begun.toSorted((a, b) => a - b),
    [1, 2, 3],
  );
  assert.deepEqual(
    told.toSorted((a, b) => a - b),
    [1, 3],
  );
  assert.ok(closed);
});
