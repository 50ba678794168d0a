import { randomBytes } from 'node:crypto';
import type { Connection } from 'mariadb';
import type { InferredColumn } from '../../column-types.ts';
import { fittedColumns, wantedColumns, type PreparedLoad } from '../../load-plan.ts';
import { checkKeys } from '../../names.ts';
import { ColumnsError, DatabaseRefusal, quoted, TableNameError } from '../../table-errors.ts';
import type { StoreCapabilities, TableName } from '../../table-store.ts';
import {
  createDatabase,
  digest,
  lockNames,
  type Bookkeeping,
  type OwnTable,
  type Standing,
} from './bookkeeping.ts';
import { sqlName, type Catalog, type StoredColumn, type StoredTable } from './catalog.ts';
import { cellsOf, recast, sentText, type Cells } from './cells.ts';
import { checkCase, type ServerFacts } from './place.ts';
import type { Server } from './server.ts';
import { tableDefinition } from './sql-names.ts';
import { widenTable } from './widen.ts';
import { insertRows, mergeIndex, mergeRows } from './write.ts';

/** How long a page waits for another one that loads into the same table. */
const TABLE_WAIT_S = 600;
const REMEMBERED_TABLES = 1_000;

/** A table that a page loads into, and what it becomes for that. */
interface Target {
  name: TableName;
  database: string;
  physical: string;
  stored: StoredTable | undefined;
  own: OwnTable | undefined;
  /** undefined: nothing is there yet, and no load before this one creates it. */
  columns: InferredColumn[] | undefined;
  /** For the merges: what follows CREATE INDEX. */
  indexes: Set<string>;
}

interface PlannedLoad {
  load: PreparedLoad;
  target: Target;
  /** As they stand when this load is written. */
  columns: StoredColumn[];
  keys: string[] | undefined;
  cells: Cells[];
}

export function ownPhysical({ id }: OwnTable): string {
  return `millrace_own_${id}`;
}

/** One writer of a table at a time: rows are numbered in the order in which their pages are committed. */
export function lockName(database: string, table: string): string {
  return `millrace ${digest([database, table]).toString('hex').slice(0, 32)}`;
}

/**
 * Brings rows into tables. In MariaDB whatever creates or changes a table commits by itself, so a page goes in this
 * order: all is planned and every cell converted; then tables are created and widened, which is harmless if the page
 * comes to nothing: an empty table, a column without values; then the rows are inserted in the page's transaction. The
 * locks that the transaction holds (the step's checkpoint, the names of the tables) shut out everybody else meanwhile.
 * A page of 1,000 rows of 10 columns takes twice the CPU time of the bare batch of rows that are there as text, parsing
 * included (12 and 6 us a row), and reaches 0.6 to 0.8 of its rows a second.
 */
export class Loader {
  readonly #server: Server;
  readonly #catalog: Catalog;
  readonly #bookkeeping: Bookkeeping;
  readonly #capabilities: StoreCapabilities;
  /** By the table's identity: the indexes for merges that are known to be there. */
  readonly #indexed = new Map<string, Set<string>>();

  constructor(server: Server, catalog: Catalog, bookkeeping: Bookkeeping, capabilities: StoreCapabilities) {
    this.#server = server;
    this.#catalog = catalog;
    this.#bookkeeping = bookkeeping;
    this.#capabilities = capabilities;
  }

  /** Inside the caller's transaction. The tables of its own that were loaded. */
  async load(
    connection: Connection,
    facts: ServerFacts,
    loads: PreparedLoad[],
    { jobId, step }: { jobId: string; step: string },
  ): Promise<OwnTable[]> {
    for (const { table } of loads) checkCase(facts, table);
    const owns = jobId === '' ? [] : await this.#bookkeeping.tablesOf(connection, jobId);
    const shared = loads.filter(({ mode, temporary }) => mode !== 'createThenAppend' && !temporary);
    await this.lock(
      connection,
      shared.map(({ table }) => table),
    );
    const targets: Target[] = [];
    const planned: PlannedLoad[] = [];
    for (const load of loads) {
      const target = await this.#target(connection, load, { jobId, step }, owns, targets);
      planned.push(this.#plan(load, target, facts));
    }
    for (const target of targets) await this.#prepare(connection, target);
    for (const one of planned) await write(connection, one);
    const loaded = targets.flatMap(({ own }) => own ?? []);
    for (const own of loaded) if (!own.committed) await this.#bookkeeping.markCommitted(connection, own);
    return loaded;
  }

  lock(connection: Connection, tables: TableName[]): Promise<void> {
    const names = tables.map(({ space, table }) => lockName(this.#catalog.databaseOf(space), table));
    return lockNames(connection, names, TABLE_WAIT_S);
  }

  async #target(
    connection: Connection,
    { table, mode, temporary }: PreparedLoad,
    { jobId, step }: { jobId: string; step: string },
    owns: OwnTable[],
    targets: Target[],
  ): Promise<Target> {
    const shown: Standing = { temporary, staged: false, jobId: temporary ? jobId : '', step: '' };
    const staged: Standing = { temporary, staged: true, jobId, step };
    // Once a step has begun to build a table anew, all that it loads goes there.
    const building = find(owns, targets, table, staged);
    if (building) return this.#known(connection, building, targets);
    if (mode === 'createThenAppend') return this.#new(table, staged, owns, targets);
    if (temporary) {
      const there = find(owns, targets, table, shown);
      return there ? this.#known(connection, there, targets) : this.#new(table, shown, owns, targets);
    }
    const met = targets.find(
      ({ own, name }) => !own && name.space === table.space && name.table === table.table,
    );
    if (met) return met;
    const stored = await this.#catalog.find(connection, table);
    if (stored) checkLoadable(stored);
    const database = this.#catalog.databaseOf(table.space);
    return added(targets, { name: table, database, physical: table.table, own: undefined, stored });
  }

  async #known(connection: Connection, own: OwnTable, targets: Target[]): Promise<Target> {
    const met = targets.find((target) => target.own?.id === own.id);
    if (met) return met;
    const physical = ownPhysical(own);
    const stored = await this.#catalog.describe(connection, own.name, physical);
    const database = this.#catalog.databaseOf(own.name.space);
    return added(targets, { name: own.name, database, physical, own, stored });
  }

  #new(name: TableName, standing: Standing, owns: OwnTable[], targets: Target[]): Target {
    const own = { id: newId(), name, standing, committed: false };
    owns.push(own);
    const database = this.#catalog.databaseOf(name.space);
    return added(targets, { name, database, physical: ownPhysical(own), own, stored: undefined });
  }

  #plan(load: PreparedLoad, target: Target, { packetBytes }: ServerFacts): PlannedLoad {
    const existing = target.columns;
    const wanted = wantedColumns(load, existing, this.#capabilities);
    const fitted = existing ? fittedColumns(load, existing, wanted, this.#capabilities) : wanted;
    if (target.stored) checkForeign(target.stored, fitted);
    target.columns = fitted;
    const columns = wanted.map(({ name }) => storedColumn(target, fitted, name));
    const keys = load.mode === 'merge' ? checkKeys(load.table, load.keys, columns) : undefined;
    if (keys && (!target.stored || target.stored.id !== undefined)) {
      target.indexes.add(mergeIndex(sqlName(target), columns, keys));
    }
    const cells = cellsOf(load.table, columns, load.rows, packetBytes, keys);
    return { load, target, columns, keys, cells };
  }

  /** Creates the table, or gives it the columns and indexes that it lacks. */
  async #prepare(connection: Connection, target: Target): Promise<void> {
    const { stored, own, columns = [], indexes } = target;
    const id = stored?.id ?? own?.id ?? newId();
    if (stored) {
      const rebuilt = await widenTable(this.#server, connection, stored, columns);
      if (rebuilt) this.#indexed.delete(id);
    } else {
      await this.#server.beside(connection, async (beside) => {
        if (own) await this.#record(beside, own);
        await createDatabase(beside, target.database);
      });
      await this.#server.define(
        connection,
        `CREATE TABLE ${sqlName(target)} ${tableDefinition(id, columns)}`,
      );
    }
    const made = this.#indexed.get(id) ?? new Set();
    const missing = [...indexes].filter((index) => !made.has(index));
    if (missing.length === 0) return;
    await this.#server.define(connection, ...missing.map((index) => `CREATE INDEX IF NOT EXISTS ${index}`));
    if (this.#indexed.size >= REMEMBERED_TABLES) this.#indexed.clear();
    this.#indexed.set(id, new Set([...made, ...missing]));
  }

  /** Before the table is made, so that it can be found again; in the place of one that no page was committed into. */
  async #record(beside: Connection, own: OwnTable): Promise<void> {
    const { standing, name } = own;
    if (standing.jobId !== '') {
      for (const left of await this.#bookkeeping.tablesOf(beside, standing.jobId)) {
        if (isSame(left, name, standing)) await this.#bookkeeping.discard(beside, left);
      }
    }
    await this.#bookkeeping.add(beside, own);
  }
}

function newId(): string {
  return randomBytes(8).toString('hex');
}

function added(targets: Target[], target: Omit<Target, 'columns' | 'indexes'>): Target {
  const whole = { ...target, columns: target.stored?.columns, indexes: new Set<string>() };
  targets.push(whole);
  return whole;
}

function find(
  owns: OwnTable[],
  targets: Target[],
  name: TableName,
  standing: Standing,
): OwnTable | undefined {
  const isOfThisPage = (own: OwnTable) => targets.some((target) => target.own?.id === own.id);
  return owns.find((own) => isSame(own, name, standing) && (own.committed || isOfThisPage(own)));
}

function isSame(
  own: OwnTable,
  { space, table }: TableName,
  { temporary, staged, jobId, step }: Standing,
): boolean {
  const { name, standing } = own;
  if (name.space !== space || name.table !== table || standing.jobId !== jobId) return false;
  return standing.temporary === temporary && standing.staged === staged && standing.step === step;
}

function checkLoadable({ name, isView, engine }: StoredTable): void {
  if (isView)
    throw new TableNameError({ table: name, problem: 'it is a view, into which no rows are loaded' });
  if (engine === 'InnoDB') return;
  const problem = `its engine is ${engine ?? 'unknown'}; rows are loaded into tables of InnoDB, which has transactions`;
  throw new DatabaseRefusal({ table: name, problem });
}

/** The type of a column that somebody else made stays as it is. */
function checkForeign(stored: StoredTable, fitted: InferredColumn[]): void {
  for (const { name, type, own } of stored.columns) {
    const wanted = fitted.find((column) => column.name === name)?.type;
    if (own || wanted === type) continue;
    const problem = `${quoted(name)} would have to become ${wanted ?? 'another'}, but the service did not make it`;
    throw new ColumnsError({ table: stored.name, column: name, problem });
  }
}

function storedColumn({ stored }: Target, fitted: InferredColumn[], name: string): StoredColumn {
  const column = fitted.find((one) => one.name === name);
  if (!column) throw new Error(`the column ${quoted(name)} was lost while the load was planned`);
  const { own, computed, rule } = stored?.columns.find((one) => one.name === name) ?? NEW_COLUMN;
  return { ...column, own, computed, rule };
}

const NEW_COLUMN = { own: true, computed: false, rule: undefined };

async function write(
  connection: Connection,
  { load, target, columns, keys, cells }: PlannedLoad,
): Promise<void> {
  const now = columns.map(({ name }) => storedColumn(target, target.columns ?? [], name));
  for (const [at, { type }] of columns.entries()) {
    const wider = now[at]?.type ?? type;
    if (wider === type) continue; // else a later load of the page widened the column
    for (const row of cells) {
      const cell = row[at] ?? null;
      row[at] = cell === null ? null : recast(sentText(type, cell), wider);
    }
  }
  const writing = { table: load.table, into: sqlName(target), columns: now, rows: cells };
  if (keys) await mergeRows(connection, writing, keys);
  else await insertRows(connection, writing);
}
