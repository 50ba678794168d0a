import { Worker } from 'node:worker_threads';
import {
  CompiledQuery,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type DatabaseConnection,
  type Driver,
  type QueryResult,
} from 'kysely';
import { DatabaseUnavailable, type Database, type Outcome } from '../database.ts';
import type { StatementOutcome, WorkerRequest } from './sqlite-worker.ts';

export function openSqlite<T>(file: string): Database<T> {
  const driver = new SqliteDriver(file);
  const kysely = new Kysely<T>({
    dialect: {
      createDriver: () => driver,
      createAdapter: () => new SharedSqliteAdapter(),
      createQueryCompiler: () => new SqliteQueryCompiler(),
      createIntrospector: (db) => new SqliteIntrospector(db),
    },
  });
  return {
    kind: 'sqlite',
    place: file,
    query: kysely,
    run: <Row>(sql: string, parameters: readonly unknown[]) =>
      driver.run(sql, parameters) as Promise<Outcome<Row>>,
    capabilities: { concurrentTransactions: false, tableSuffix: 'strict', bigint: 'integer', blob: 'blob' },
    close: async () => {
      await kysely.destroy();
      await driver.destroy(); // Kysely leaves alone what was never used through it
    },
  };
}

/** Kysely would let only one query in at a time; here the driver queues them, to commit them together. */
class SharedSqliteAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

class SqliteError extends Error {
  override readonly name = 'SqliteError';
  readonly errcode: number | undefined;
  constructor(message: string, errcode: number | undefined) {
    super(message);
    this.errcode = errcode;
  }
}

interface QueuedStatement {
  sql: string;
  parameters: readonly unknown[];
  resolve: (outcome: Outcome) => void;
  reject: (error: Error) => void;
}

/**
 * What waits for the thread: single statements, and transactions, which have the thread to themselves.
 * Statements that wait together are committed together: with a commit each, the disk would set the pace
 * (0.25 ms a durable insert); this way 64 callers issue tokens at several times that rate.
 */
class SqliteDriver implements Driver {
  readonly #worker: Worker;
  readonly #statements: QueuedStatement[] = [];
  readonly #transactions: (() => void)[] = [];
  #underWay: ((outcomes: StatementOutcome[]) => void) | undefined;
  #inTransaction = false;
  #transactionsTurn = false;
  #failure: Error | undefined;
  #closing = false;

  constructor(file: string) {
    this.#worker = new Worker(new URL('./sqlite-worker.ts', import.meta.url), { workerData: { file } });
    this.#worker.on('message', (outcomes: StatementOutcome[]) => {
      const settle = this.#underWay;
      this.#underWay = undefined;
      settle?.(outcomes);
      this.#pump();
    });
    this.#worker.on('error', (error) => this.#fail(error as Error));
    this.#worker.on('exit', () => this.#fail(new Error('the database was closed')));
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return new SqliteConnection(this);
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await new Promise<void>((granted) => {
      this.#transactions.push(granted);
      this.#pump();
    });
    (connection as SqliteConnection).inTransaction = true;
    try {
      // IMMEDIATE: a transaction that reads first and writes later would otherwise fail where another
      // process has written in between.
      await connection.executeQuery(CompiledQuery.raw('begin immediate'));
    } catch (error) {
      this.#endTransaction(connection);
      throw error;
    }
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('commit'));
    this.#endTransaction(connection);
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await connection.executeQuery(CompiledQuery.raw('rollback'));
    } finally {
      this.#endTransaction(connection);
    }
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {
    if (this.#failure) return;
    this.#closing = true;
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage('close');
    await exited;
  }

  /** Outside of a transaction: waits for its turn and shares a commit with its neighbours. */
  run(sql: string, parameters: readonly unknown[]): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#statements.push({ sql, parameters, resolve, reject });
      // In a microtask, so that all statements of one turn of the event loop go together.
      queueMicrotask(() => this.#pump());
    });
  }

  /** Inside a transaction: nothing else is under way. */
  async runInTransaction(sql: string, parameters: readonly unknown[]): Promise<Outcome> {
    const [outcome] = await this.#send({ mode: 'single', statements: [{ sql, parameters }] });
    const result = this.#resultOf(outcome);
    if (result instanceof Error) throw result;
    return result;
  }

  #send(request: WorkerRequest): Promise<StatementOutcome[]> {
    return new Promise((settle) => {
      this.#underWay = settle;
      if (this.#failure) this.#settleAsFailed();
      else this.#worker.postMessage(request);
    });
  }

  #pump(): void {
    if (this.#underWay || this.#inTransaction) return;
    // By turns, so that neither kind can starve the other.
    const transactionFirst = this.#transactionsTurn || this.#statements.length === 0;
    if (transactionFirst && this.#transactions.length > 0) this.#grantTransaction();
    else if (this.#statements.length > 0) this.#sendGroup();
  }

  #grantTransaction(): void {
    this.#transactionsTurn = false;
    this.#inTransaction = true;
    this.#transactions.shift()?.();
  }

  #sendGroup(): void {
    this.#transactionsTurn = true;
    const group = this.#statements.splice(0);
    const mode = group.every(isRead) ? 'single' : 'group';
    const statements = group.map(({ sql, parameters }, index) => {
      return { sql: sql === group[index - 1]?.sql ? null : sql, parameters };
    });
    void this.#send({ mode, statements }).then((outcomes) => {
      for (const [index, { resolve, reject }] of group.entries()) {
        const result = this.#resultOf(outcomes[index]);
        if (result instanceof Error) reject(result);
        else resolve(result);
      }
    });
  }

  #endTransaction(connection: DatabaseConnection): void {
    (connection as SqliteConnection).inTransaction = false;
    this.#inTransaction = false;
    this.#pump();
  }

  #fail(error: Error): void {
    this.#failure ??= this.#closing ? new Error('the database was closed') : error;
    this.#settleAsFailed();
    this.#pump();
  }

  #settleAsFailed(): void {
    const settle = this.#underWay;
    this.#underWay = undefined;
    settle?.([]);
  }

  /** undefined: the thread ended before it answered. */
  #resultOf(outcome: StatementOutcome | undefined): Outcome | Error {
    if (outcome === undefined) {
      return new DatabaseUnavailable(`the database is not available: ${this.#failure?.message}`);
    }
    if (typeof outcome === 'number') return { rows: [], changes: outcome };
    if (Array.isArray(outcome)) return { rows: outcome, changes: 0 };
    return new SqliteError(outcome.error, outcome.errcode);
  }
}

function isRead({ sql }: QueuedStatement): boolean {
  return sql.startsWith('select ');
}

class SqliteConnection implements DatabaseConnection {
  readonly #driver: SqliteDriver;
  inTransaction = false;

  constructor(driver: SqliteDriver) {
    this.#driver = driver;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const { rows, changes } = this.inTransaction
      ? await this.#driver.runInTransaction(sql, parameters)
      : await this.#driver.run(sql, parameters);
    return { rows: rows as R[], numAffectedRows: BigInt(changes) };
  }

  // oxlint-disable-next-line require-yield -- the records are read in keyset pages, never streamed
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('streaming is not supported: read in keyset pages');
  }
}
