import { setTimeout as delay } from 'node:timers/promises';
import { ColumnsError, DatabaseRefusal, StoreUnavailable } from '../../table-errors.ts';
import type { TableName } from '../../table-store.ts';
import {
  countReplacement,
  createSchema,
  forgetOwnTable,
  forgetReplacements,
  showOwnTable,
  type OwnTable,
} from './bookkeeping.ts';
import { findRelation, findTable, sqlName, type TableRecord } from './catalog.ts';
import { rowsOf, type Client } from './connections.ts';
import { hasCode } from './failures.ts';
import { carryRights, carryComment } from './rights.ts';
import { OWN_SCHEMA, qualified, quote } from './names.ts';

/**
 * Whoever waits for the lock of a swap makes readers that come later wait, too. Shorter than PostgreSQL's
 * `deadlock_timeout` (1 s): where a reader and a swap wait for each other, it is the swap that gives way.
 */
const SWAP_LOCK_MS = 500;
const SWAP_PAUSE_MS = 250;
const SWAP_TRIES = 40;

/** The staging tables take the places of the tables that readers see. `own`: all that the job has. */
export async function publish(client: Client, staged: OwnTable[], own: OwnTable[]): Promise<void> {
  const swaps: Swap[] = [];
  for (const table of staged) {
    if (table.standing.temporary) await publishTemporary(client, table, own);
    else swaps.push(await prepareSwap(client, table));
  }
  await lockForSwap(
    client,
    swaps.map(({ old, inPlace }) => ({
      table: old,
      mode: inPlace ? 'SHARE ROW EXCLUSIVE' : 'ACCESS EXCLUSIVE',
    })),
  );
  for (const swap of swaps) {
    await (swap.inPlace ? replaceRows(client, swap) : exchange(client, swap));
    await forgetOwnTable(client, swap.own);
  }
}

interface Swap {
  own: OwnTable;
  staged: TableRecord;
  old: TableRecord;
  /** The rows go into the old table, which stays, because something is attached to it. */
  inPlace: boolean;
}

async function prepareSwap(client: Client, own: OwnTable): Promise<Swap> {
  const { name } = own;
  const staged = await stagedTable(client, own);
  let old = await findTable(client, name, true);
  if (!old) {
    // An empty table first: it gets the rights that new tables of the space have by default.
    await createSchema(client, name.space);
    await client.query(`CREATE TABLE ${qualified(name.space, name.table)} ()`);
    old = await findTable(client, name, true);
  }
  if (!old) throw new StoreUnavailable({ problem: `the table ${sqlName(staged)} went away meanwhile` });
  if (!isTable(old)) {
    const problem = `it is a ${old.kind}, whose place no table can take`;
    throw new DatabaseRefusal({ table: name, problem });
  }
  const attached = await attachedTo(client, old.oid);
  if (attached.length > 0) checkInPlace(name, { old, staged, attached });
  return { own, staged, old, inPlace: attached.length > 0 };
}

async function stagedTable(client: Client, { name, relation }: OwnTable): Promise<TableRecord> {
  const staged = await findRelation(client, { schema: OWN_SCHEMA, relation, name, books: true });
  if (!staged) throw new StoreUnavailable({ problem: `its staging table ${relation} is missing` });
  return staged;
}

function isTable({ kind }: TableRecord): boolean {
  return kind === 'table' || kind === 'partitioned';
}

function checkInPlace(
  table: TableName,
  { old, staged, attached }: { old: TableRecord; staged: TableRecord; attached: string[] },
): void {
  const shapes = [old, staged].map(({ columns }) =>
    columns
      .map(({ name, sqlType }) => JSON.stringify([name, sqlType]))
      .toSorted()
      .join(),
  );
  if (shapes[0] === shapes[1]) return;
  const problem =
    `its columns change, so that it would have to be replaced; but there is ${attached.slice(0, 5).join(', ')}. ` +
    'Remove that first, or keep the columns as they are';
  throw new ColumnsError({ table, column: null, problem });
}

/** What people have attached to a table, and what would be lost with it. */
async function attachedTo(client: Client, oid: string): Promise<string[]> {
  const text = `
    SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid) AS what
    FROM pg_depend d JOIN pg_class c ON c.oid = $1 JOIN pg_type t ON t.oid = c.reltype
    LEFT JOIN pg_class i ON d.classid = 'pg_class'::regclass AND i.oid = d.objid
    LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
    WHERE (d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid
        OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (t.oid, t.typarray))
      AND d.deptype IN ('n', 'a') AND d.objid <> t.typarray
      AND coalesce(i.relname !~ '^millrace_', true) AND coalesce(k.conname !~ '^millrace_' AND k.contype <> 'n', true)
    UNION ALL SELECT 'row level security' FROM pg_class WHERE oid = $1 AND relrowsecurity
    UNION ALL SELECT 'partitions of it' FROM pg_class WHERE oid = $1 AND relkind = 'p'
    UNION ALL SELECT 'NOT NULL of column ' || quote_ident(attname) FROM pg_attribute
      WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attnotnull AND attidentity = ''`;
  return (await rowsOf<{ what: string }>(client, { text }, [oid])).map(({ what }) => what);
}

interface TableLock {
  table: TableRecord;
  /** The first of them lets others read. */
  mode: 'SHARE ROW EXCLUSIVE' | 'ACCESS EXCLUSIVE';
}

/** Waits for others, but never for long at a time; what waits behind the lock goes on in between. */
export async function lockForSwap(client: Client, locks: TableLock[]): Promise<void> {
  if (locks.length === 0) return;
  const statements = locks.map(({ table, mode }) => `LOCK TABLE ${sqlName(table)} IN ${mode} MODE`);
  await client.query('SAVEPOINT swap');
  for (let tries = 1; ; tries++) {
    try {
      await client.query(`SET LOCAL lock_timeout = ${SWAP_LOCK_MS}; ${statements.join('; ')}`);
      break;
    } catch (error) {
      if (!hasCode(error, '55P03', '40P01')) throw error;
      await client.query('ROLLBACK TO SAVEPOINT swap');
      if (tries < SWAP_TRIES) await delay(SWAP_PAUSE_MS);
      else throw new StoreUnavailable({ problem: busyProblem(locks) });
    }
  }
}

function busyProblem(locks: TableLock[]): string {
  const names = locks.map(({ table }) => sqlName(table)).join(', ');
  return `${names} is read or written by somebody all the time`;
}

/**
 * Readers that wait for the lock look the name up again, and find the new table. The exception are transactions of
 * REPEATABLE READ that began before and read the table only now: they do not see rows that are younger than they are.
 */
async function exchange(client: Client, { own, staged, old }: Swap): Promise<void> {
  const { space, table } = own.name;
  await carryRights(client, { from: old, to: staged });
  await carryComment(client, { from: old, to: staged });
  await client.query(`DROP TABLE ${sqlName(old)}`);
  await forgetReplacements(client, old.oid);
  await client.query(`ALTER TABLE ${sqlName(staged)} SET SCHEMA ${quote(space)}`);
  await client.query(`ALTER TABLE ${qualified(space, own.relation)} RENAME TO ${quote(table)}`);
}

/** Slower, and the old rows are left to VACUUM; but views, indexes, triggers and policies stay. */
async function replaceRows(client: Client, { own, staged, old }: Swap): Promise<void> {
  const references = await client.query(
    "SELECT 1 FROM pg_constraint WHERE contype = 'f' AND confrelid = $1 AND conrelid <> $1",
    [old.oid],
  );
  if (references.rowCount !== 0) {
    const problem =
      'rows of other tables refer to its rows by a foreign key, so that they cannot be replaced';
    throw new DatabaseRefusal({ table: own.name, problem });
  }
  const names = old.columns.map(({ name }) => quote(name)).join(', ');
  const order = staged.numbered ? 'ORDER BY "__row__"' : '';
  await client.query(`DELETE FROM ${sqlName(old)}`);
  await client.query(
    `INSERT INTO ${sqlName(old)} (${names}) SELECT ${names} FROM ${sqlName(staged)} ${order}`,
  );
  await client.query(`DROP TABLE ${sqlName(staged)}`);
  await countReplacement(client, old.oid);
}

async function publishTemporary(client: Client, table: OwnTable, own: OwnTable[]): Promise<void> {
  const old = own.find(({ name, standing }) => isSame(name, table.name) && !standing.staged);
  if (old) await dropOwn(client, old);
  await showOwnTable(client, table);
}

export function isSame(one: TableName, other: TableName): boolean {
  return one.space === other.space && one.table === other.table;
}

export async function dropOwn(client: Client, table: OwnTable): Promise<void> {
  await client.query(`DROP TABLE IF EXISTS ${qualified(OWN_SCHEMA, table.relation)}`);
  await forgetOwnTable(client, table);
}
