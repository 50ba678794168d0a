import { fittedColumns, wantedColumns, type PreparedLoad } from '../../load-plan.ts';
import { checkKeys } from '../../names.ts';
import type { Row } from '../../row-cells.ts';
import { UnknownTable } from '../../table-errors.ts';
import type { TableName } from '../../table-store.ts';
import { addOwnTable, type OwnTable, type Standing } from './bookkeeping.ts';
import {
  createTable,
  findRelation,
  findTable,
  sqlName,
  type StoredColumn,
  type TableRecord,
} from './catalog.ts';
import type { InferredColumn } from '../../column-types.ts';
import type { Client } from './connections.ts';
import { copyText, sendCopy } from './copy.ts';
import { mergeRows } from './merge.ts';
import { OWN_SCHEMA, ownName, POSTGRES_CAPABILITIES, tableLockKey } from './names.ts';
import { isSame } from './publish.ts';
import { widenTable } from './widen.ts';

/** Whose load it is, and the job's own tables as they are by now. */
export interface Loading {
  jobId: string;
  step: string;
  own: OwnTable[];
}

/**
 * Those who change a table do it one after the other: so rows are numbered in the order in which they become visible,
 * two merges of one key insert it once, and a table is not swapped under a load. All at once and in one order, so that
 * no two of them wait for each other. Readers are not held up.
 */
export async function lockTables(client: Client, names: TableName[]): Promise<void> {
  const keys = [...new Set(names.map(tableLockKey))].toSorted((a, b) => (a < b ? -1 : 1));
  if (keys.length === 0) return;
  await client.query({
    name: 'millrace_lock',
    text: 'SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key',
    values: [keys.map(String)],
  });
}

/** The tables of the loads that others see: what goes to a job's own tables meets nobody. */
export function sharedTables(loads: PreparedLoad[], loading: Loading): TableName[] {
  return loads
    .filter((load) => !load.temporary && load.mode !== 'createThenAppend' && !buildingOf(load, loading))
    .map(({ table }) => table);
}

/** Once a step has begun to build a table anew, all that it loads goes there. */
function buildingOf({ table, temporary }: PreparedLoad, { own, step }: Loading): OwnTable | undefined {
  return own.find(
    ({ name, standing }) =>
      standing.staged && standing.step === step && standing.temporary === temporary && isSame(name, table),
  );
}

/** Finds the table or creates it, gives it the columns that it needs, and inserts or merges the rows. */
export async function loadRows(client: Client, load: PreparedLoad, loading: Loading): Promise<void> {
  const existing = await existingTable(client, load, loading);
  const wanted = wantedColumns(load, existing?.columns, POSTGRES_CAPABILITIES);
  const table = existing
    ? await widenTable(client, existing, fittedColumns(load, existing.columns, wanted, POSTGRES_CAPABILITIES))
    : await newTable(client, load, loading, wanted);
  const columns = columnsToWrite(load, table, wanted);
  const { table: name, rows, mode } = load;
  if (mode === 'merge') {
    const keys = checkKeys(name, load.keys, columns);
    await mergeRows(client, { table, keys, copy: copyText({ table: name, columns, rows, keys }) });
  } else {
    await sendCopy(client, sqlName(table), copyText({ table: name, columns, rows }));
  }
}

async function existingTable(
  client: Client,
  load: PreparedLoad,
  loading: Loading,
): Promise<TableRecord | undefined> {
  const { table, temporary, mode } = load;
  const shown = loading.own.find(
    ({ name, standing }) => temporary && standing.temporary && !standing.staged && isSame(name, table),
  );
  const own = buildingOf(load, loading) ?? (mode === 'createThenAppend' ? undefined : shown);
  if (own) {
    return findRelation(client, { schema: OWN_SCHEMA, relation: own.relation, name: table, books: true });
  }
  return temporary || mode === 'createThenAppend' ? undefined : findTable(client, table, true);
}

async function newTable(
  client: Client,
  { table: name, temporary, mode }: PreparedLoad,
  { jobId, step, own }: Loading,
  columns: InferredColumn[],
): Promise<TableRecord> {
  const staged = mode === 'createThenAppend';
  let at = { schema: name.space, relation: name.table };
  if (staged || temporary) {
    const standing: Standing = { temporary, staged, jobId, step: staged ? step : '' };
    at = { schema: OWN_SCHEMA, relation: ownName() };
    own.push(await addOwnTable(client, { name, relation: at.relation, standing }));
  }
  await createTable(client, at.schema, at.relation, columns);
  const made = await findRelation(client, { ...at, name, books: true });
  if (!made) throw new UnknownTable({ table: name });
  return made;
}

/**
 * Without a model, columns of somebody else's table that the database fills by itself are left to it where no row
 * has them.
 */
function columnsToWrite(
  { columns: model, rows }: PreparedLoad,
  table: TableRecord,
  wanted: InferredColumn[],
): StoredColumn[] {
  const columns = wanted.flatMap(({ name }) => table.columns.find((column) => column.name === name) ?? []);
  if (model) return columns;
  return columns.filter(
    (column) => !column.isGenerated && !(column.hasDefault && isMissing(column.name, rows)),
  );
}

function isMissing(name: string, rows: Row[]): boolean {
  return rows.every((row) => !Object.hasOwn(row, name));
}
