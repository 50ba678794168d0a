import type { Connection } from 'mariadb';
import { prepareLoad } from '../load-plan.ts';
import { isTableName } from '../names.ts';
import { FencedError, UnknownTable } from '../table-errors.ts';
import {
  MAX_PAGE_BYTES,
  type Checkpoint,
  type Column,
  type PageCommit,
  type PageOutcome,
  type ReadOptions,
  type RowsPage,
  type RowsWrite,
  type SnapshotOptions,
  type SourceRows,
  type StoreCapabilities,
  type TableAsk,
  type TableDescription,
  type TableName,
  type TableStore,
} from '../table-store.ts';
import { Bookkeeping, type OwnTable } from './mariadb/bookkeeping.ts';
import { Catalog, plainColumns, sqlName, type StoredTable } from './mariadb/catalog.ts';
import { hasErrno } from './mariadb/errors.ts';
import { BEGINNING, keyOf, positionOf } from './mariadb/keys.ts';
import { Loader, ownPhysical } from './mariadb/load.ts';
import { readPlace, type MariadbTablesOptions, type ServerFacts } from './mariadb/place.ts';
import { Publisher } from './mariadb/publish.ts';
import { RowReader } from './mariadb/row-reader.ts';
import { Server } from './mariadb/server.ts';
import { SnapshotRows } from './mariadb/snapshot.ts';
import { mariadbCapabilities, quote } from './mariadb/sql-names.ts';

const MAX_CONNECTIONS = 10;

/** The tables in the databases of one MariaDB server; a space is a database. Connects with the first call. */
export function openMariadbTables(options: MariadbTablesOptions): TableStore {
  return new MariadbTables(options);
}

class MariadbTables implements TableStore {
  readonly capabilities: StoreCapabilities;
  readonly #server: Server;
  readonly #catalog: Catalog;
  readonly #bookkeeping: Bookkeeping;
  readonly #loader: Loader;
  readonly #publisher: Publisher;

  constructor(options: MariadbTablesOptions) {
    const place = readPlace(options);
    this.capabilities = mariadbCapabilities(place.prefix);
    this.#server = new Server(place, options.maxConnections ?? MAX_CONNECTIONS);
    this.#catalog = new Catalog(place);
    this.#bookkeeping = new Bookkeeping(place);
    this.#loader = new Loader(this.#server, this.#catalog, this.#bookkeeping, this.capabilities);
    this.#publisher = new Publisher(this.#server, this.#catalog, this.#bookkeeping);
  }

  columns(ask: TableAsk): Promise<Column[] | null> {
    return this.#use(async (connection) => {
      const table = await this.#open(connection, ask);
      await connection.query('COMMIT');
      return table ? plainColumns(table.columns) : null;
    });
  }

  tables(): Promise<TableDescription[]> {
    return this.#use((connection) => this.#catalog.list(connection));
  }

  count(ask: TableAsk): Promise<number> {
    return this.#use(async (connection) => {
      const table = await this.#demand(connection, ask);
      const [row] = await connection.query<{ n: number | bigint }[]>(
        `SELECT count(*) AS n FROM ${sqlName(table)}`,
      );
      await connection.query('COMMIT');
      return Number(row?.n ?? 0);
    });
  }

  jobs(): Promise<string[]> {
    return this.#use(async (connection) => {
      return (await this.#bookkeeping.isThere(connection)) ? this.#bookkeeping.jobs(connection) : [];
    });
  }

  claim(jobId: string, step: string, epoch: number): Promise<Checkpoint | null> {
    return this.#change((connection) => this.#bookkeeping.claim(connection, jobId, step, epoch));
  }

  async commitPage(commit: PageCommit): Promise<PageOutcome> {
    const loads = commit.loads.map((load) => prepareLoad(load, this.capabilities));
    const rowCounts = loads.map(({ rows }) => rows.length);
    return this.#change(async (connection, facts): Promise<PageOutcome> => {
      if (!(await this.#bookkeeping.advance(connection, commit))) {
        await this.#checkRepeated(connection, commit);
        return { outcome: 'repeated', rowCounts };
      }
      await this.#loader.load(connection, facts, loads, commit);
      return { outcome: 'committed', rowCounts };
    });
  }

  async #checkRepeated(connection: Connection, { jobId, step, epoch, page }: PageCommit): Promise<void> {
    const committed = await this.#bookkeeping.pagesCommitted(connection, jobId, step, epoch);
    if (committed !== page + 1) throw new FencedError({ jobId, step, epoch, page });
  }

  finish(jobId: string, step: string, epoch: number): Promise<void> {
    return this.#change(async (connection) => {
      if ((await this.#bookkeeping.pagesCommitted(connection, jobId, step, epoch)) === undefined) {
        throw new FencedError({ jobId, step, epoch, page: null });
      }
      const owns = await this.#bookkeeping.tablesOf(connection, jobId);
      const built = owns.filter(
        ({ standing, committed }) => standing.staged && standing.step === step && committed,
      );
      await this.#publish(connection, built);
    });
  }

  async #publish(connection: Connection, tables: OwnTable[]): Promise<void> {
    await this.#loader.lock(
      connection,
      tables.map(({ name }) => name),
    );
    await this.#publisher.publish(connection, tables);
  }

  abandon(jobId: string): Promise<void> {
    return this.#change(async (connection) => {
      await this.#bookkeeping.forget(connection, jobId);
      await this.#dropOfJob(connection, jobId, ({ standing }) => standing.staged);
    });
  }

  dropTemporary(jobId: string): Promise<void> {
    return this.#change((connection) =>
      this.#dropOfJob(connection, jobId, ({ standing }) => standing.temporary),
    );
  }

  async #dropOfJob(
    connection: Connection,
    jobId: string,
    which: (table: OwnTable) => boolean,
  ): Promise<void> {
    const owns = await this.#bookkeeping.tablesOf(connection, jobId);
    const garbage = await this.#bookkeeping.garbageOf(connection, jobId);
    await this.#publisher.drop(connection, [...owns.filter(which), ...garbage]);
  }

  read(ask: TableAsk, { after = null, limit, maxBytes = MAX_PAGE_BYTES }: ReadOptions): Promise<RowsPage> {
    return this.#use(async (connection) => {
      if (!Number.isInteger(limit) || limit < 1)
        throw new RangeError(`${limit} rows: a page has at least one row`);
      const table = await this.#demand(connection, ask);
      const from = after === null ? BEGINNING : positionOf(table, after);
      const { rows, count, last, more } = await new RowReader(connection, table).read(from, limit, maxBytes);
      await connection.query('COMMIT');
      return { columns: plainColumns(table.columns), rows, count, next: more ? keyOf(table, last) : null };
    });
  }

  openSnapshot(ask: TableAsk, { after = null, until = null }: SnapshotOptions = {}): Promise<SourceRows> {
    return new Promise((resolve, reject) => {
      let opened: SnapshotRows | undefined;
      const receiving = this.#use(async (connection) => {
        const forget = this.#server.onClose(() => connection.destroy());
        try {
          const table = await this.#demand(connection, ask);
          const reader = new RowReader(connection, table);
          const last = until === null ? await reader.last() : positionOf(table, until);
          const from = after === null ? BEGINNING : positionOf(table, after);
          let received = false;
          opened = new SnapshotRows(table, last, () => received || connection.destroy());
          resolve(opened);
          const { spool } = opened;
          await reader.each(from, last, null, (row) => spool.add(row) || spool.drained());
          received = true;
          await connection.query('COMMIT');
        } finally {
          forget();
        }
      });
      receiving.then(
        () => opened?.spool.end(),
        (error: Error) => (opened ? opened.spool.end(error) : reject(error)),
      );
    });
  }

  async writeRows({ table, columns, mode, keys, widen = false, rows }: RowsWrite): Promise<number> {
    const build = mode === 'replace' ? 'createThenAppend' : mode;
    const load = prepareLoad(
      { table, columns, mode: build, ...(keys && { keys }), temporary: false, widen, rows },
      this.capabilities,
    );
    const nobody = { jobId: '', step: '' };
    await this.#server.call(async () => {
      await this.#setUp();
      const written = await this.#server.transaction(async (connection, facts) => {
        const replaced =
          mode === 'replace' && !columns && !widen && (await this.#catalog.find(connection, table));
        // Without a model a table keeps its columns when its rows are replaced.
        const whole = replaced ? { ...load, columns: plainColumns(replaced.columns) } : load;
        return this.#loader.load(connection, facts, [whole], nobody);
      });
      if (written.length === 0) return;
      await this.#server.transaction(async (connection) => {
        await this.#publish(connection, written);
        await this.#dropOfJob(connection, '', () => false);
      });
    });
    return load.rows.length;
  }

  dropTable(name: TableName): Promise<boolean> {
    if (!isTableName(name, this.capabilities)) return Promise.resolve(false);
    return this.#server.call(() =>
      this.#server.transaction(async (connection) => {
        await this.#loader.lock(connection, [name]);
        const table = await this.#catalog.find(connection, name);
        if (!table || table.isView) return false;
        await this.#server.define(connection, `DROP TABLE IF EXISTS ${sqlName(table)}`);
        return true;
      }),
    );
  }

  close(): Promise<void> {
    return this.#server.close();
  }

  #use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#server.call(() => this.#server.use(work));
  }

  /** A transaction that needs the bookkeeping. */
  #change<T>(work: (connection: Connection, facts: ServerFacts) => Promise<T>): Promise<T> {
    return this.#server.call(async () => {
      await this.#setUp();
      return this.#server.transaction(work);
    });
  }

  #setUp(): Promise<void> {
    return this.#server.use((connection) => this.#bookkeeping.setUp(connection));
  }

  async #demand(connection: Connection, ask: TableAsk): Promise<StoredTable> {
    const found = await this.#open(connection, ask);
    if (!found) throw new UnknownTable({ table: { space: ask.space, table: ask.table } });
    return found;
  }

  /**
   * Begins a transaction in which the table stays as it is found. Its first look at the table takes the lock that keeps
   * changes of its columns away; only then the picture of the rows is taken, so the two always belong together.
   */
  async #open(connection: Connection, ask: TableAsk): Promise<StoredTable | undefined> {
    const name = { space: ask.space, table: ask.table };
    if (!isTableName(name, this.capabilities)) return undefined;
    const physical = await this.#physicalOf(connection, ask);
    await connection.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ');
    await connection.query('START TRANSACTION READ ONLY');
    const database = this.#catalog.databaseOf(ask.space);
    try {
      await connection.query(`SELECT 1 FROM ${quote(database)}.${quote(physical)} LIMIT 0`);
    } catch (error) {
      if (!hasErrno(error, 'ER_NO_SUCH_TABLE', 'ER_BAD_DB')) throw error;
      await connection.query('ROLLBACK');
      return undefined;
    }
    return this.#catalog.describe(connection, name, physical);
  }

  /** The job's own temporary table before that of everybody. */
  async #physicalOf(connection: Connection, { space, table, jobId }: TableAsk): Promise<string> {
    if (!jobId || !(await this.#bookkeeping.isThere(connection))) return table;
    const own = (await this.#bookkeeping.tablesOf(connection, jobId)).find(
      ({ name, standing, committed }) =>
        committed && standing.temporary && !standing.staged && name.space === space && name.table === table,
    );
    return own ? ownPhysical(own) : table;
  }
}
