import type { InferredColumn } from '../../column-types.ts';
import type { ColumnType } from '../../table-store.ts';
import { commentColumns, findRelation, sqlName, type StoredColumn, type TableRecord } from './catalog.ts';
import { STORAGE } from './column-storage.ts';
import type { Client } from './connections.ts';
import { quote } from './names.ts';

/** Brings the table to these columns: those that it has first, in their order, each of the same or a wider type. */
export async function widenTable(
  client: Client,
  table: TableRecord,
  columns: InferredColumn[],
): Promise<TableRecord> {
  const old = table.columns;
  const changes = columns.flatMap((column) => {
    const known = old.find(({ name }) => name === column.name);
    if (!known) return [`ADD COLUMN ${quote(column.name)} ${STORAGE[column.type]}`];
    return known.type === column.type ? [] : changeOf(known, column.type);
  });
  const target = sqlName(table);
  if (changes.length > 0) await client.query(`ALTER TABLE ${target} ${changes.join(', ')}`);
  const recommented = columns.some((column) => {
    const known = old.find(({ name }) => name === column.name);
    return known?.type !== column.type || known.undecided !== column.undecided;
  });
  if (!recommented) return table;
  await commentColumns(client, target, columns, old);
  const changed = await findRelation(client, { ...table, books: false });
  return changed ? { ...changed, replaced: table.replaced } : table;
}

function changeOf(column: StoredColumn, to: ColumnType): string[] {
  if (column.storage === 'int8' && STORAGE[to] === 'bigint') return [];
  const name = quote(column.name);
  return [`ALTER COLUMN ${name} TYPE ${STORAGE[to]} USING ${converted(column, name, to)}`];
}

/** The value goes the way that it would go through JSON. */
function converted({ type, storage, undecided }: StoredColumn, name: string, to: ColumnType): string {
  if (undecided) return `NULL::${STORAGE[to]}`;
  // The cast of a double to numeric would keep 15 digits; its text has all that it needs.
  if (to === 'decimal') return `${name}::text::numeric`;
  if (to !== 'string') return `${name}::${STORAGE[to]}`;
  if (storage === 'timestamp' || storage === 'timestamptz') return timestampText(name);
  switch (type) {
    case 'double':
      return doubleText(name);
    case 'json':
      return `CASE json_typeof(${name}::json) WHEN 'string' THEN ${name}::json #>> '{}' ELSE ${name}::text END`;
    case 'binary':
      return `translate(encode(${name}, 'base64'), E'\\n', '')`;
    default:
      return `${name}::text`;
  }
}

/** As JavaScript writes numbers: with an exponent from 1e21 on and below 1e-6, and without leading zeros in it. */
function doubleText(name: string): string {
  return `CASE WHEN ${name} = 0 THEN '0'
    WHEN abs(${name}) >= 1e-6 AND abs(${name}) < 1e21 THEN ${name}::text::numeric::text
    ELSE regexp_replace(${name}::text, 'e([-+])0+', 'e\\1') END`;
}

function timestampText(name: string): string {
  const seconds = `to_char(${name}, 'YYYY-MM-DD"T"HH24:MI:SS')`;
  const fraction = `regexp_replace(to_char(${name}, '.US'), '000$', '')`;
  return `CASE WHEN isfinite(${name}) AND extract(year FROM ${name}) BETWEEN 1 AND 9999
    THEN ${seconds} || CASE to_char(${name}, 'US') WHEN '000000' THEN '' ELSE ${fraction} END || 'Z'
    ELSE ${name}::text END`;
}
