import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { StoreUnavailable, UnknownTable } from '../../table-errors.ts';
import {
  MAX_PAGE_BYTES,
  type Batch,
  type Column,
  type ReadOptions,
  type RowsPage,
  type SnapshotOptions,
  type TableAsk,
  type TableDescription,
} from '../../table-store.ts';
import { Catalog, plainColumns, type TableRecord } from './catalog.ts';
import { openForReading } from './open-file.ts';
import { keyOf, rowAfter, RowReader } from './row-reader.ts';
import { quote, ROW_NUMBER } from './sql-names.ts';

interface Snapshot {
  connection: DatabaseSync;
  rows: RowReader;
  at: number;
  until: number;
}

export interface OpenedSnapshot {
  /** Unique beyond this thread: it may be started anew. */
  id: string;
  columns: Column[];
  lastKey: string;
}

const MOST_SNAPSHOTS = 64;

/** Everything that only reads. In WAL mode readers neither wait for the writer nor hold it up. */
export class SqliteReader {
  readonly #file: string;
  readonly #database: DatabaseSync;
  readonly #catalog: Catalog;
  readonly #snapshots = new Map<string, Snapshot>();

  constructor(file: string) {
    this.#file = file;
    this.#database = openForReading(file);
    this.#catalog = new Catalog(this.#database);
  }

  columns(table: TableAsk): Column[] | null {
    return this.#atOnce(() => {
      const found = this.#catalog.findForReading(table);
      return found ? plainColumns(found.columns) : null;
    });
  }

  tables(): TableDescription[] {
    return this.#atOnce(() => this.#catalog.list());
  }

  jobs(): string[] {
    return this.#catalog.jobs();
  }

  count(table: TableAsk): number {
    return this.#atOnce(() => {
      const { physical } = demand(this.#catalog, table);
      const row = this.#database.prepare(`SELECT count(*) AS n FROM ${quote(physical)}`).get();
      return (row as { n: number }).n;
    });
  }

  read(table: TableAsk, { after = null, limit, maxBytes = MAX_PAGE_BYTES }: ReadOptions): RowsPage {
    checkSize(limit);
    return this.#atOnce(() => {
      const found = demand(this.#catalog, table);
      const from = after === null ? 0 : rowAfter(found, after);
      const { rows, count, numbers, more } = new RowReader(this.#database, found).read(
        from,
        null,
        limit,
        maxBytes,
      );
      return {
        columns: plainColumns(found.columns),
        rows,
        count,
        next: more ? keyOf(found, numbers.at(-1) ?? from) : null,
      };
    });
  }

  openSnapshot(table: TableAsk, { after = null, until = null }: SnapshotOptions): OpenedSnapshot {
    if (this.#snapshots.size >= MOST_SNAPSHOTS) {
      throw new StoreUnavailable({ problem: `${MOST_SNAPSHOTS} snapshots are open, which is the limit` });
    }
    const connection = openForReading(this.#file);
    try {
      connection.exec('BEGIN');
      const found = demand(new Catalog(connection), table);
      const last = until === null ? lastRow(connection, found) : rowAfter(found, until);
      const at = after === null ? 0 : rowAfter(found, after);
      const id = randomUUID();
      this.#snapshots.set(id, { connection, rows: new RowReader(connection, found), at, until: last });
      return { id, columns: plainColumns(found.columns), lastKey: keyOf(found, last) };
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  nextBatch(id: string, size: number, maxBytes: number = MAX_PAGE_BYTES): Batch | null {
    checkSize(size);
    const snapshot = this.#snapshots.get(id);
    if (!snapshot) throw new StoreUnavailable({ problem: 'the snapshot is closed' });
    const { rows, count, numbers } = snapshot.rows.read(snapshot.at, snapshot.until, size, maxBytes);
    if (count === 0) return null;
    snapshot.at = numbers.at(-1) ?? snapshot.at;
    return { rows, count, keys: numbers.map((number) => keyOf(snapshot.rows.table, number)) };
  }

  closeSnapshot(id: string): void {
    this.#snapshots.get(id)?.connection.close();
    this.#snapshots.delete(id);
  }

  close(): void {
    for (const id of this.#snapshots.keys()) this.closeSnapshot(id);
    this.#database.close();
  }

  /** All that the work reads is of one moment: a table is not swapped between its columns and its rows. */
  #atOnce<T>(work: () => T): T {
    this.#database.exec('BEGIN');
    try {
      return work();
    } finally {
      this.#database.exec('COMMIT');
    }
  }
}

function demand(catalog: Catalog, ask: TableAsk): TableRecord {
  const found = catalog.findForReading(ask);
  if (!found) throw new UnknownTable({ table: { space: ask.space, table: ask.table } });
  return found;
}

function lastRow(database: DatabaseSync, { physical }: TableRecord): number {
  const row = database.prepare(`SELECT max(${quote(ROW_NUMBER)}) AS last FROM ${quote(physical)}`).get();
  return (row as { last: number | null }).last ?? 0;
}

function checkSize(size: number): void {
  if (!Number.isInteger(size) || size < 1) throw new RangeError(`${size} rows: a page has at least one row`);
}
