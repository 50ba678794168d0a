import type { DatabaseSync } from 'node:sqlite';
import { cellTexts, MISFIT, type Cell } from '../../cells.ts';
import type { InferredColumn } from '../../column-types.ts';
import { parseExact } from '../../exact-json.ts';
import type { ColumnType } from '../../table-store.ts';
import type { Catalog, TableRecord } from './catalog.ts';
import { makeCell } from './insert.ts';
import { columnDefinitions, quote, ROW_NUMBER, storageOf } from './sql-names.ts';

const CAST = 'millrace_cast';

/** For the copy of a column into a wider one: the value goes the way that it would go through JSON. */
export function registerCast(database: DatabaseSync): void {
  database.function(CAST, { deterministic: true, useBigIntArguments: true }, (value, from, to) => {
    if (value === null) return null;
    const cell = makeCell(to as ColumnType, parseExact(cellTexts[from as ColumnType](value)));
    if (cell === MISFIT) throw new Error(`a value of type ${String(from)} does not fit into ${String(to)}`);
    return cell as Exclude<Cell, boolean>;
  });
}

/** Brings the table to these columns: those that it has first, in their order, each of the same or a wider type. */
export function widenTable(
  database: DatabaseSync,
  catalog: Catalog,
  table: TableRecord,
  columns: InferredColumn[],
): TableRecord {
  const old = table.columns;
  if (JSON.stringify(old) === JSON.stringify(columns)) return table;
  const changed = old.some(({ type }, at) => isStoredDifferently(type, columns[at]?.type ?? type));
  if (changed) rebuild(database, table, columns);
  else {
    for (const { name, type } of columns.slice(old.length)) {
      database.exec(`ALTER TABLE ${quote(table.physical)} ADD COLUMN ${quote(name)} ${storageOf(type)}`);
    }
  }
  catalog.setColumns(table.id, columns);
  return { ...table, columns };
}

function isStoredDifferently(from: ColumnType, to: ColumnType): boolean {
  return from !== to && !(from === 'integer' && to === 'bigint');
}

/** SQLite cannot change the type of a column. The row numbers stay, so keys stay valid. */
function rebuild(
  database: DatabaseSync,
  { physical, columns: old }: TableRecord,
  columns: InferredColumn[],
): void {
  const values = old.map(({ name, type }, at) => {
    const to = columns[at]?.type ?? type;
    return isStoredDifferently(type, to) ? `${CAST}(${quote(name)}, '${type}', '${to}')` : quote(name);
  });
  const names = [ROW_NUMBER, ...old.map(({ name }) => name)].map(quote);
  database.exec(`CREATE TABLE _rebuilt (${columnDefinitions(columns)}) STRICT`);
  database.exec(
    `INSERT INTO _rebuilt (${names.join(', ')}) SELECT ${[quote(ROW_NUMBER), ...values].join(', ')} FROM ${quote(physical)}`,
  );
  database.exec(`DROP TABLE ${quote(physical)}`);
  database.exec(`ALTER TABLE _rebuilt RENAME TO ${quote(physical)}`);
}
