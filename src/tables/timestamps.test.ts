import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isDate, utcTimestamp } from './timestamps.ts';

const pad = (value: number, digits = 2) => String(value).padStart(digits, '0');

test('a date is a day that there is', () => {
  const parts = [
    fc.integer({ min: 0, max: 9999 }),
    fc.integer({ min: 0, max: 13 }),
    fc.integer({ min: 0, max: 32 }),
  ] as const;
  fc.assert(
    fc.property(...parts, (year, month, day) => {
      const text = `${pad(year, 4)}-${pad(month)}-${pad(day)}`;
      const there = new Date(`${text}T00:00:00Z`);
      const exists = !Number.isNaN(there.getTime()) && there.toISOString().startsWith(text) && year > 0;
      assert.equal(isDate(text), exists);
      assert.equal(utcTimestamp(`${text}T00:00:00Z`, 9) !== undefined, exists);
    }),
    { numRuns: 2000 },
  );
});

test('the usual forms come out as the long way round would write them', () => {
  const instant = fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true });
  fc.assert(
    fc.property(instant, (date) => {
      const iso = date.toISOString();
      const expected = iso.replace('.000Z', 'Z');
      assert.equal(utcTimestamp(iso, 3), expected);
      assert.equal(utcTimestamp(iso.replace('Z', '+00:00'), 3), expected);
      assert.equal(utcTimestamp(iso.replace('T', ' ').replace('Z', ''), 3), expected);
    }),
  );
});

test('digits of the second beyond the limit are refused unless they are zeros', () => {
  assert.equal(utcTimestamp('2024-01-31T10:00:00.123456789Z', 9), '2024-01-31T10:00:00.123456789Z');
  assert.equal(utcTimestamp('2024-01-31T10:00:00.123456789Z', 6), undefined);
  assert.equal(utcTimestamp('2024-01-31T10:00:00.123456000Z', 6), '2024-01-31T10:00:00.123456Z');
  assert.equal(utcTimestamp('2024-01-31T10:00:00.250Z', 0), undefined);
  assert.equal(utcTimestamp('2024-01-31T10:00:00.000Z', 0), '2024-01-31T10:00:00Z');
});

test('one wrong character makes it no timestamp', () => {
  for (const good of ['2024-01-31T10:00:00Z', '2024-01-31T10:00:00.250Z']) {
    for (let at = 0; at < good.length; at++) {
      for (const wrong of ['x', '/', '::', '٣']) {
        const text = good.slice(0, at) + wrong + good.slice(at + 1);
        assert.equal(utcTimestamp(text, 9), undefined, text);
      }
    }
  }
});
