import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { afterAccepted, afterRefused, nextPart, partsOf, type Range } from './bisect.ts';

interface Found {
  requests: number;
  delivered: number[];
  rejected: number[];
}

/** Sends a batch in parts to a system that answers by a status. */
function send(todo: Range[], statusOf: (indexes: number[]) => number): Found {
  const found: Found = { requests: 0, delivered: [], rejected: [] };
  let parts = partsOf(todo);
  for (let part = nextPart(parts); part; part = nextPart(parts)) {
    const indexes = indexesOf(part);
    const status = statusOf(indexes);
    found.requests += 1;
    const after =
      status === 200
        ? afterAccepted(parts, part)
        : afterRefused(parts, part, { status, reason: `${status} for ${indexes.length}` });
    if (status === 200) found.delivered.push(...indexes);
    if (after.rejected) found.rejected.push(after.rejected.index);
    // As it is read from a checkpoint.
    parts = JSON.parse(JSON.stringify(after.parts));
  }
  return found;
}

const indexesOf = ({ from, to }: Range) => Array.from({ length: to - from }, (_, index) => from + index);
const badAmong = (bad: readonly number[]) => (indexes: number[]) =>
  indexes.some((index) => bad.includes(index)) ? 422 : 200;

describe('Bisection of a refused batch', () => {
  const whole = [{ from: 0, to: 1000 }];
  const all = indexesOf({ from: 0, to: 1000 });

  test('7 bad records of 1,000 are found within 80 requests, wherever they are', () => {
    const places = fc.uniqueArray(fc.integer({ min: 0, max: 999 }), { minLength: 7, maxLength: 7 });
    fc.assert(
      fc.property(places, (bad) => {
        const { requests, delivered, rejected } = send(whole, badAmong(bad));
        const sorted = bad.toSorted((a, b) => a - b);
        assert.deepEqual(rejected, sorted);
        assert.deepEqual(
          delivered,
          all.filter((index) => !bad.includes(index)),
        );
        assert.ok(requests <= 80, `${requests} requests for ${sorted.join(', ')}`);
      }),
      { examples: [[[0, 1, 2, 3, 4, 5, 6]], [[993, 994, 995, 996, 997, 998, 999]]], numRuns: 300 },
    );
  });

  test('a batch of bad records alone, and of one', () => {
    const five = indexesOf({ from: 0, to: 5 });
    assert.deepEqual(send([{ from: 0, to: 5 }], () => 400).rejected, five);
    assert.deepEqual(
      send([{ from: 0, to: 1 }], () => 409),
      { requests: 1, delivered: [], rejected: [0] },
    );
  });

  test('413: parts are made smaller until they fit; only a record that is too large alone is bad', () => {
    const small = send(whole, ({ length }) => (length > 300 ? 413 : 200));
    assert.deepEqual(small, { requests: 6, delivered: all, rejected: [] });
    const large = send(whole, (indexes) => (indexes.includes(700) ? 413 : 200));
    assert.deepEqual(large.rejected, [700]);
    assert.deepEqual(
      large.delivered,
      all.filter((index) => index !== 700),
    );
    assert.ok(large.requests < 40, `${large.requests}`);
  });

  test('a limit on the number of records that is told by 400 makes no record bad', () => {
    const { delivered, rejected } = send(whole, ({ length }) => (length > 100 ? 400 : 200));
    assert.deepEqual([delivered, rejected], [all, []]);
  });

  test('a batch of which parts were delivered before: only the others are sent', () => {
    const todo = [
      { from: 10, to: 20 },
      { from: 90, to: 100 },
    ];
    const { delivered, rejected } = send(todo, badAmong([12, 95]));
    assert.deepEqual(rejected, [12, 95]);
    assert.deepEqual(
      delivered,
      [...indexesOf({ from: 10, to: 20 }), ...indexesOf({ from: 90, to: 100 })].filter(
        (index) => index !== 12 && index !== 95,
      ),
    );
  });
});
