import { after, before, describe, test } from 'node:test';
import type { Column, ColumnType, TableAsk, TableLoad, TableName, TableStore } from '../table-store.ts';

export interface StoreFactory {
  name: string;
  /**
   * A new place without tables, such as a file or the URL of a database. `settled`, where the database is a server:
   * resolves once it has ended the work of a process that was killed.
   */
  createPlace(): Promise<{ place: string; settled?(): Promise<void>; remove(): Promise<void> }>;
  /** A module whose function `exportName` opens a place, so that a child process can do it too. */
  opener: { module: string; exportName: string };
}

export type Opener = (place: string) => TableStore | Promise<TableStore>;

export async function openPlace({ opener }: StoreFactory, place: string): Promise<TableStore> {
  const module = (await import(opener.module)) as Record<string, Opener>;
  const open = module[opener.exportName];
  if (!open) throw new Error(`${opener.module} has no ${opener.exportName}`);
  return open(place);
}

interface Fixture {
  store: TableStore;
  /** Opens the same place once more, as another process would. */
  reopen(): Promise<TableStore>;
}

/** What is tested, and how. Each case uses tables of its own. */
export type Cases = Record<string, (fixture: Fixture) => Promise<void>>;

export function runCases(factory: StoreFactory, title: string, cases: Cases): void {
  describe(`${factory.name}: ${title}`, () => {
    let fixture: Fixture;
    let remove: () => Promise<void>;
    before(async () => {
      const created = await factory.createPlace();
      remove = created.remove;
      const reopen = () => openPlace(factory, created.place);
      fixture = { store: await reopen(), reopen };
    });
    after(async () => {
      await fixture.store.close();
      await remove();
    });
    for (const [name, run] of Object.entries(cases)) test(name, () => run(fixture));
  });
}

let tables = 0;

export function newTable(): TableName {
  return { space: 'main', table: `table ${++tables}` };
}

let jobs = 0;

export function newJob(): string {
  return `job-${++jobs}`;
}

export function column(type: ColumnType, name = 'x'): Column {
  return { name, type };
}

export type LoadOptions = Partial<Omit<TableLoad, 'rows'>> & { rows: unknown[] | string | Uint8Array };

export function load({ rows, ...options }: LoadOptions): TableLoad {
  return {
    table: { space: 'main', table: 'unnamed' },
    columns: null,
    mode: 'append',
    temporary: false,
    widen: false,
    rows: Array.isArray(rows) ? JSON.stringify(rows) : rows,
    ...options,
  };
}

/** A step of a job under way, that commits page after page. */
export class Step {
  readonly store: TableStore;
  readonly jobId: string;
  readonly step: string;
  readonly epoch: number;
  page = 0;

  constructor(store: TableStore, jobId: string, step: string, epoch: number) {
    this.store = store;
    this.jobId = jobId;
    this.step = step;
    this.epoch = epoch;
  }

  async commit(...loads: LoadOptions[]): Promise<void> {
    const { jobId, step, epoch, page } = this;
    const cursor = `after ${page}`;
    await this.store.commitPage({ jobId, step, epoch, page, cursor, loads: loads.map(load) });
    this.page++;
  }

  finish(): Promise<void> {
    return this.store.finish(this.jobId, this.step, this.epoch);
  }
}

export async function beginStep(
  store: TableStore,
  jobId = newJob(),
  step = 'step',
  epoch = 1,
): Promise<Step> {
  const claimed = await store.claim(jobId, step, epoch);
  if (!claimed) throw new Error('the step could not be claimed');
  const begun = new Step(store, jobId, step, epoch);
  begun.page = claimed.page;
  return begun;
}

/** All rows of a table. */
export async function rowsOf(store: TableStore, table: TableAsk): Promise<Record<string, unknown>[]> {
  const all: Record<string, unknown>[] = [];
  let after: string | null = null;
  do {
    const page = await store.read(table, { after, limit: 10_000 });
    all.push(...(JSON.parse(page.rows) as Record<string, unknown>[]));
    after = page.next;
  } while (after !== null);
  return all;
}

export async function valuesOf(store: TableStore, table: TableAsk, name = 'x'): Promise<unknown[]> {
  return (await rowsOf(store, table)).map((row) => row[name]);
}
