import { StoreUnavailable, UnknownTable } from '../../table-errors.ts';
import {
  MAX_PAGE_BYTES,
  type Batch,
  type Column,
  type ReadOptions,
  type RowsPage,
  type SnapshotOptions,
  type SourceRows,
  type TableAsk,
} from '../../table-store.ts';
import { ownTables, type Bookkeeping } from './bookkeeping.ts';
import { findRelation, plainColumns, sqlName, type TableRecord } from './catalog.ts';
import type { Client, Connections, Session, TextRow } from './connections.ts';
import { asTableError, hasCode } from './failures.ts';
import { isTableName } from '../../names.ts';
import { OWN_SCHEMA, POSTGRES_CAPABILITIES, qualified, quote } from './names.ts';
import { isSame } from './publish.ts';
import { cellsOfKey, comparison, keyOf, orderOf, type RowOrder } from './row-keys.ts';
import { RowReader } from './row-reader.ts';

/** Where the table stands that a reader means: the job's own temporary one before that of everybody. */
async function placeForReading(
  client: Client,
  { space, table, jobId }: TableAsk,
  books: boolean,
): Promise<{ schema: string; relation: string }> {
  const own =
    jobId !== undefined && books
      ? (await ownTables(client, jobId)).find(
          ({ standing, name }) => standing.temporary && !standing.staged && isSame(name, { space, table }),
        )
      : undefined;
  return own ? { schema: OWN_SCHEMA, relation: own.relation } : { schema: space, relation: table };
}

export async function findForReading(
  client: Client,
  ask: TableAsk,
  bookkeeping: Bookkeeping,
): Promise<TableRecord | undefined> {
  const name = { space: ask.space, table: ask.table };
  if (!isTableName(name, POSTGRES_CAPABILITIES)) return undefined;
  const books = await bookkeeping.isThere(client);
  const place = await placeForReading(client, ask, books);
  return findRelation(client, { ...place, name, books });
}

/**
 * Nobody changes or swaps the table until the transaction ends: its columns and the rows read after are those of one
 * table. By a statement that reads nothing, because LOCK TABLE does not take views of all kinds.
 */
async function holdTable(client: Client, ask: TableAsk, bookkeeping: Bookkeeping): Promise<TableRecord> {
  const name = { space: ask.space, table: ask.table };
  const unknown = new UnknownTable({ table: name });
  if (!isTableName(name, POSTGRES_CAPABILITIES)) throw unknown;
  const books = await bookkeeping.isThere(client);
  const { schema, relation } = await placeForReading(client, ask, books);
  try {
    await client.query(`SELECT FROM ${qualified(schema, relation)} LIMIT 0`);
  } catch (error) {
    throw hasCode(error, '42P01', '3F000') ? unknown : error;
  }
  const held = await findRelation(client, { schema, relation, name, books });
  if (!held) throw unknown;
  return held;
}

function checkSize(size: number): void {
  if (!Number.isInteger(size) || size < 1) throw new RangeError(`${size} rows: a page has at least one row`);
}

const CURSOR = 'millrace_rows';

interface Selection {
  text: string;
  values: string[];
  keyCells: number;
}

function selection(
  table: TableRecord,
  order: RowOrder,
  { after, until, limit }: { after: string | null; until: string | null; limit?: number },
): Selection {
  const keys = order.parts.map(({ sql }) => sql);
  // A table without columns still has rows.
  const columns = [...keys, ...table.columns.map(({ name }) => quote(name))].join(', ') || 'NULL';
  const from = after === null ? [] : cellsOfKey(table, order, after);
  const to = until === null ? [] : cellsOfKey(table, order, until);
  let text = `SELECT ${columns} FROM ${sqlName(table)}`;
  if (order.kind === 'count') {
    const counted = Number(from[0] ?? 0);
    const most = Math.min(limit ?? Infinity, to[0] === undefined ? Infinity : Number(to[0]) - counted);
    if (counted > 0) text += ` OFFSET ${counted}`;
    if (most < Infinity) text += ` LIMIT ${Math.max(0, most)}`;
    return { text, values: [], keyCells: 0 };
  }
  const conditions = [
    ...(from.length === 0 ? [] : [comparison(order, '>', 1)]),
    ...(until === null ? [] : [to.length === 0 ? 'false' : comparison(order, '<=', 1 + from.length)]),
  ];
  if (conditions.length > 0) text += ` WHERE ${conditions.join(' AND ')}`;
  text += ` ORDER BY ${keys.join(', ')}`;
  if (limit !== undefined) text += ` LIMIT ${limit}`;
  return { text, values: [...from, ...to], keyCells: keys.length };
}

/** Where rows are counted, `before` is how many came before these. */
function keysOf(table: TableRecord, order: RowOrder, keys: TextRow[], before: number): string[] {
  if (order.kind !== 'count') return keys.map((cells) => keyOf(table, order, cells));
  return keys.map((_, at) => keyOf(table, order, [String(before + at + 1)]));
}

function countedBefore(table: TableRecord, order: RowOrder, after: string | null): number {
  return order.kind === 'count' && after !== null ? Number(cellsOfKey(table, order, after)[0]) : 0;
}

export async function readPage(
  connections: Connections,
  bookkeeping: Bookkeeping,
  ask: TableAsk,
  { after = null, limit, maxBytes = MAX_PAGE_BYTES }: ReadOptions,
): Promise<RowsPage> {
  checkSize(limit);
  return connections.transaction('READ ONLY', async (client) => {
    const table = await holdTable(client, ask, bookkeeping);
    const order = orderOf(table);
    // One row more than asked for tells whether there are more.
    const { text, values, keyCells } = selection(table, order, { after, until: null, limit: limit + 1 });
    await client.query(`DECLARE ${CURSOR} NO SCROLL CURSOR FOR ${text}`, values);
    const reader = new RowReader(table.columns, keyCells, (count) => fetchRows(client, count));
    const { rows, keys, more } = await reader.read(limit, maxBytes);
    const before = countedBefore(table, order, after) + keys.length - 1;
    const [next = null] = more ? keysOf(table, order, keys.slice(-1), before) : [];
    return { columns: plainColumns(table.columns), rows, count: keys.length, next };
  });
}

async function fetchRows(client: Client, count: number): Promise<TextRow[]> {
  const text = `FETCH ${count} FROM ${CURSOR}`;
  return (await client.query({ text, rowMode: 'array' })).rows as TextRow[];
}

/** Each has a connection of its own. */
const MOST_SNAPSHOTS = 32;

/**
 * A cursor WITH HOLD: the database writes the rows aside (in memory, else in a temporary file of its own) before the
 * transaction ends. So a job may read for hours without a lock that would hold up loads and swaps, and without an old
 * transaction that would hold up VACUUM.
 */
export async function openSnapshot(
  connections: Connections,
  bookkeeping: Bookkeeping,
  ask: TableAsk,
  { after = null, until = null }: SnapshotOptions,
): Promise<SourceRows> {
  if (connections.openSessions >= MOST_SNAPSHOTS) {
    throw new StoreUnavailable({ problem: `${MOST_SNAPSHOTS} snapshots are open, which is the limit` });
  }
  const session = await connections.openSession();
  const { client } = session;
  try {
    await client.query('BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY');
    const table = await holdTable(client, ask, bookkeeping);
    const order = orderOf(table);
    const last = until ?? (await keyOfLastRow(client, table, order));
    const { text, values, keyCells } = selection(table, order, { after, until: last });
    await client.query(`DECLARE ${CURSOR} NO SCROLL CURSOR WITH HOLD FOR ${text}`, values);
    await client.query('COMMIT');
    return new Snapshot(session, { table, order, keyCells, lastKey: last, after });
  } catch (error) {
    await session.end();
    throw asTableError(error);
  }
}

/** That of no row, before all, where the table is empty. */
async function keyOfLastRow(client: Client, table: TableRecord, order: RowOrder): Promise<string> {
  const from = sqlName(table);
  if (order.kind === 'count') {
    const { rows } = await client.query({ text: `SELECT count(*) FROM ${from}`, rowMode: 'array' });
    return keyOf(table, order, (rows as TextRow[])[0] ?? ['0']);
  }
  const keys = order.parts.map(({ sql }) => sql);
  const backwards = keys.map((sql) => `${sql} DESC`).join(', ');
  const text = `SELECT ${keys.join(', ')} FROM ${from} ORDER BY ${backwards} LIMIT 1`;
  const { rows } = await client.query({ text, rowMode: 'array' });
  return keyOf(table, order, (rows as TextRow[])[0] ?? []);
}

class Snapshot implements SourceRows {
  readonly columns: Column[];
  readonly lastKey: string;
  readonly #session: Session;
  readonly #table: TableRecord;
  readonly #order: RowOrder;
  readonly #reader: RowReader;
  #counted: number;
  #closed = false;

  constructor(
    session: Session,
    opened: { table: TableRecord; order: RowOrder; keyCells: number; lastKey: string; after: string | null },
  ) {
    const { table, order, keyCells, lastKey, after } = opened;
    this.columns = plainColumns(table.columns);
    this.lastKey = lastKey;
    this.#session = session;
    this.#table = table;
    this.#order = order;
    this.#counted = countedBefore(table, order, after);
    this.#reader = new RowReader(table.columns, keyCells, (count) => this.#fetch(count));
  }

  async nextBatch(size: number, maxBytes: number = MAX_PAGE_BYTES): Promise<Batch | null> {
    checkSize(size);
    if (this.#closed) throw new StoreUnavailable({ problem: 'the snapshot is closed' });
    const { rows, keys } = await this.#reader.read(size, maxBytes);
    if (keys.length === 0) return null;
    const batch = { rows, count: keys.length, keys: keysOf(this.#table, this.#order, keys, this.#counted) };
    this.#counted += keys.length;
    return batch;
  }

  async #fetch(count: number): Promise<TextRow[]> {
    try {
      return await fetchRows(this.#session.client, count);
    } catch (error) {
      throw asTableError(error);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#session.end();
  }
}
