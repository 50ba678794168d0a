import { randomUUID } from 'node:crypto';
import { prepareLoad } from '../../load-plan.ts';
import { checkTableName } from '../../names.ts';
import { FencedError, StoreUnavailable, UnknownTable } from '../../table-errors.ts';
import type {
  Batch,
  Checkpoint,
  Column,
  PageCommit,
  PageOutcome,
  ReadOptions,
  RowsPage,
  RowsWrite,
  SnapshotOptions,
  SourceRows,
  TableAsk,
  TableDescription,
  TableName,
} from '../../table-store.ts';
import {
  advance,
  Bookkeeping,
  claim,
  forgetCheckpoints,
  forgetReplacements,
  jobs,
  ownTables,
  pagesCommitted,
  type OwnTable,
} from './bookkeeping.ts';
import { findTable, listTables, plainColumns, sqlName } from './catalog.ts';
import type { Client, Connections } from './connections.ts';
import { hasCode } from './failures.ts';
import { loadRows, lockTables, sharedTables, type Loading } from './load.ts';
import { POSTGRES_CAPABILITIES } from './names.ts';
import { dropOwn, lockForSwap, publish } from './publish.ts';
import { findForReading, openSnapshot, readPage } from './reading.ts';

export interface OpenedSnapshot {
  /** Unique beyond this thread: it may be started anew. */
  id: string;
  columns: Column[];
  lastKey: string;
}

/** What the thread does. */
export class PostgresTables {
  readonly #snapshots = new Map<string, SourceRows>();
  readonly #connections: Connections;
  readonly #bookkeeping: Bookkeeping;

  constructor(connections: Connections) {
    this.#connections = connections;
    this.#bookkeeping = new Bookkeeping(connections);
  }

  columns(ask: TableAsk): Promise<Column[] | null> {
    return this.#connections.use(async (client) => {
      const table = await findForReading(client, ask, this.#bookkeeping);
      return table ? plainColumns(table.columns) : null;
    });
  }

  tables(): Promise<TableDescription[]> {
    return this.#connections.use(listTables);
  }

  count(ask: TableAsk): Promise<number> {
    return this.#connections.use(async (client) => {
      const table = await findForReading(client, ask, this.#bookkeeping);
      const unknown = new UnknownTable({ table: { space: ask.space, table: ask.table } });
      if (!table) throw unknown;
      try {
        const { rows } = await client.query<{ n: string }>(`SELECT count(*) AS n FROM ${sqlName(table)}`);
        return Number(rows[0]?.n);
      } catch (error) {
        throw hasCode(error, '42P01', '3F000') ? unknown : error;
      }
    });
  }

  jobs(): Promise<string[]> {
    return this.#connections.use(async (client) =>
      (await this.#bookkeeping.isThere(client)) ? jobs(client) : [],
    );
  }

  async claim(jobId: string, step: string, epoch: number): Promise<Checkpoint | null> {
    await this.#bookkeeping.ensure();
    return this.#connections.use((client) => claim(client, jobId, step, epoch));
  }

  async commitPage(commit: PageCommit): Promise<PageOutcome> {
    const loads = commit.loads.map((load) => prepareLoad(load, POSTGRES_CAPABILITIES));
    const rowCounts = loads.map(({ rows }) => rows.length);
    const { jobId, step, epoch, page } = commit;
    return this.#change(async (client) => {
      const own = await advance(client, commit);
      if (own) {
        const loading: Loading = { jobId, step, own };
        await lockTables(client, sharedTables(loads, loading));
        for (const load of loads) await loadRows(client, load, loading);
        return { outcome: 'committed', rowCounts };
      }
      if ((await pagesCommitted(client, jobId, step, epoch)) === page + 1) {
        return { outcome: 'repeated', rowCounts };
      }
      throw new FencedError({ jobId, step, epoch, page });
    });
  }

  async finish(jobId: string, step: string, epoch: number): Promise<void> {
    await this.#change(async (client) => {
      if ((await pagesCommitted(client, jobId, step, epoch)) === undefined) {
        throw new FencedError({ jobId, step, epoch, page: null });
      }
      const own = await ownTables(client, jobId);
      const staged = own.filter(({ standing }) => standing.staged && standing.step === step);
      await lockTables(
        client,
        staged.filter(({ standing }) => !standing.temporary).map(({ name }) => name),
      );
      await publish(client, staged, own);
    });
  }

  async abandon(jobId: string): Promise<void> {
    await this.#change(async (client) => {
      await forgetCheckpoints(client, jobId);
      await dropOfJob(client, jobId, ({ standing }) => standing.staged);
    });
  }

  async dropTemporary(jobId: string): Promise<void> {
    await this.#change((client) => dropOfJob(client, jobId, ({ standing }) => standing.temporary));
  }

  read(table: TableAsk, options: ReadOptions): Promise<RowsPage> {
    return readPage(this.#connections, this.#bookkeeping, table, options);
  }

  async openSnapshot(table: TableAsk, options: SnapshotOptions): Promise<OpenedSnapshot> {
    const snapshot = await openSnapshot(this.#connections, this.#bookkeeping, table, options);
    const id = randomUUID();
    this.#snapshots.set(id, snapshot);
    return { id, columns: snapshot.columns, lastKey: snapshot.lastKey };
  }

  async nextBatch(id: string, size: number, maxBytes?: number): Promise<Batch | null> {
    const snapshot = this.#snapshots.get(id);
    if (!snapshot) throw new StoreUnavailable({ problem: 'the snapshot is closed' });
    return snapshot.nextBatch(size, maxBytes);
  }

  async closeSnapshot(id: string): Promise<void> {
    await this.#snapshots.get(id)?.close();
    this.#snapshots.delete(id);
  }

  async writeRows({ table, columns, mode, keys, widen = false, rows }: RowsWrite): Promise<number> {
    const load = prepareLoad(
      {
        table,
        columns,
        mode: mode === 'replace' ? 'createThenAppend' : mode,
        ...(keys && { keys }),
        temporary: false,
        widen,
        rows,
      },
      POSTGRES_CAPABILITIES,
    );
    return this.#change(async (client) => {
      await lockTables(client, [table]);
      const nobody: Loading = { jobId: '', step: '', own: [] };
      // Without a model a table keeps its columns when its rows are replaced.
      const replaced = mode === 'replace' && !columns && !widen && (await findTable(client, table, true));
      const kept = replaced ? { ...load, columns: plainColumns(replaced.columns) } : load;
      await loadRows(client, kept, nobody);
      await publish(client, nobody.own, nobody.own);
      return load.rows.length;
    });
  }

  async dropTable(name: TableName): Promise<boolean> {
    checkTableName(name, POSTGRES_CAPABILITIES);
    return this.#change(async (client) => {
      await lockTables(client, [name]);
      const table = await findTable(client, name, true);
      if (!table) return false;
      await lockForSwap(client, [{ table, mode: 'ACCESS EXCLUSIVE' }]);
      await client.query(`DROP TABLE ${sqlName(table)}`);
      await forgetReplacements(client, table.oid);
      return true;
    });
  }

  close(): Promise<void> {
    return this.#connections.close();
  }

  async #change<T>(work: (client: Client) => Promise<T>): Promise<T> {
    await this.#bookkeeping.ensure();
    return this.#connections.transaction('READ WRITE', work);
  }
}

async function dropOfJob(client: Client, jobId: string, which: (table: OwnTable) => boolean): Promise<void> {
  for (const table of await ownTables(client, jobId)) if (which(table)) await dropOwn(client, table);
}
