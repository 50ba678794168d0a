import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cronFault, firingsAfter, firingsBetween, isTimezone } from './cron.ts';

const BERLIN = 'Europe/Berlin';

function firings(cron: string, timezone: string, after: string, count: number): string[] {
  return firingsAfter(cron, timezone, Date.parse(after), count).map((time) =>
    new Date(time).toISOString().slice(0, 16),
  );
}

describe('Cron', () => {
  test('a time of day follows the zone through the year', () => {
    assert.deepEqual(firings('0 2 * * MON-FRI', BERLIN, '2026-03-27T12:00:00Z', 2), [
      '2026-03-30T00:00',
      '2026-03-31T00:00',
    ]);
    assert.deepEqual(firings('0 2 * * *', BERLIN, '2026-01-01T12:00:00Z', 1), ['2026-01-02T01:00']);
  });

  // On 29 March 2026 the clocks of Berlin go from 01:59 to 03:00 (01:00 UTC).
  test('a time of day that does not exist is run at the end of the gap, in lists too', () => {
    assert.deepEqual(firings('30 2 * * *', BERLIN, '2026-03-28T12:00:00Z', 2), [
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ]);
    assert.deepEqual(firings('30 2,14 * * *', BERLIN, '2026-03-28T14:00:00Z', 2), [
      '2026-03-29T01:00',
      '2026-03-29T12:30',
    ]);
  });

  test('an interval goes on evenly where the clocks go forward, and where they go back', () => {
    assert.deepEqual(firings('*/30 * * * *', BERLIN, '2026-03-29T00:00:00Z', 3), [
      '2026-03-29T00:30',
      '2026-03-29T01:00',
      '2026-03-29T01:30',
    ]);
    assert.deepEqual(firings('*/30 * * * *', BERLIN, '2026-10-25T00:00:00Z', 4), [
      '2026-10-25T00:30',
      '2026-10-25T01:00',
      '2026-10-25T01:30',
      '2026-10-25T02:00',
    ]);
  });

  // On 25 October 2026 the clocks of Berlin go from 02:59 back to 02:00 (01:00 UTC).
  test('a time of day that exists twice is run once, the first time', () => {
    assert.deepEqual(firings('30 2 * * *', BERLIN, '2026-10-24T12:00:00Z', 2), [
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ]);
  });

  test('six fields begin with seconds', () => {
    assert.equal(firingsAfter('*/20 * * * * *', 'UTC', 0, 3).at(-1), 60_000);
  });

  test('what cannot fire is refused, with what is allowed', () => {
    for (const cron of [
      '30 2 * * *',
      '*/20 * * * * *',
      '@daily',
      '0 0 29 2 *',
      '0 0 L * FRI',
      ' 0 0 1 JAN 7 ',
    ])
      assert.equal(cronFault(cron), null, cron);
    const faults: [string, RegExp][] = [
      ['', /^must have five fields/],
      ['* * *', /^must have five fields/],
      ['0 0 1 1 * 2030 *', /^must have five fields/],
      ['2030-01-01T00:00:00Z', /^must have five fields/],
      ['@reboot', /^cannot be read: @reboot is not supported/],
      ['a b c d e', /^cannot be read: .*illegal characters/],
      ['61 * * * *', /^has a minute out of its range; allowed: 0 to 59$/],
      ['0 0 32 * *', /^has a day out of its range; allowed: 1 to 31/],
      ['0 0 30 2 *', /^never fires/],
    ];
    for (const [cron, says] of faults) assert.match(cronFault(cron) ?? '', says, cron);
  });

  test('a zone is a name of the IANA database', () => {
    for (const zone of ['UTC', BERLIN, 'America/Argentina/Buenos_Aires']) assert.ok(isTimezone(zone), zone);
    for (const zone of ['', 'Mars/Olympus', '+02:00', 'Berlin']) assert.ok(!isTimezone(zone), zone);
  });

  test('the firings between two times are the same whether counted forwards or backwards', () => {
    const days = ['2026-03-28T12:00:00Z', '2026-10-24T12:00:00Z', '2026-06-01T00:00:00Z'];
    for (const cron of ['*/7 * * * *', '0,30 2 * * *', '30 2 * * *', '15 2-3 * * SUN']) {
      for (const zone of [BERLIN, 'America/New_York', 'Australia/Lord_Howe']) {
        for (const day of days) {
          const all = firingsAfter(cron, zone, Date.parse(day), 40);
          const [first = 0] = all;
          const last = all.at(-1) ?? 0;
          assert.deepEqual(firingsBetween(cron, zone, first, last, 40), { times: all, leftOut: false });
          const some = firingsBetween(cron, zone, first, last + 500, 10);
          assert.deepEqual(some, { times: all.slice(-10), leftOut: true }, `${cron} ${zone} ${day}`);
        }
      }
    }
  });
});
