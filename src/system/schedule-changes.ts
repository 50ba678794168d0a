/** What is done to a schedule and its runs as a part of a larger change. */
import type { Selectable, Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import { isOver, jobStates } from '../model/job.ts';
import type { RunCause, Schedule } from '../model/schedule.ts';
import type { Records } from './records.ts';

type ScheduleRow = Selectable<Records['schedule']>;

const UNDER_WAY = jobStates.filter((state) => !isOver(state));

/** So many firings of a schedule can be looked at afterwards. */
const KEPT_RUNS = 200;
const FINAL = ['over', 'skipped', 'refused'];

/** Whoever changes a schedule or decides about its runs holds its record first, so that one does so at a time. */
export async function lockSchedule(
  { capabilities }: Database<Records>,
  transaction: Transaction<Records>,
  appId: string,
  name: string,
): Promise<ScheduleRow | undefined> {
  return transaction
    .selectFrom('schedule')
    .selectAll()
    .where('app_id', '=', appId)
    .where('name', '=', name)
    .$if(capabilities.concurrentTransactions, (query) => query.forUpdate())
    .executeTakeFirst();
}

/** Decides about the runs that are held, by `overlap`. Gives how many wait still. */
export async function admitHeld(
  transaction: Transaction<Records>,
  { appId, name, overlap }: { appId: string; name: string; overlap: Schedule['overlap'] },
): Promise<number> {
  const held = await transaction
    .selectFrom('schedule_run')
    .select(['fire_at', 'cause'])
    .where('app_id', '=', appId)
    .where('name', '=', name)
    .where('state', '=', 'held')
    .orderBy('fire_at')
    .execute();
  if (held.length === 0) return 0;
  let before = await underWay(transaction, appId, name);
  let waiting = 0;
  let inQueue = 0;
  const decide = (fireAt: number, change: { state: 'due' | 'skipped'; why?: string }) =>
    transaction
      .updateTable('schedule_run')
      .set(change)
      .where('app_id', '=', appId)
      .where('name', '=', name)
      .where('fire_at', '=', fireAt)
      .execute();
  for (const { fire_at: fireAt, cause } of held) {
    if (overlap === 'allow' || before === null) {
      before = fireAt;
      await decide(fireAt, { state: 'due' });
    } else if ((cause as RunCause) === 'catchUp') {
      // Whoever wants all missed runs wants them one after the other.
      waiting += 1;
    } else if (overlap === 'queue' && inQueue === 0) {
      inQueue += 1;
      waiting += 1;
    } else {
      const until = `the run of ${new Date(before).toISOString()} was not over`;
      const why = overlap === 'queue' ? `${until}, and another one waited already` : until;
      await decide(fireAt, { state: 'skipped', why });
    }
  }
  return waiting;
}

/** The firing of the last run whose job is not over; null: there is none. */
async function underWay(
  transaction: Transaction<Records>,
  appId: string,
  name: string,
): Promise<number | null> {
  const row = await transaction
    .selectFrom('schedule_run as run')
    .leftJoin('job', 'job.job_id', 'run.job_id')
    .select('run.fire_at')
    .where('run.app_id', '=', appId)
    .where('run.name', '=', name)
    .where((where) =>
      where.or([
        where('run.state', '=', 'due'),
        where.and([where('run.state', '=', 'submitted'), where('job.state', 'in', UNDER_WAY)]),
      ]),
    )
    .orderBy('run.fire_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.fire_at ?? null;
}

/** What waits behind another run does not come out of a pause. */
export async function skipHeld(
  transaction: Transaction<Records>,
  appId: string,
  name: string,
): Promise<void> {
  await transaction
    .updateTable('schedule_run')
    .set({ state: 'skipped', why: 'the schedule was paused while this run waited' })
    .where('app_id', '=', appId)
    .where('name', '=', name)
    .where('state', '=', 'held')
    .execute();
}

/** The schedule is locked. */
export async function countFailure(
  transaction: Transaction<Records>,
  { app_id, name, body, failures: before, paused_because }: ScheduleRow,
  why: string,
): Promise<void> {
  const { pauseAfterFailures } = JSON.parse(body) as Schedule;
  const failures = before + 1;
  const pauses = paused_because === null && pauseAfterFailures !== null && failures >= pauseAfterFailures;
  await transaction
    .updateTable('schedule')
    .set({
      failures,
      ...(pauses && {
        next_at: null,
        paused_because: `${failures} ${failures === 1 ? 'run' : 'runs in a row'} failed, the last one: ${why}`,
      }),
    })
    .where('app_id', '=', app_id)
    .where('name', '=', name)
    .execute();
  if (pauses) await skipHeld(transaction, app_id, name);
}

/** The schedule is locked. */
export async function forgetFailures(
  transaction: Transaction<Records>,
  { app_id, name }: ScheduleRow,
): Promise<void> {
  await transaction
    .updateTable('schedule')
    .set({ failures: 0 })
    .where('app_id', '=', app_id)
    .where('name', '=', name)
    .execute();
}

/** Forgets what became of the oldest firings. */
export async function pruneRuns(
  transaction: Transaction<Records>,
  appId: string,
  name: string,
): Promise<void> {
  const oldest = await transaction
    .selectFrom('schedule_run')
    .select('fire_at')
    .where('app_id', '=', appId)
    .where('name', '=', name)
    .orderBy('fire_at', 'desc')
    .offset(KEPT_RUNS - 1)
    .limit(1)
    .executeTakeFirst();
  if (!oldest) return;
  await transaction
    .deleteFrom('schedule_run')
    .where('app_id', '=', appId)
    .where('name', '=', name)
    .where('fire_at', '<', oldest.fire_at)
    .where('state', 'in', FINAL)
    .execute();
}
