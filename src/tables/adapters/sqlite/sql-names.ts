import type { Column, ColumnType, TableName } from '../../table-store.ts';

/** The column of every data table that numbers its rows: the order and the keys of reading. */
export const ROW_NUMBER = '__row__';

const STORAGE: Record<ColumnType, 'TEXT' | 'INTEGER' | 'REAL' | 'BLOB'> = {
  string: 'TEXT',
  integer: 'INTEGER',
  bigint: 'INTEGER',
  decimal: 'TEXT',
  double: 'REAL',
  boolean: 'INTEGER',
  date: 'TEXT',
  timestamp: 'TEXT',
  json: 'TEXT',
  binary: 'BLOB',
};

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * The name inside the file: "space.table". A point or backslash in the space is escaped, so that no two tables share
 * a name; a space that begins with "sqlite_" too, because SQLite keeps such names for itself.
 */
export function physicalName({ space, table }: TableName): string {
  const escaped = space.replace(/[\\.]/g, '\\$&');
  return `${/^sqlite_/i.test(space) ? '\\' : ''}${escaped}.${table}`;
}

export function columnDefinitions(columns: Column[]): string {
  const row = `${quote(ROW_NUMBER)} INTEGER PRIMARY KEY`;
  return [row, ...columns.map(({ name, type }) => `${quote(name)} ${STORAGE[type]}`)].join(', ');
}

export function storageOf(type: ColumnType): string {
  return STORAGE[type];
}
