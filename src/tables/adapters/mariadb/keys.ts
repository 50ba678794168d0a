import { createHash } from 'node:crypto';
import { KeyError } from '../../table-errors.ts';
import type { ColumnType } from '../../table-store.ts';
import type { StoredTable } from './catalog.ts';
import { quote } from './sql-names.ts';

/**
 * Where a row stands: the texts of the columns that order the table (bytes in hexadecimal digits), or the number of
 * rows up to it where nothing orders them. Empty: before the first row.
 */
export type Position = string[];

export const BEGINNING: Position = [];

/** The table's identity in it tells a table from the one that took its place. */
export function keyOf(table: StoredTable, position: Position): string {
  if (table.id !== undefined) return `${table.id}-${position[0] ?? 0}`;
  return `${foreignId(table)}-${Buffer.from(JSON.stringify(position)).toString('base64url')}`;
}

export function positionOf(table: StoredTable, key: string): Position {
  const fail = (problem: string) => new KeyError({ table: table.name, problem });
  const [, id, rest = ''] = /^([0-9a-f]{16}|f[0-9a-f]{15})-([\w-]{1,4096})$/.exec(key) ?? [];
  if (id === undefined) throw fail('it is no key that this service gave out');
  if (id !== (table.id ?? foreignId(table))) {
    throw fail('the table was replaced since the key was given out; begin again');
  }
  const position = table.id === undefined ? decoded(rest) : [rest];
  const types: ColumnType[] = table.order.length > 0 ? table.order.map(({ type }) => type) : ['bigint'];
  const isWhole = position?.length === types.length || position?.length === 0;
  if (!position || !isWhole || !position.every((text, at) => isLiteral(text, types[at]))) {
    throw fail('it is no key that this service gave out');
  }
  return position;
}

function decoded(text: string): Position | undefined {
  try {
    const values: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    return Array.isArray(values) && values.every((value) => typeof value === 'string') ? values : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** A table of somebody else's has nothing that tells it from another but the second in which it was made, and its keys. */
function foreignId({ database, physical, madeAt, order }: StoredTable): string {
  const hash = createHash('sha256').update(
    JSON.stringify([database, physical, madeAt, order.map(({ name, type }) => [name, type])]),
  );
  return `f${hash.digest('hex').slice(0, 15)}`;
}

const NUMBER = /^-?\d{1,400}(?:\.\d{1,400})?(?:e[-+]?\d{1,4})?$/i;

function isLiteral(text: string, type: ColumnType | undefined): boolean {
  if (type === 'binary') return /^(?:[0-9a-f]{2})*$/.test(text);
  return isNumeric(type) ? NUMBER.test(text) : true;
}

function isNumeric(type: ColumnType | undefined): boolean {
  return ['integer', 'bigint', 'decimal', 'double', 'boolean'].includes(type ?? '');
}

function literal(text: string, type: ColumnType | undefined): string {
  if (isNumeric(type)) return text;
  if (type === 'binary') return `x'${text}'`;
  return `CONVERT(x'${Buffer.from(text).toString('hex')}' USING utf8mb4)`;
}

/** The condition in SQL that a row stands after, or not after, the position. */
export function beyond({ order }: StoredTable, position: Position): string {
  if (position.length === 0) return 'TRUE';
  const options = order.map(({ name, type }, at) => {
    const before = order
      .slice(0, at)
      .map((column, index) => `${quote(column.name)} = ${literal(position[index] ?? '', column.type)}`);
    return `(${[...before, `${quote(name)} > ${literal(position[at] ?? '', type)}`].join(' AND ')})`;
  });
  return `(${options.join(' OR ')})`;
}
