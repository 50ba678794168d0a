import type { DatabaseSync } from 'node:sqlite';
import { inferColumns, type InferredColumn } from '../../column-types.ts';
import { checkColumns, checkKeys, checkTableName } from '../../names.ts';
import { parseRows, type Row } from '../../row-cells.ts';
import { ColumnsError, quoted } from '../../table-errors.ts';
import type { Column, TableLoad, TableName } from '../../table-store.ts';
import { PERMANENT, type Catalog, type Standing, type TableRecord } from './catalog.ts';
import { insertRows, SQLITE_CAPABILITIES } from './insert.ts';
import { mergeRows } from './merge.ts';
import { checkReserved, quote } from './sql-names.ts';
import type { Statements } from './statements.ts';
import { widened, widenTable } from './widen.ts';

/** A load whose text is parsed and whose names are checked: nothing is locked for that. */
export type PreparedLoad = Omit<TableLoad, 'rows'> & { rows: Row[] };

export function prepareLoad(load: TableLoad): PreparedLoad {
  checkTableName(load.table);
  if (load.columns) checkNames(load.table, load.columns);
  return { ...load, rows: parseRows(load.table, load.rows) };
}

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
    const wanted = this.#wanted(load, existing);
    const table = existing
      ? this.#fit(existing, wanted, load.widen)
      : this.#create(load.table, mode === 'createThenAppend' ? staged : shown, wanted);
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

  #wanted(
    { table, columns, widen, inference, rows }: PreparedLoad,
    existing: TableRecord | undefined,
  ): InferredColumn[] {
    if (columns) return columns.map(({ name, type }) => ({ name, type, undecided: false }));
    if (existing && !widen) return existing.columns;
    const inferred = inferColumns(rows, inference);
    checkNames(table, inferred);
    return inferred;
  }

  #create(name: TableName, standing: Standing, columns: InferredColumn[]): TableRecord {
    return this.#catalog.create(name, standing, columns);
  }

  #fit(table: TableRecord, wanted: InferredColumn[], widen: boolean): TableRecord {
    if (!widen) checkSame(table, wanted);
    const columns = widen
      ? widened(table.columns, wanted)
      : table.columns.map((column) => ({ ...column, undecided: false }));
    if (widen) checkNames(table.name, columns);
    return widenTable(this.#database, this.#catalog, table, columns);
  }
}

function checkNames(table: TableName, columns: Column[]): void {
  checkColumns(table, columns, SQLITE_CAPABILITIES);
  checkReserved(table, columns);
}

function checkSame(table: TableRecord, wanted: Column[]): void {
  const fail = (column: string, problem: string) => new ColumnsError({ table: table.name, column, problem });
  const existing = new Map(table.columns.map(({ name, type }) => [name, type]));
  for (const { name, type } of wanted) {
    const there = existing.get(name);
    if (there === undefined) throw fail(name, `the existing table has no column ${quoted(name)}`);
    if (there !== type) {
      throw fail(name, `${quoted(name)} is ${type} in the model, but ${there} in the existing table`);
    }
  }
}
