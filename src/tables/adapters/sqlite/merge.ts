import { createHash } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { Row } from '../../row-cells.ts';
import type { Column } from '../../table-store.ts';
import type { TableRecord } from './catalog.ts';
import { insertRows } from './insert.ts';
import { columnDefinitions, quote } from './sql-names.ts';
import type { Statements } from './statements.ts';

/**
 * Updates every row whose keys match and inserts the others. No unique index: rows appended before or later may
 * share keys. The rows are gathered in a table beside, where the last row of a key replaces the ones before it.
 */
export function mergeRows(
  database: DatabaseSync,
  statements: Statements,
  { table, columns, keys, rows }: { table: TableRecord; columns: Column[]; keys: string[]; rows: Row[] },
): void {
  const unique = keys.map(quote).join(', ');
  const definition = `(${columnDefinitions(columns)}, UNIQUE (${unique}) ON CONFLICT REPLACE) STRICT`;
  const beside = tableBeside(database, statements, definition);
  insertRows(statements, { table: table.name, into: beside, columns, rows, keys });

  const index = quote(`_merge_${table.id}_${hash(unique)}`);
  database.exec(`CREATE INDEX IF NOT EXISTS ${index} ON ${quote(table.physical)} (${unique})`);
  const target = quote(table.physical);
  const same = keys.map((key) => `t.${quote(key)} = m.${quote(key)}`).join(' AND ');
  const others = columns.map(({ name }) => name).filter((name) => !keys.includes(name));
  if (others.length > 0) {
    const set = others.map((name) => `${quote(name)} = m.${quote(name)}`).join(', ');
    statements.get(`UPDATE ${target} AS t SET ${set} FROM ${beside} AS m WHERE ${same}`).run();
  }
  const names = columns.map(({ name }) => quote(name)).join(', ');
  statements
    .get(
      `INSERT INTO ${target} (${names}) SELECT ${names} FROM ${beside} AS m
       WHERE NOT EXISTS (SELECT 1 FROM ${target} AS t WHERE ${same}) ORDER BY m.__row__`,
    )
    .run();
  statements.get(`DELETE FROM ${beside}`).run();
}

const KEPT_BESIDE = 20;

/** Kept for the next page of the same columns: its statements stay prepared. */
function tableBeside(database: DatabaseSync, statements: Statements, definition: string): string {
  const name = `merge_${hash(definition)}`;
  const others = statements
    .get("SELECT name FROM temp.sqlite_schema WHERE type = 'table' AND name <> ?")
    .all(name) as { name: string }[];
  if (others.length >= KEPT_BESIDE)
    for (const other of others) database.exec(`DROP TABLE temp.${quote(other.name)}`);
  database.exec(`CREATE TEMP TABLE IF NOT EXISTS ${quote(name)} ${definition}`);
  return `temp.${quote(name)}`;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
