import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { median, pairwiseRatios } from './statistics.ts';

describe('median', () => {
  it('is the middle one, whatever the order', () => assert.equal(median([10, 9, 100]), 10));
  it('is between the two middle ones of an even number', () => assert.equal(median([4, 1, 2, 100]), 3));
  it('does not exist for no values', () => assert.throws(() => median([]), RangeError));
});

describe('pairwiseRatios', () => {
  it('compares round by round: a slow round of both sides does not count', () => {
    assert.deepEqual(pairwiseRatios([200, 20, 200], [100, 10, 50]), { median: 2, least: 2, most: 4 });
  });
  it('refuses sides of different length', () => assert.throws(() => pairwiseRatios([1, 2], [1]), RangeError));
});
