/**
 * A process that loads page after page, job after job, until somebody kills it: each page goes to a table that grows
 * and to one that is built anew by each job.
 */
import { pathToFileURL } from 'node:url';
import type { TableLoad, TableStore } from '../table-store.ts';
import type { Opener } from './place.ts';

export const ROWS_A_PAGE = 50;
export const PAGES_A_JOB = 12;

export interface KilledRow {
  job: number;
  page: number;
  row: number;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [, , module = '', exportName = '', place = '', epoch = ''] = process.argv;
  const open = ((await import(module)) as Record<string, Opener>)[exportName] as Opener;
  await loadForEver(await open(place), Number(epoch));
}

async function loadForEver(store: TableStore, epoch: number): Promise<never> {
  const open = (await store.jobs())[0];
  const log = await store.columns({ space: 'main', table: 'log' });
  let job = open ? Number(open.slice('job '.length)) : log ? await nextJob(store) : 0;
  for (; ; job++) {
    const jobId = `job ${job}`;
    const claimed = await store.claim(jobId, 'load', epoch);
    if (!claimed) throw new Error('the claim was refused');
    process.stdout.write('loading\n');
    for (let { page } = claimed; page < PAGES_A_JOB; page++) {
      const commit = {
        jobId,
        step: 'load',
        epoch,
        page,
        cursor: `page ${page + 1}`,
        loads: loadsOf(job, page),
      };
      await store.commitPage(commit);
    }
    await store.finish(jobId, 'load', epoch);
    await store.abandon(jobId);
  }
}

async function nextJob(store: TableStore): Promise<number> {
  const rows = (await store.count({ space: 'main', table: 'log' })) / ROWS_A_PAGE / PAGES_A_JOB;
  return Math.ceil(rows);
}

function loadsOf(job: number, page: number): TableLoad[] {
  const rows = JSON.stringify(
    Array.from({ length: ROWS_A_PAGE }, (_, row): KilledRow => ({ job, page, row })),
  );
  const columns = (['job', 'page', 'row'] as const).map((name) => ({ name, type: 'integer' as const }));
  const load = { columns, temporary: false, widen: false, rows };
  return [
    { ...load, table: { space: 'main', table: 'log' }, mode: 'append' },
    { ...load, table: { space: 'main', table: 'built' }, mode: 'createThenAppend' },
  ];
}
