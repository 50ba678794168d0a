import { firingsAfter, firingsBetween } from '../model/cron.ts';
import type { Schedule } from '../model/schedule.ts';
import type { DueSchedule, Firings } from '../system/schedule-runs.ts';

/** A firing that is later than this was missed: no service ran, or it had no database. */
const MISSED_AFTER_MS = 60_000;
/** Of missed firings the last so many are caught up with. */
const MOST_CAUGHT_UP = 100;

/** What becomes of the times from the one that is due until now. */
export function firingsOf({ schedule, nextAt }: DueSchedule, now: number): Firings {
  const { cron, timezone, missed } = schedule;
  const { times, leftOut } = firingsBetween(cron, timezone, nextAt, now, MOST_CAUGHT_UP);
  const [following = null] = firingsAfter(cron, timezone, now, 1);
  const isLate = (time: number) => time < now - MISSED_AFTER_MS;
  const run = leftOut || times.some(isLate) ? caughtUp(missed, times, isLate) : times;
  const passedOver = times.length - run.length;
  const passed = leftOut ? `more than ${passedOver || MOST_CAUGHT_UP}` : String(passedOver);
  const why =
    `${passed} ${passed === '1' ? 'firing was' : 'firings were'} missed from ${iso(nextAt)} on; run of them: ` +
    { skip: 'none', once: `the last one, ${iso(run[0] ?? now)}`, all: `the last ${run.length}` }[missed];
  return {
    runs: run.map((fireAt) => ({ fireAt, cause: missed === 'all' && isLate(fireAt) ? 'catchUp' : 'time' })),
    skipped: leftOut || passedOver > 0 ? [{ fireAt: nextAt, why }] : [],
    following,
  };
}

function caughtUp(
  missed: Schedule['missed'],
  times: readonly number[],
  isLate: (time: number) => boolean,
): readonly number[] {
  if (missed === 'all') return times;
  return missed === 'once' ? times.slice(-1) : times.filter((time) => !isLate(time));
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
