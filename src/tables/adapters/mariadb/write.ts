import type { Connection } from 'mariadb';
import { RowsError, ColumnsError } from '../../table-errors.ts';
import type { TableName } from '../../table-store.ts';
import type { StoredColumn } from './catalog.ts';
import type { Cells } from './cells.ts';
import { digest } from './bookkeeping.ts';
import { hasErrno } from './errors.ts';
import { quote, ROW_NUMBER, STORAGE } from './sql-names.ts';

export interface Writing {
  /** As it is reported in errors. */
  table: TableName;
  /** As it stands in SQL. */
  into: string;
  columns: StoredColumn[];
  rows: Cells[];
}

const ROWS_WITHOUT_COLUMNS = 1_000;

/** The connector's batch sends the rows in as few packets as the server takes. */
export async function insertRows(
  connection: Connection,
  { table, into, columns, rows }: Writing,
): Promise<void> {
  if (rows.length === 0) return;
  const written = columns.flatMap(({ computed }, at) => (computed ? [] : [at]));
  if (written.length === 0) return insertEmptyRows(connection, into, rows.length);
  const names = written.map((at) => quote(columns[at]?.name ?? ''));
  const values = written.length === columns.length ? rows : rows.map((row) => written.map((at) => row[at]));
  try {
    await connection.batch(
      `INSERT INTO ${into} (${names.join(',')}) VALUES (${names.map(() => '?').join(',')})`,
      values,
    );
  } catch (error) {
    throw tableFault(table, error);
  }
}

/** A table without columns still counts its rows. */
async function insertEmptyRows(connection: Connection, into: string, count: number): Promise<void> {
  for (let left = count; left > 0; left -= ROWS_WITHOUT_COLUMNS) {
    const values = Array(Math.min(left, ROWS_WITHOUT_COLUMNS)).fill('(NULL)').join(',');
    await connection.query(`INSERT INTO ${into} (${quote(ROW_NUMBER)}) VALUES ${values}`);
  }
}

/** What the server alone knows of the table's limits. */
function tableFault(table: TableName, error: unknown): unknown {
  if (hasErrno(error, 'ER_TOO_BIG_ROWSIZE')) {
    const problem =
      'a row is too wide: of all its values together, 8,126 bytes stand in the row itself, 20 or more each';
    return new RowsError({ table, row: null, problem });
  }
  if (hasErrno(error, 'ER_FIELD_SPECIFIED_TWICE')) {
    const problem = `of more than 32 columns the database takes two names for one: ${error.sqlMessage ?? ''}`;
    return new ColumnsError({ table, column: null, problem });
  }
  return error;
}

/**
 * Updates every row whose keys match and inserts the others. No unique index: rows appended before or later may
 * share keys. The rows are gathered in a temporary table, one for each key: the last one.
 */
export async function mergeRows(connection: Connection, writing: Writing, keys: string[]): Promise<void> {
  const { into, columns } = writing;
  const rows = lastOfEachKey(columns, writing.rows, keys);
  if (rows.length === 0) return;
  const beside = `${into.slice(0, into.indexOf('`.`') + 2)}\`millrace_merge\``;
  const definitions = columns.map(({ name, type }) => `${quote(name)} ${STORAGE[type]} NULL`);
  const row = `${quote(ROW_NUMBER)} BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY`;
  await connection.query(`DROP TEMPORARY TABLE IF EXISTS ${beside}`);
  await connection.query(
    `CREATE TEMPORARY TABLE ${beside} (${[row, ...definitions].join(', ')}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`,
  );
  await insertRows(connection, { ...writing, into: beside, rows });

  const same = keys.map((key) => `t.${quote(key)} = m.${quote(key)}`).join(' AND ');
  const others = columns.filter(({ name, computed }) => !computed && !keys.includes(name));
  if (others.length > 0) {
    const set = others.map(({ name }) => `t.${quote(name)} = m.${quote(name)}`).join(', ');
    await connection.query(`UPDATE ${into} AS t JOIN ${beside} AS m ON ${same} SET ${set}`);
  }
  const names = columns.filter(({ computed }) => !computed).map(({ name }) => quote(name));
  await connection.query(
    `INSERT INTO ${into} (${names.join(', ')}) SELECT ${names.join(', ')} FROM ${beside} AS m
     WHERE NOT EXISTS (SELECT 1 FROM ${into} AS t WHERE ${same}) ORDER BY m.${quote(ROW_NUMBER)}`,
  );
  await connection.query(`DROP TEMPORARY TABLE ${beside}`);
}

function lastOfEachKey(columns: StoredColumn[], rows: Cells[], keys: string[]): Cells[] {
  const places = keys.map((key) => columns.findIndex(({ name }) => name === key));
  const keyText = (row: Cells) =>
    JSON.stringify(
      places.map((at) => (row[at] instanceof Uint8Array ? Buffer.from(row[at]).toString('hex') : row[at])),
    );
  const last = new Map<string, Cells>();
  for (const row of rows) {
    const key = keyText(row);
    last.delete(key); // so that it stands where its last row stood
    last.set(key, row);
  }
  return [...last.values()];
}

const INDEXED_KEYS = 4;
const INDEXED_CHARACTERS = 100;

export const MERGE_INDEX = 'millrace_merge_';

/** What follows CREATE INDEX, for the one by which a merge finds the rows of its keys. */
export function mergeIndex(table: string, columns: StoredColumn[], keys: string[]): string {
  const parts = keys.slice(0, INDEXED_KEYS).map((key) => {
    const type = columns.find(({ name }) => name === key)?.type ?? 'string';
    return /TEXT|BLOB/.test(STORAGE[type]) ? `${quote(key)}(${INDEXED_CHARACTERS})` : quote(key);
  });
  const name = `${MERGE_INDEX}${digest(parts).toString('hex').slice(0, 16)}`;
  return `${quote(name)} ON ${table} (${parts.join(', ')})`;
}
