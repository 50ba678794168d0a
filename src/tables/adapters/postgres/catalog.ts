import type { InferredColumn } from '../../column-types.ts';
import { isTableName } from '../../names.ts';
import type { TableDescription, TableName } from '../../table-store.ts';
import { createSchema } from './bookkeeping.ts';
import { commentOf, modelTypeOf, STORAGE } from './column-storage.ts';
import { rowsOf, type Client } from './connections.ts';
import {
  OWN_SCHEMA,
  ownName,
  POSTGRES_CAPABILITIES,
  qualified,
  quote,
  quoteText,
  ROW_NUMBER,
} from './names.ts';

export interface StoredColumn extends InferredColumn {
  /** As it is said in SQL, such as "numeric(10,2)". */
  sqlType: string;
  /** PostgreSQL's own name of the type, for a domain that of the type below. */
  storage: string;
  /** What it keeps of the numbers in brackets; -1: there are none. */
  modifier: number;
  /** Filled by the database where a row does not say otherwise. */
  hasDefault: boolean;
  /** Always filled by the database. */
  isGenerated: boolean;
}

export type Kind = 'table' | 'partitioned' | 'view' | 'materialized view' | 'foreign table';

export interface TableRecord {
  /** As it is reported in errors. */
  name: TableName;
  schema: string;
  relation: string;
  oid: string;
  /** How often its rows were replaced while the table itself stayed. */
  replaced: string;
  kind: Kind;
  columns: StoredColumn[];
  /** Whether it has the column ROW_NUMBER, as tables made here have. */
  numbered: boolean;
  /** The columns of the primary key, in its order. */
  primaryKey: StoredColumn[];
}

const KINDS: Record<string, Kind> = {
  r: 'table',
  p: 'partitioned',
  v: 'view',
  m: 'materialized view',
  f: 'foreign table',
};

interface ColumnRow {
  schema: string;
  relation: string;
  oid: string;
  kind: string;
  replaced: string;
  primary_key: string | null;
  number: string | null;
  name: string;
  sql_type: string;
  storage: string;
  modifier: string;
  identity: string;
  generated: string;
  has_default: string;
  comment: string | null;
}

const columnsSql = (books: boolean, which: string): string => `
  SELECT n.nspname AS schema, c.relname AS relation, c.oid, c.relkind AS kind,
    ${books ? 'coalesce(r.times, 0)' : '0'} AS replaced, i.indkey::text AS primary_key,
    a.attnum AS number, a.attname AS name, format_type(a.atttypid, a.atttypmod) AS sql_type,
    CASE WHEN t.typtype = 'd' THEN b.typname WHEN tn.nspname = 'pg_catalog' THEN t.typname ELSE '' END AS storage,
    CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS modifier,
    a.attidentity AS identity, a.attgenerated AS generated, a.atthasdef AS has_default,
    col_description(c.oid, a.attnum) AS comment
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_namespace tn ON tn.oid = t.typnamespace
  LEFT JOIN pg_type b ON b.oid = t.typbasetype
  LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND i.indisvalid
  ${books ? `LEFT JOIN ${OWN_SCHEMA}.replaced_table r ON r.relation = c.oid` : ''}
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${which} ORDER BY 1, 2, a.attnum`;

const BY_NAME = 'n.nspname = $1 AND c.relname = $2';
const OTHERS = `n.nspname <> ALL ($1) AND n.nspname !~ '^pg_' AND NOT c.relispartition
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')`;

export async function findRelation(
  client: Client,
  { schema, relation, name, books }: { schema: string; relation: string; name: TableName; books: boolean },
): Promise<TableRecord | undefined> {
  const statement = { name: `millrace_columns_${books}`, text: columnsSql(books, BY_NAME) };
  const rows = await rowsOf<ColumnRow>(client, statement, [schema, relation]);
  return rows[0] && record(name, rows, rows[0]);
}

export async function findTable(
  client: Client,
  name: TableName,
  books: boolean,
): Promise<TableRecord | undefined> {
  if (!isTableName(name, POSTGRES_CAPABILITIES)) return undefined;
  return findRelation(client, { schema: name.space, relation: name.table, name, books });
}

export async function listTables(client: Client): Promise<TableDescription[]> {
  const kept = [OWN_SCHEMA, 'information_schema'];
  const rows = await rowsOf<ColumnRow>(client, { text: columnsSql(false, OTHERS) }, [kept]);
  return [...Map.groupBy(rows, ({ oid }) => oid).values()].flatMap(([first, ...rest]) => {
    if (!first) return [];
    const name = { space: first.schema, table: first.relation };
    return { ...name, columns: plainColumns(record(name, [first, ...rest], first).columns) };
  });
}

function record(name: TableName, rows: ColumnRow[], first: ColumnRow): TableRecord {
  const stored = new Map<string, StoredColumn>();
  let numbered = false;
  for (const row of rows) {
    if (row.number === null) continue;
    if (row.name === ROW_NUMBER && row.identity !== '') numbered = true;
    else stored.set(row.number, storedColumn(row));
  }
  return {
    name,
    schema: first.schema,
    relation: first.relation,
    oid: first.oid,
    replaced: first.replaced,
    kind: KINDS[first.kind] ?? 'table',
    columns: [...stored.values()],
    numbered,
    primaryKey: (first.primary_key?.split(' ') ?? []).flatMap((number) => stored.get(number) ?? []),
  };
}

function storedColumn(row: ColumnRow): StoredColumn {
  const { name, sql_type: sqlType, storage } = row;
  return {
    name,
    ...modelTypeOf(storage, row.comment),
    sqlType,
    storage,
    modifier: Number(row.modifier),
    hasDefault: row.has_default === 't' || row.identity !== '',
    isGenerated: row.generated !== '',
  };
}

/** With the schema, where it is missing. Its index and sequence get names that are no table's. */
export async function createTable(
  client: Client,
  schema: string,
  relation: string,
  columns: InferredColumn[],
): Promise<void> {
  if (schema !== OWN_SCHEMA) await createSchema(client, schema);
  const target = qualified(schema, relation);
  const own = ownName();
  const row = `${quote(ROW_NUMBER)} bigint GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME ${qualified(schema, `${own}_row`)})
    CONSTRAINT ${quote(`${own}_key`)} PRIMARY KEY`;
  const definitions = columns.map(({ name, type }) => `${quote(name)} ${STORAGE[type]}`);
  await client.query(`CREATE TABLE ${target} (${[row, ...definitions].join(', ')})`);
  await commentColumns(client, target, columns);
}

/** All in one message: a table of many columns has many comments. */
export async function commentColumns(
  client: Client,
  target: string,
  columns: InferredColumn[],
  before: InferredColumn[] = [],
): Promise<void> {
  const comments = columns.flatMap((column) => {
    const known = before.find(({ name }) => name === column.name);
    const comment = commentOf(column);
    if (comment === (known ? commentOf(known) : null)) return [];
    return `COMMENT ON COLUMN ${target}.${quote(column.name)} IS ${comment === null ? 'NULL' : quoteText(comment)}`;
  });
  if (comments.length > 0) await client.query(comments.join('; '));
}

export function sqlName({ schema, relation }: TableRecord): string {
  return qualified(schema, relation);
}

export function plainColumns(columns: InferredColumn[]): { name: string; type: InferredColumn['type'] }[] {
  return columns.map(({ name, type }) => ({ name, type }));
}
