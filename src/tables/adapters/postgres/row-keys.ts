import { KeyError } from '../../table-errors.ts';
import type { TableRecord } from './catalog.ts';
import type { TextRow } from './connections.ts';
import { quote, ROW_NUMBER } from './names.ts';

/**
 * What orders the rows of a table and tells where reading goes on. Tables made here: the number of the row, so the
 * order of loading. Other tables: the primary key; rows added since may come anywhere. Without one the place of the
 * row (ctid), which changes with every update of it; in views not even that, so there the rows are counted, and
 * reading on after a restart is right only as long as the database gives them in the same order.
 */
export interface RowOrder {
  kind: 'row' | 'primary' | 'place' | 'count';
  /** SQL and its type, for each part of the key. */
  parts: { sql: string; type: string }[];
}

export function orderOf({ kind, numbered, primaryKey }: TableRecord): RowOrder {
  if (numbered) return { kind: 'row', parts: [{ sql: quote(ROW_NUMBER), type: 'bigint' }] };
  if (primaryKey.length > 0) {
    const parts = primaryKey.map(({ name, sqlType }) => ({ sql: quote(name), type: sqlType }));
    return { kind: 'primary', parts };
  }
  if (kind === 'view' || kind === 'foreign table') return { kind: 'count', parts: [] };
  const place = { sql: 'ctid', type: 'tid' };
  const partition = { sql: 'tableoid', type: 'oid' };
  return { kind: 'place', parts: kind === 'partitioned' ? [partition, place] : [place] };
}

/** The key of a row: the table, how often it was replaced, what orders it, and the cells of the key. */
export function keyOf({ oid, replaced }: TableRecord, { kind }: RowOrder, cells: TextRow): string {
  const number = kind === 'row' || kind === 'count';
  const encoded = number ? (cells[0] ?? NO_ROW) : Buffer.from(JSON.stringify(cells)).toString('base64url');
  return `${oid}.${replaced}-${kind}-${encoded}`;
}

/** Before all rows, where they are numbered or counted; elsewhere that is a key without cells. */
const NO_ROW = '0';
const KEY = /^(\d{1,10})\.(\d{1,19})-(row|primary|place|count)-([A-Za-z0-9_-]+)$/;
const NUMBER = /^-?\d{1,19}$/;

export function cellsOfKey(table: TableRecord, order: RowOrder, key: string): string[] {
  const fail = (problem: string) => new KeyError({ table: table.name, problem });
  const [, oid, replaced, kind, encoded = ''] = KEY.exec(key) ?? [];
  if (oid === undefined) throw fail('it is no key that this service gave out');
  if (oid !== table.oid || replaced !== table.replaced || kind !== order.kind) {
    throw fail('the table was replaced since the key was given out; begin again');
  }
  const isNumber = kind === 'row' || kind === 'count';
  if (isNumber && NUMBER.test(encoded)) return [encoded];
  const cells = isNumber ? null : parsedCells(Buffer.from(encoded, 'base64url').toString());
  if (cells && (cells.length === 0 || cells.length === order.parts.length)) return cells;
  throw fail('it is no key that this service gave out');
}

function parsedCells(text: string): string[] | null {
  try {
    const cells = JSON.parse(text) as unknown;
    return Array.isArray(cells) && cells.every((cell) => typeof cell === 'string') ? cells : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** `(a, b) > ($1::int, $2::text)`, and the parameters numbered from `first` on. */
export function comparison({ parts }: RowOrder, operator: '>' | '<=', first: number): string {
  const values = parts.map(({ type }, at) => `$${first + at}::text::${type}`).join(', ');
  return `(${parts.map(({ sql }) => sql).join(', ')}) ${operator} (${values})`;
}
