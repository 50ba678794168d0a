import type { Connection } from 'mariadb';
import type { Cell } from '../../cells.ts';
import type { InferredColumn } from '../../column-types.ts';
import { sqlName, type StoredColumn, type StoredTable } from './catalog.ts';
import { recast } from './cells.ts';
import { BEGINNING, type Position } from './keys.ts';
import { RowReader } from './row-reader.ts';
import type { Server } from './server.ts';
import { columnDefinition, HIDE_ROW_NUMBER, quote, ROW_NUMBER } from './sql-names.ts';
import { MERGE_INDEX } from './write.ts';

const ROWS_A_TIME = 2_000;
const CHARACTERS_A_TIME = 8 * 1024 * 1024;

/**
 * Says whether a type was changed. Brings a table made here to these columns: those that it has first, in their order, each of the same or a wider type.
 * What is there stays exact at every moment, and the row numbers stay, so keys stay valid. Every ALTER TABLE is whole
 * or not there after a crash; a column half filled with converted values is hidden until the next attempt drops it.
 */
export async function widenTable(
  server: Server,
  transaction: Connection,
  table: StoredTable,
  columns: InferredColumn[],
): Promise<boolean> {
  const changes: string[] = [];
  const pairs = columns.map((column, at) => ({ old: table.columns[at], column }));
  const retyped = pairs.some(({ old, column }) => old && old.type !== column.type);
  if (retyped)
    changes.push(...(await mergeIndexes(transaction, table)).map((name) => `DROP INDEX ${quote(name)}`));
  for (const { old, column } of pairs) {
    if (!old) changes.push(`ADD COLUMN ${columnDefinition(column)}`);
    else if (
      old.own &&
      isDirect(old, column) &&
      (old.type !== column.type || old.undecided !== column.undecided)
    ) {
      changes.push(`MODIFY COLUMN ${columnDefinition(column)}`);
    }
  }
  if (table.columns.length === 0 && columns.length > 0) changes.push(HIDE_ROW_NUMBER);
  if (changes.length > 0)
    await server.define(transaction, `ALTER TABLE ${sqlName(table)} ${changes.join(', ')}`);
  for (const { old, column } of pairs) {
    if (old && !isDirect(old, column)) await rewrite(server, transaction, table, old, column);
  }
  return retyped;
}

/** An index over text needs a length, so it does not outlive a change from a number to text. */
async function mergeIndexes(connection: Connection, table: StoredTable): Promise<string[]> {
  const rows = await connection.execute<{ table: string; name: string }[]>(
    `SELECT DISTINCT TABLE_NAME AS \`table\`, INDEX_NAME AS name FROM information_schema.STATISTICS
     WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND INDEX_NAME LIKE '${MERGE_INDEX}%'`,
    [table.database, table.physical],
  );
  return rows.filter((row) => row.table === table.physical).map(({ name }) => name);
}

/** From type to type without a look at the values: the database writes the same digits and dates as we do. */
const DIRECT = new Set([
  'integer bigint',
  'integer double',
  'integer decimal',
  'bigint decimal',
  'integer string',
  'bigint string',
  'decimal string',
  'date string',
]);

function isDirect(old: StoredColumn, column: InferredColumn): boolean {
  return old.type === column.type || old.undecided || DIRECT.has(`${old.type} ${column.type}`);
}

async function rewrite(
  server: Server,
  transaction: Connection,
  table: StoredTable,
  old: StoredColumn,
  column: InferredColumn,
): Promise<void> {
  const beside = { ...column, name: `millrace_wide_${table.columns.indexOf(old)}` };
  const name = sqlName(table);
  await server.define(
    transaction,
    // An attempt before this one may have ended here.
    `ALTER TABLE ${name} DROP COLUMN IF EXISTS ${quote(beside.name)}`,
    `ALTER TABLE ${name} ADD COLUMN ${columnDefinition(beside).replace(' NULL COMMENT', ' NULL INVISIBLE COMMENT')}`,
  );
  await server.beside(transaction, (connection) => convert(connection, table, old, beside));
  await server.define(
    transaction,
    `ALTER TABLE ${name} DROP COLUMN ${quote(old.name)},
     CHANGE COLUMN ${quote(beside.name)} ${columnDefinition(column)} ${placeOf(table, old)}`,
  );
}

function placeOf(table: StoredTable, column: StoredColumn): string {
  const before = table.columns[table.columns.indexOf(column) - 1];
  return `AFTER ${quote(before?.name ?? ROW_NUMBER)}`;
}

async function convert(
  connection: Connection,
  table: StoredTable,
  old: StoredColumn,
  beside: InferredColumn,
): Promise<void> {
  const statement = `UPDATE ${sqlName(table)} SET ${quote(beside.name)} = ? WHERE ${quote(ROW_NUMBER)} = ?`;
  const reader = new RowReader(connection, { ...table, columns: [old] }, [old.name]);
  let [after, more]: [Position, boolean] = [BEGINNING, true];
  while (more) {
    const values: [Cell, string][] = [];
    let [seen, characters] = [0, 0];
    await reader.each(after, null, ROWS_A_TIME, ({ position, text }) => {
      if (characters > CHARACTERS_A_TIME) return false;
      seen++;
      characters += text.length;
      const value = text.slice(JSON.stringify(old.name).length + 2, -1);
      if (value !== 'null') values.push([recast(value, beside.type), position[0] ?? '']);
      after = position;
      return true;
    });
    if (values.length > 0) await connection.batch(statement, values);
    more = seen === ROWS_A_TIME || characters > CHARACTERS_A_TIME;
  }
}
