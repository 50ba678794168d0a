import { ColumnsError, quoted, TableNameError } from './table-errors.ts';
import {
  COLUMN_TYPES,
  MAX_NAME_LENGTH,
  type Column,
  type StoreCapabilities,
  type TableName,
} from './table-store.ts';

export function checkTableName(table: TableName, capabilities: StoreCapabilities): void {
  for (const [part, name] of [
    ['space', table.space],
    ['table', table.table],
  ] as const) {
    const problem = nameProblem(name) ?? capabilities.nameProblem(part, name);
    if (problem) throw new TableNameError({ table, problem: `the ${part} ${problem}` });
  }
}

/** For looking up: of a name that the database cannot hold, there is no table. */
export function isTableName({ space, table }: TableName, capabilities: StoreCapabilities): boolean {
  return [
    nameProblem(space) ?? capabilities.nameProblem('space', space),
    nameProblem(table) ?? capabilities.nameProblem('table', table),
  ].every((problem) => problem === undefined);
}

export function checkColumns(table: TableName, columns: Column[], capabilities: StoreCapabilities): void {
  const fail = (column: string | null, problem: string) => new ColumnsError({ table, column, problem });
  if (columns.length > capabilities.maxColumns) {
    throw fail(null, `${columns.length} columns are too many; the database takes ${capabilities.maxColumns}`);
  }
  const seen = new Map<string, string>();
  for (const { name, type } of columns) {
    const problem = nameProblem(name) ?? capabilities.nameProblem('column', name);
    if (problem) throw fail(name, `the name ${quoted(name)} ${problem}`);
    if (!COLUMN_TYPES.includes(type)) {
      throw fail(
        name,
        `${quoted(name)} has the type ${quoted(type)}; the types are ${COLUMN_TYPES.join(', ')}`,
      );
    }
    const folded = capabilities.caseSensitiveNames ? name : (capabilities.foldName ?? foldCase)(name);
    const other = seen.get(folded);
    if (other === name) throw fail(name, `${quoted(name)} is there twice`);
    if (other !== undefined) {
      throw fail(
        name,
        `${quoted(other)} and ${quoted(name)} differ only in case, which the database does not tell apart`,
      );
    }
    seen.set(folded, name);
  }
}

/** The columns by name; an error names those that are missing. */
export function checkKeys(table: TableName, keys: string[] | undefined, columns: Column[]): string[] {
  const fail = (column: string | null, problem: string) => new ColumnsError({ table, column, problem });
  if (!keys || keys.length === 0) throw fail(null, 'merge needs the names of the key columns');
  for (const key of keys) {
    if (columns.some(({ name }) => name === key)) continue;
    const known = columns.map(({ name }) => quoted(name)).slice(0, 20);
    throw fail(
      key,
      `the key ${quoted(key)} is no column of the load, which has ${known.join(', ') || 'none'}`,
    );
  }
  return [...new Set(keys)];
}

function nameProblem(name: string): string | undefined {
  if (name.includes('\0')) return 'has the character U+0000, which no name may have';
  if (!name.isWellFormed()) return 'has half a character (a lone surrogate), which no name may have';
  if (name.length > MAX_NAME_LENGTH)
    return `is ${name.length} characters long; ${MAX_NAME_LENGTH} are allowed`;
  return undefined;
}

/** Most databases that fold case in names do so for A to Z alone. */
export function foldCase(name: string): string {
  return name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}
