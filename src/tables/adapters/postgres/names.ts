import { createHash, randomBytes } from 'node:crypto';
import type { NamePart, StoreCapabilities, TableName } from '../../table-store.ts';

/** The column of every table made here that numbers its rows: the order and the keys of reading. */
export const ROW_NUMBER = '__row__';

/** Holds the bookkeeping, staging and temporary tables, and may hold the service's own records: no space of data. */
export const OWN_SCHEMA = 'millrace';

const MAX_NAME_BYTES = 63;
const SYSTEM_COLUMNS = ['ctid', 'xmin', 'xmax', 'cmin', 'cmax', 'tableoid'];

export const POSTGRES_CAPABILITIES: StoreCapabilities = {
  /** PostgreSQL's own limit is 1,600, with the row number. */
  maxColumns: 1_599,
  nulCharacters: false,
  secondDigits: 6,
  caseSensitiveNames: true,
  nameProblem,
};

function nameProblem(part: NamePart, name: string): string | undefined {
  const bytes = Buffer.byteLength(name);
  if (bytes === 0) return 'is empty, which PostgreSQL does not take';
  if (bytes > MAX_NAME_BYTES) return `is ${bytes} bytes long; PostgreSQL takes ${MAX_NAME_BYTES}`;
  if (part === 'column') return columnProblem(name);
  return part === 'space' ? spaceProblem(name) : undefined;
}

function columnProblem(name: string): string | undefined {
  if (name === ROW_NUMBER) return 'is reserved for the numbers of the rows';
  return SYSTEM_COLUMNS.includes(name) ? 'is that of a column of the system' : undefined;
}

function spaceProblem(name: string): string | undefined {
  if (name === OWN_SCHEMA) return 'is reserved for the service itself';
  if (name.startsWith('pg_') || name === 'information_schema') return 'is kept by PostgreSQL for itself';
  return undefined;
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function qualified(schema: string, relation: string): string {
  return `${quote(schema)}.${quote(relation)}`;
}

/** For what shares the names of tables (indexes, sequences): so that no table's name is ever taken by them. */
export function ownName(): string {
  return `millrace_${randomBytes(8).toString('hex')}`;
}

/** The key of an advisory lock, the same on every node. */
export function lockKey(...parts: string[]): bigint {
  return createHash('sha256').update(JSON.stringify(parts)).digest().readBigInt64BE();
}

export function tableLockKey({ space, table }: TableName): bigint {
  return lockKey('table', space, table);
}
