import { Cron } from 'croner';

/** The fields of a cron expression as croner names them in its errors, and what each takes. */
const RANGES: Readonly<Record<string, string>> = {
  second: '0 to 59',
  minute: '0 to 59',
  hour: '0 to 23',
  day: '1 to 31, or L for the last day',
  month: '1 to 12, or JAN to DEC',
  dayOfWeek: '0 to 7, or SUN to SAT',
};
const FORM = 'five fields (minute hour day month weekday), six with seconds in front, or @daily and the like';

/**
 * "no-wildcard", as cron(8) has it: a time of day that does not exist on a day is run at the end of the gap, one that
 * exists twice is run once, for lists such as `30 2,14 * * *` too. Croner's own default would skip lists in the gap.
 */
function parse(cron: string, timezone: string): Cron {
  return new Cron(cron, { timezone, mode: '5-or-6-parts', fixedTimeRule: 'no-wildcard' });
}

/** What is wrong with a cron expression; null: nothing. */
export function cronFault(cron: string): string | null {
  // Croner would also take a date, as a single run.
  if (!/^\s*(?:@[a-z]+|\S+(?:\s+\S+){4,5})\s*$/i.test(cron)) return `must have ${FORM}`;
  try {
    if (parse(cron, 'UTC').nextRun(new Date())) return null;
    return 'never fires: there is no day that it stands for';
  } catch (error) {
    const problem = (error as Error).message.replace(/^CronPattern: /, '');
    // Croner tells the value too, but for days and months one less than was written.
    const field = /^Invalid value for (\w+)/.exec(problem)?.[1] ?? '';
    const range = RANGES[field];
    if (range !== undefined) return `has a ${field} out of its range; allowed: ${range}`;
    return `cannot be read: ${problem.replace(/\.$/, '')}; it must have ${FORM}`;
  }
}

export function isTimezone(timezone: string): boolean {
  // Node takes offsets too, which know no summer time.
  if (!/^[A-Za-z]/.test(timezone)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: timezone }).resolvedOptions().timeZone !== '';
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** The first times after `after`, in milliseconds; fewer where there are no more. */
export function firingsAfter(cron: string, timezone: string, after: number, count: number): number[] {
  return parse(cron, timezone)
    .nextRuns(count, new Date(after))
    .map((time) => time.getTime());
}

/** From `first`, which is a firing, to `upTo`, oldest first. Of more than `most` the last ones, which is told. */
export function firingsBetween(
  cron: string,
  timezone: string,
  first: number,
  upTo: number,
  most: number,
): { times: number[]; leftOut: boolean } {
  const pattern = parse(cron, timezone);
  const times = [first];
  while (times.length <= most) {
    const next = pattern.nextRun(new Date(times.at(-1) ?? first))?.getTime();
    if (next === undefined || next > upTo) return { times, leftOut: false };
    times.push(next);
  }
  const last = pattern.previousRuns(most, new Date(upTo + 1)).map((time) => time.getTime());
  return { times: last.toReversed(), leftOut: true };
}
