import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { TableName, TableStore } from '../table-store.ts';
import { PAGES_A_JOB, ROWS_A_PAGE, type KilledRow } from './load-until-killed.ts';
import { openPlace, rowsOf, type StoreFactory } from './place.ts';

const ROUNDS = 10;
const LONGEST_LIFE_MS = 250;
const LOG = { space: 'main', table: 'log' };
const BUILT = { space: 'main', table: 'built' };

export function killCases(factory: StoreFactory): void {
  test('whatever moment the process is killed, whole pages are there, as the checkpoint says', async () => {
    const { place, settled, remove } = await factory.createPlace();
    let pages = 0;
    try {
      for (let round = 1; round <= ROUNDS; round++) {
        await loadAndKill(factory, place, round);
        await settled?.();
        const store = await openPlace(factory, place);
        try {
          pages = await check(store, round * 2, pages);
        } finally {
          await store.close();
        }
      }
      assert.ok(pages > ROUNDS, `the killed processes committed ${pages} pages in all`);
    } finally {
      await remove();
    }
  });
}

/** The child takes epochs that are odd, the checks between take even ones. */
async function loadAndKill({ opener }: StoreFactory, place: string, round: number): Promise<void> {
  const program = fileURLToPath(new URL('./load-until-killed.ts', import.meta.url));
  const args = ['--disable-warning=ExperimentalWarning', program, opener.module, opener.exportName, place];
  const child = spawn(process.execPath, [...args, String(round * 2 - 1)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit') as Promise<[number | null, string | null]>;
  await Promise.race([once(child.stdout, 'data'), exited]);
  await delay(Math.random() * LONGEST_LIFE_MS);
  child.kill('SIGKILL');
  assert.deepEqual(await exited, [null, 'SIGKILL']);
}

async function check(store: TableStore, epoch: number, pagesBefore: number): Promise<number> {
  const log = (await allRows(store, LOG)) ?? [];
  const jobs = Map.groupBy(log, ({ job }) => job);
  const open = await store.jobs();
  assert.ok(open.length <= 1);
  for (const [job, rows] of jobs) {
    const expected = Array.from({ length: rows.length }, (_, at) => ({
      job,
      page: Math.floor(at / ROWS_A_PAGE),
      row: at % ROWS_A_PAGE,
    }));
    assert.deepEqual(rows, expected, 'every page whole, once, and in order');
    assert.equal(rows.length % ROWS_A_PAGE, 0);
    if (!open.includes(`job ${job}`)) assert.equal(rows.length, ROWS_A_PAGE * PAGES_A_JOB);
  }
  for (const jobId of open) {
    const checkpoint = await store.claim(jobId, 'load', epoch);
    const rows = jobs.get(Number(jobId.slice('job '.length)))?.length ?? 0;
    assert.equal(checkpoint?.page, rows / ROWS_A_PAGE);
    assert.equal(checkpoint?.cursor, rows === 0 ? null : `page ${rows / ROWS_A_PAGE}`);
  }
  const built = await allRows(store, BUILT);
  const finished = [...jobs]
    .filter(([, rows]) => rows.length === ROWS_A_PAGE * PAGES_A_JOB)
    .map(([job]) => job);
  if (built) {
    assert.equal(built.length, ROWS_A_PAGE * PAGES_A_JOB, 'a built table is never half a table');
    assert.equal(new Set(built.map(({ job }) => job)).size, 1);
    const last = Math.max(...finished);
    assert.ok(built[0]?.job === last || (built[0]?.job === last - 1 && open.includes(`job ${last}`)));
  } else assert.ok(finished.length <= 1, 'once built, a table is never lost');
  const pages = log.length / ROWS_A_PAGE;
  assert.ok(pages >= pagesBefore, 'what was committed stays');
  return pages;
}

async function allRows(store: TableStore, table: TableName): Promise<KilledRow[] | null> {
  const there = await store.columns(table);
  return there && ((await rowsOf(store, table)) as unknown as KilledRow[]);
}
