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
  StoreCapabilities,
  TableAsk,
  TableDescription,
  TableName,
  TableStore,
} from '../table-store.ts';
import { SQLITE_CAPABILITIES } from './sqlite/insert.ts';
import type { OpenedSnapshot, SqliteReader } from './sqlite/reader.ts';
import { movable } from '../movable.ts';
import { Thread } from '../thread.ts';
import type { SqliteWriter } from './sqlite/writer.ts';

/** The tables in one SQLite file; it is made with the first call that writes or reads. */
export function openSqliteTables(file: string): TableStore {
  return new SqliteTables(file);
}

/**
 * Two threads for a file: one writes (a page takes it 3 to 10 ms), the other reads, so that neither the service's
 * event loop nor the pages of a load wait for readers.
 *
 * Rows are loaded by parsing the page in the writing thread and inserting prepared rows: 2.1 times the time of bare
 * inserts of rows that are there as objects, parsing included (4.2 ms for 1,000 rows). One `INSERT … SELECT … FROM
 * jsonb_each(?)` with the types enforced in SQL took 2.6 times, and would have needed a second way for exact numbers
 * and for naming the cell at fault.
 */
class SqliteTables implements TableStore {
  readonly capabilities: StoreCapabilities = SQLITE_CAPABILITIES;
  readonly #writer: Thread<SqliteWriter>;
  readonly #reader: Thread<SqliteReader>;
  #opened: Promise<void> | undefined;

  constructor(file: string) {
    this.#writer = new Thread(new URL('./sqlite/writer-thread.ts', import.meta.url), file);
    this.#reader = new Thread(new URL('./sqlite/reader-thread.ts', import.meta.url), file);
  }

  columns(table: TableAsk): Promise<Column[] | null> {
    return this.#read((reader) => reader.call('columns', [table]));
  }

  tables(): Promise<TableDescription[]> {
    return this.#read((reader) => reader.call('tables', []));
  }

  count(table: TableAsk): Promise<number> {
    return this.#read((reader) => reader.call('count', [table]));
  }

  jobs(): Promise<string[]> {
    return this.#read((reader) => reader.call('jobs', []));
  }

  claim(jobId: string, step: string, epoch: number): Promise<Checkpoint | null> {
    return this.#writer.call('claim', [jobId, step, epoch]);
  }

  commitPage(commit: PageCommit): Promise<PageOutcome> {
    const transfer: ArrayBuffer[] = [];
    const loads = commit.loads.map((load) => ({ ...load, rows: movable(load.rows, transfer) }));
    return this.#writer.call('commitPage', [{ ...commit, loads }], transfer);
  }

  finish(jobId: string, step: string, epoch: number): Promise<void> {
    return this.#writer.call('finish', [jobId, step, epoch]);
  }

  abandon(jobId: string): Promise<void> {
    return this.#writer.call('abandon', [jobId]);
  }

  dropTemporary(jobId: string): Promise<void> {
    return this.#writer.call('dropTemporary', [jobId]);
  }

  read(table: TableAsk, options: ReadOptions): Promise<RowsPage> {
    return this.#read((reader) => reader.call('read', [table, options]));
  }

  async openSnapshot(table: TableAsk, options: SnapshotOptions = {}): Promise<SourceRows> {
    const opened = await this.#read((reader) => reader.call('openSnapshot', [table, options]));
    return new SnapshotRows(this.#reader, opened);
  }

  writeRows(write: RowsWrite): Promise<number> {
    const transfer: ArrayBuffer[] = [];
    const rows = movable(write.rows, transfer);
    return this.#writer.call('writeRows', [{ ...write, rows }], transfer);
  }

  dropTable(table: TableName): Promise<boolean> {
    return this.#writer.call('dropTable', [table]);
  }

  async close(): Promise<void> {
    await this.#reader.close();
    await this.#writer.close();
  }

  async #read<T>(work: (reader: Thread<SqliteReader>) => Promise<T>): Promise<T> {
    this.#opened ??= this.#writer.call('open', []);
    try {
      await this.#opened;
    } catch (error) {
      this.#opened = undefined;
      throw error;
    }
    return work(this.#reader);
  }
}

class SnapshotRows implements SourceRows {
  readonly columns: Column[];
  readonly lastKey: string;
  readonly #reader: Thread<SqliteReader>;
  readonly #id: string;

  constructor(reader: Thread<SqliteReader>, { id, columns, lastKey }: OpenedSnapshot) {
    this.#reader = reader;
    this.#id = id;
    this.columns = columns;
    this.lastKey = lastKey;
  }

  nextBatch(size: number, maxBytes?: number): Promise<Batch | null> {
    return this.#reader.call('nextBatch', [this.#id, size, maxBytes]);
  }

  close(): Promise<void> {
    return this.#reader.call('closeSnapshot', [this.#id]);
  }
}
