import { inferColumns, join, type InferredColumn } from './column-types.ts';
import { checkColumns, checkTableName } from './names.ts';
import { parseRows, type Row } from './row-cells.ts';
import { ColumnsError, quoted } from './table-errors.ts';
import type { Column, StoreCapabilities, TableLoad, TableName } from './table-store.ts';

/** A load whose text is parsed and whose names are checked: nothing is locked for that. */
export type PreparedLoad = Omit<TableLoad, 'rows'> & { rows: Row[] };

export function prepareLoad(load: TableLoad, capabilities: StoreCapabilities): PreparedLoad {
  checkTableName(load.table, capabilities);
  if (load.columns) checkColumns(load.table, load.columns, capabilities);
  return { ...load, rows: parseRows(load.table, load.rows) };
}

/** The columns in force for the load. `existing`: those of the table that it goes to, if there is one. */
export function wantedColumns(
  { table, columns, widen, inference, rows }: PreparedLoad,
  existing: InferredColumn[] | undefined,
  capabilities: StoreCapabilities,
): InferredColumn[] {
  if (columns) return columns.map(({ name, type }) => ({ name, type, undecided: false }));
  if (existing && !widen) return existing;
  const inferred = inferColumns(rows, inference);
  checkColumns(table, inferred, capabilities);
  return inferred;
}

/** The columns that the existing table gets so that it takes the wanted ones: those that it has come first. */
export function fittedColumns(
  { table, widen }: PreparedLoad,
  existing: InferredColumn[],
  wanted: InferredColumn[],
  capabilities: StoreCapabilities,
): InferredColumn[] {
  if (!widen) {
    checkSame(table, existing, wanted);
    return existing.map((column) => ({ ...column, undecided: false }));
  }
  const columns = widened(existing, wanted);
  checkColumns(table, columns, capabilities);
  return columns;
}

function checkSame(table: TableName, existing: Column[], wanted: Column[]): void {
  const fail = (column: string, problem: string) => new ColumnsError({ table, column, problem });
  const types = new Map(existing.map(({ name, type }) => [name, type]));
  for (const { name, type } of wanted) {
    const there = types.get(name);
    if (there === undefined) throw fail(name, `the existing table has no column ${quoted(name)}`);
    if (there !== type) {
      throw fail(name, `${quoted(name)} is ${type} in the model, but ${there} in the existing table`);
    }
  }
}

/** The columns that a table needs so that it holds what it has, and the wanted columns too. */
function widened(existing: InferredColumn[], wanted: InferredColumn[]): InferredColumn[] {
  const byName = new Map(existing.map((column) => [column.name, column]));
  for (const column of wanted) {
    const known = byName.get(column.name);
    byName.set(column.name, known ? joined(known, column) : column);
  }
  return [...byName.values()];
}

function joined(known: InferredColumn, wanted: InferredColumn): InferredColumn {
  if (wanted.undecided) return known;
  if (known.undecided) return wanted;
  return { ...known, type: join(known.type, wanted.type) };
}
