import type { DatabaseSync } from 'node:sqlite';
import { fittedColumns, wantedColumns, type PreparedLoad } from '../../load-plan.ts';
import type { InferredColumn } from '../../column-types.ts';
import { checkKeys } from '../../names.ts';
import type { Column } from '../../table-store.ts';
import { PERMANENT, type Catalog, type Standing, type TableRecord } from './catalog.ts';
import { insertRows, SQLITE_CAPABILITIES } from './insert.ts';
import { mergeRows } from './merge.ts';
import { quote } from './sql-names.ts';
import type { Statements } from './statements.ts';
import { widenTable } from './widen.ts';

/** Brings rows into a table: finds it or creates it, gives it the columns that it needs, and inserts or merges. */
export class Loader {
  readonly #database: DatabaseSync;
  readonly #catalog: Catalog;
  readonly #statements: Statements;

  constructor(database: DatabaseSync, catalog: Catalog, statements: Statements) {
    this.#database = database;
    this.#catalog = catalog;
    this.#statements = statements;
  }

  /** Inside the caller's transaction. */
  load(load: PreparedLoad, { jobId, step }: { jobId: string; step: string }): void {
    const { temporary, mode } = load;
    const shown: Standing = { ...PERMANENT, temporary, jobId: temporary ? jobId : '' };
    const staged: Standing = { temporary, staged: true, jobId, step };
    // Once a step has begun to build a table anew, all that it loads goes there.
    const building = this.#catalog.find(load.table, staged);
    const existing =
      building ?? (mode === 'createThenAppend' ? undefined : this.#catalog.find(load.table, shown));
    const wanted = wantedColumns(load, existing?.columns, SQLITE_CAPABILITIES);
    const table = existing
      ? this.#fit(load, existing, wanted)
      : this.#catalog.create(load.table, mode === 'createThenAppend' ? staged : shown, wanted);
    const columns = wanted.map(({ name }) => table.columns.find((column) => column.name === name) as Column);
    this.#write(load, table, columns);
  }

  #write({ mode, keys, rows }: PreparedLoad, table: TableRecord, columns: Column[]): void {
    if (mode === 'merge') {
      const checked = checkKeys(table.name, keys, columns);
      mergeRows(this.#database, this.#statements, { table, columns, keys: checked, rows });
    } else {
      insertRows(this.#statements, { table: table.name, into: quote(table.physical), columns, rows });
    }
  }

  #fit(load: PreparedLoad, table: TableRecord, wanted: InferredColumn[]): TableRecord {
    const columns = fittedColumns(load, table.columns, wanted, SQLITE_CAPABILITIES);
    return widenTable(this.#database, this.#catalog, table, columns);
  }
}
