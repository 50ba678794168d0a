import { createHash } from 'node:crypto';
import type { StoredColumn, TableRecord } from './catalog.ts';
import { sqlName } from './catalog.ts';
import type { Client } from './connections.ts';
import { sendCopy, type CopyText } from './copy.ts';
import { quote, ROW_NUMBER } from './names.ts';

/**
 * Updates every row whose keys match and inserts the others. No unique index: rows appended before or later may
 * share keys. The rows are gathered in a table beside; of those that share keys, the last one counts.
 */
export async function mergeRows(
  client: Client,
  { table, keys, copy }: { table: TableRecord; keys: string[]; copy: CopyText },
): Promise<void> {
  const { columns, rowCount } = copy;
  if (rowCount === 0) return;
  const beside = await tableBeside(client, columns);
  await sendCopy(client, beside, copy);
  const keyColumns = columns.filter(({ name }) => keys.includes(name));
  if (table.numbered) await indexKeys(client, table, keyColumns);
  const target = sqlName(table);
  const same = keyColumns.flatMap((key) => sameKey(key)).join(' AND ');
  const others = columns.filter(({ name }) => !keys.includes(name)).map(({ name }) => quote(name));
  const names = columns.map(({ name }) => quote(name)).join(', ');
  const distinct = keyColumns.map((key) => comparable(key, '')).join(', ');
  const last = `SELECT DISTINCT ON (${distinct}) * FROM ${beside} ORDER BY ${distinct}, ${quote(ROW_NUMBER)} DESC`;
  if (others.length > 0) {
    const set = others.map((name) => `${name} = m.${name}`).join(', ');
    await client.query(
      `WITH m AS MATERIALIZED (${last}) UPDATE ${target} AS t SET ${set} FROM m WHERE ${same}`,
    );
  }
  await client.query(
    `WITH m AS MATERIALIZED (${last}) INSERT INTO ${target} (${names}) SELECT ${names} FROM m
     WHERE NOT EXISTS (SELECT 1 FROM ${target} AS t WHERE ${same}) ORDER BY m.${quote(ROW_NUMBER)}`,
  );
  await client.query(`DELETE FROM ${beside}`);
}

/** json has no equality of its own. */
function comparable({ name, storage }: StoredColumn, alias: string): string {
  return storage === 'json' ? `(${alias}${quote(name)})::text` : `${alias}${quote(name)}`;
}

function sameKey(key: StoredColumn): string[] {
  const same = `${comparable(key, 't.')} = ${comparable(key, 'm.')}`;
  const hash = hashOf(key);
  return hash ? [`${hash('t.')} = ${hash('m.')}`, same] : [same];
}

/** An index takes 2,700 bytes of a value at most; what may be longer stands in it as a hash. */
function hashOf({ name, storage }: StoredColumn): ((alias: string) => string) | undefined {
  const column = (alias: string) => `${alias}${quote(name)}`;
  switch (storage) {
    case 'text':
    case 'varchar':
    case 'json':
      return (alias) => `hashtextextended(${column(alias)}::text, 0)`;
    case 'bytea':
      return (alias) => `md5(${column(alias)})`;
    case 'numeric':
      return (alias) => `hash_numeric_extended(${column(alias)}, 0)`;
    default:
      return undefined;
  }
}

/** An index over more columns than this is not possible; the first ones do to find the rows. */
const MOST_INDEXED = 32;

async function indexKeys(
  client: Client,
  { schema, oid, ...table }: TableRecord,
  keys: StoredColumn[],
): Promise<void> {
  const parts = keys.slice(0, MOST_INDEXED).map((key) => `(${hashOf(key)?.('') ?? quote(key.name)})`);
  const index = `millrace_merge_${oid}_${hash(parts.join())}`;
  const text =
    'SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2';
  const known = await client.query({ name: 'millrace_index', text, values: [schema, index] });
  if (known.rowCount === 1) return;
  await client.query(
    `CREATE INDEX ${quote(index)} ON ${sqlName({ schema, oid, ...table })} (${parts.join(', ')})`,
  );
}

const KEPT_BESIDE = 20;
const kept = new WeakMap<Client, Set<string>>();

/** Kept with the connection for the next page of the same columns, and emptied by the end of each transaction. */
async function tableBeside(client: Client, columns: StoredColumn[]): Promise<string> {
  const definitions = columns.map(({ name, sqlType }) => `${quote(name)} ${sqlType}`);
  const number = `${quote(ROW_NUMBER)} bigint GENERATED ALWAYS AS IDENTITY`;
  const definition = [...definitions, number].join(', ');
  const name = `pg_temp.${quote(`merge_${hash(definition)}`)}`;
  const names = kept.get(client) ?? new Set();
  kept.set(client, names);
  if (names.size >= KEPT_BESIDE) {
    for (const other of names) await client.query(`DROP TABLE IF EXISTS ${other}`);
    names.clear();
  }
  // Even where it was made before: the transaction in which it was made may have failed.
  const is = await client.query('SELECT to_regclass($1) AS oid', [name]);
  if ((is.rows[0] as { oid: string | null }).oid === null) {
    await client.query(
      `CREATE TEMP TABLE ${name.slice('pg_temp.'.length)} (${definition}) ON COMMIT DELETE ROWS`,
    );
  }
  names.add(name);
  return name;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
