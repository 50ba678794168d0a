import type { Connection } from 'mariadb';
import type { InferredColumn } from '../../column-types.ts';
import type { Column, TableDescription, TableName } from '../../table-store.ts';
import { foreignRule, foreignType, isComputed, type CellRule, type ColumnFacts } from './foreign-columns.ts';
import { databaseOf, spaceOf, type Place } from './place.ts';
import {
  DATA_TYPES,
  isOwnTable,
  quote,
  readColumnComment,
  readTableComment,
  ROW_NUMBER,
} from './sql-names.ts';

export interface StoredColumn extends InferredColumn {
  /** Made by this store, whose type it may therefore change. */
  own: boolean;
  /** By the database, from other columns. */
  computed: boolean;
  /** undefined: it takes all that its type takes. */
  rule: CellRule | undefined;
}

/** A table as it stands in the database. */
export interface StoredTable {
  /** As it is named in errors. */
  name: TableName;
  database: string;
  physical: string;
  /** Of a table made here; undefined: somebody else made it. */
  id: string | undefined;
  /** For a table of somebody else's: changes when it is created anew or its columns change. */
  madeAt: string;
  engine: string | null;
  isView: boolean;
  columns: StoredColumn[];
  /** By the database's own estimate. */
  rowBytes: number;
  /** What orders the rows: the row number, or the primary key of a table of somebody else's; empty: nothing does. */
  order: Column[];
}

/** As it stands in SQL. */
export function sqlName({ database, physical }: { database: string; physical: string }): string {
  return `${quote(database)}.${quote(physical)}`;
}

interface TableRow {
  schema: string;
  name: string;
  type: string;
  engine: string | null;
  comment: string;
  madeAt: string | null;
  rowBytes: number | null;
}

interface ColumnRow extends Omit<ColumnFacts, 'isJson'> {
  schema: string;
  table: string;
  key: string;
}

const TABLE_FACTS = `SELECT TABLE_SCHEMA AS \`schema\`, TABLE_NAME AS name, TABLE_TYPE AS type, ENGINE AS engine,
  TABLE_COMMENT AS comment, CAST(CREATE_TIME AS CHAR) AS madeAt,
  CAST(AVG_ROW_LENGTH AS DOUBLE) AS rowBytes FROM information_schema.TABLES`;
const COLUMN_FACTS = `SELECT TABLE_SCHEMA AS \`schema\`, TABLE_NAME AS \`table\`, COLUMN_NAME AS name,
  DATA_TYPE AS dataType, COLUMN_TYPE AS columnType, CAST(CHARACTER_MAXIMUM_LENGTH AS DOUBLE) AS characters,
  CAST(NUMERIC_PRECISION AS DOUBLE) AS \`precision\`, CAST(NUMERIC_SCALE AS DOUBLE) AS scale,
  CAST(DATETIME_PRECISION AS DOUBLE) AS secondDigits, COLUMN_KEY AS \`key\`, EXTRA AS extra, COLUMN_COMMENT AS comment
  FROM information_schema.COLUMNS`;

/** Which tables there are, with the types of their columns, as the database itself tells them. */
export class Catalog {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  databaseOf(space: string): string {
    return databaseOf(this.#place, space);
  }

  find(connection: Connection, name: TableName): Promise<StoredTable | undefined> {
    return this.describe(connection, name, name.table);
  }

  /** `physical`: its name in the database, which is another one for staging and temporary tables. */
  async describe(
    connection: Connection,
    name: TableName,
    physical: string,
  ): Promise<StoredTable | undefined> {
    const database = this.databaseOf(name.space);
    const values = [database, physical];
    const [tables, columns] = await Promise.all([
      connection.execute<TableRow[]>(`${TABLE_FACTS} WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`, values),
      connection.execute<ColumnRow[]>(
        `${COLUMN_FACTS} WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`,
        values,
      ),
    ]);
    // The comparison in SQL takes é for e.
    const table = tables.find((row) => row.schema === database && row.name === physical);
    if (!table) return undefined;
    const own = columns.filter((row) => row.schema === database && row.table === physical);
    const stored = toStored(name, table, own, new Set());
    return stored.id === undefined ? this.#completed(connection, stored, table, own) : stored;
  }

  /** All tables that are no job's own. */
  async list(connection: Connection): Promise<TableDescription[]> {
    const tables = await connection.query<TableRow[]>(
      `${TABLE_FACTS} WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')`,
    );
    const columns = await connection.query<ColumnRow[]>(`${COLUMN_FACTS} ORDER BY ORDINAL_POSITION`);
    const byTable = Map.groupBy(columns, ({ schema, table }) => JSON.stringify([schema, table]));
    const described = tables.flatMap((row): TableDescription[] => {
      const space = spaceOf(this.#place, row.schema);
      if (space === undefined || isOwnTable(row.name)) return [];
      const own = byTable.get(JSON.stringify([row.schema, row.name])) ?? [];
      const name = { space, table: row.name };
      return [{ ...name, columns: plainColumns(toStored(name, row, own, new Set()).columns) }];
    });
    return described.toSorted((a, b) => compare(a.space, b.space) || compare(a.table, b.table));
  }

  /** What only tables of somebody else's need: the columns of JSON, and the primary key. */
  async #completed(
    connection: Connection,
    stored: StoredTable,
    table: TableRow,
    columns: ColumnRow[],
  ): Promise<StoredTable> {
    const values = [stored.database, stored.physical];
    const checks = await connection.execute<{ name: string; clause: string }[]>(
      `SELECT TABLE_NAME AS name, CHECK_CLAUSE AS clause FROM information_schema.CHECK_CONSTRAINTS
       WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?`,
      values,
    );
    const json = checks
      .filter(({ name }) => name === stored.physical)
      .map(({ clause }) => /^json_valid\(`(.*)`\)$/s.exec(clause)?.[1]?.replaceAll('``', '`') ?? '');
    const keys = await connection.execute<{ table: string; name: string }[]>(
      `SELECT TABLE_NAME AS \`table\`, COLUMN_NAME AS name FROM information_schema.STATISTICS
       WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX`,
      values,
    );
    const completed = toStored(stored.name, table, columns, new Set(json));
    const order = keys
      .filter((key) => key.table === stored.physical)
      .map(({ name }) => completed.columns.find((column) => column.name === name));
    return { ...completed, order: order.filter((column) => column !== undefined) };
  }
}

function toStored(name: TableName, table: TableRow, rows: ColumnRow[], json: Set<string>): StoredTable {
  const numbered = rows.some(({ name, extra }) => name === ROW_NUMBER && /auto_increment/i.test(extra));
  const id = numbered ? readTableComment(table.comment) : undefined;
  return {
    name,
    database: table.schema,
    physical: table.name,
    id,
    madeAt: table.madeAt ?? '',
    engine: table.engine,
    rowBytes: table.rowBytes ?? 0,
    isView: /VIEW/.test(table.type),
    columns: rows
      // An invisible column is not among those of SELECT *.
      .filter(
        ({ name, extra }) => !(id !== undefined && name === ROW_NUMBER) && !/\bINVISIBLE\b/i.test(extra),
      )
      .map((row) => toColumn({ ...row, isJson: json.has(row.name) })),
    order: id === undefined ? [] : [{ name: ROW_NUMBER, type: 'bigint' }],
  };
}

function toColumn(facts: ColumnFacts): StoredColumn {
  const { name, comment } = facts;
  const own = readColumnComment(comment);
  // Somebody may have changed the type and left the comment.
  if (own && DATA_TYPES[own.type] === facts.dataType)
    return { name, ...own, own: true, computed: false, rule: undefined };
  return {
    name,
    type: foreignType(facts),
    undecided: false,
    own: false,
    computed: isComputed(facts),
    rule: foreignRule(facts),
  };
}

export function plainColumns(columns: Column[]): Column[] {
  return columns.map(({ name, type }) => ({ name, type }));
}

/** As SQLite and PostgreSQL order text that they compare by its bytes. */
function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
