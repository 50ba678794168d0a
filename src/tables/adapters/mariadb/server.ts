import { createConnection, type Connection, type ConnectionConfig } from 'mariadb';
import { setTimeout as delay } from 'node:timers/promises';
import { StoreUnavailable } from '../../table-errors.ts';
import { hasErrno, isDeadlock, translated } from './errors.ts';
import { readFacts, type Place, type ServerFacts } from './place.ts';
import { ConnectionPool } from './pool.ts';

const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 10_000;
/** No statement is silent for longer. */
const SOCKET_TIMEOUT_MS = 1_800_000;
/** A worker that was stopped inside a transaction holds its locks no longer; a page is converted inside one, too. */
const IDLE_TRANSACTION_S = 60;
const ROW_LOCK_WAIT_S = 90;
const TABLE_LOCK_WAIT_S = 60;
/** Whoever waits to change a table holds up its new readers: so it waits briefly, lets them pass, and tries again. */
const DEFINE_LOCK_WAIT_S = 2;
const DEFINE_PAUSE_MS = 50;
const DEFINE_TIMEOUT_MS = 600_000;
const DEFINERS = 2;
const KEEP_AWAKE_MS = 5_000;
const DEADLOCK_TRIES = 10;
function connectionConfig(place: Place, tableLockWait: number, facts?: ServerFacts): ConnectionConfig {
  return {
    ...place.connection,
    ...(facts && { maxAllowedPacket: facts.packetBytes }),
    collation: 'UTF8MB4_BIN',
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAliveDelay: KEEP_ALIVE_MS,
    socketTimeout: SOCKET_TIMEOUT_MS,
    initSql: [
      `SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',
       innodb_strict_mode = OFF, idle_transaction_timeout = ${IDLE_TRANSACTION_S},
       innodb_lock_wait_timeout = ${ROW_LOCK_WAIT_S}, lock_wait_timeout = ${tableLockWait}`,
      'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
    ],
  };
}

/** The connections to one server: some for work in transactions, and a few for what changes tables. */
export class Server {
  readonly place: Place;
  readonly #pool: ConnectionPool;
  readonly #definers: ConnectionPool;
  readonly #running = new Set<Promise<unknown>>();
  readonly #aborts = new Set<() => void>();
  #facts: ServerFacts | undefined;
  #closed: Promise<void> | undefined;

  constructor(place: Place, maxConnections: number) {
    this.place = place;
    const pool = (most: number, tableLockWait: number) =>
      new ConnectionPool(() => connectionConfig(place, tableLockWait, this.#facts), most);
    this.#pool = pool(maxConnections, TABLE_LOCK_WAIT_S);
    this.#definers = pool(DEFINERS, DEFINE_LOCK_WAIT_S);
  }

  /** What one call to the store does, from its beginning to its end. Errors come out as those of tables. */
  call<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable({ problem: 'it was closed' }));
    const running = work().catch((error: unknown) => {
      throw translated(error);
    });
    this.#running.add(running);
    const forget = () => this.#running.delete(running);
    running.then(forget, forget);
    return running;
  }

  /** A failed work leaves no transaction and no lock behind. */
  use<T>(work: (connection: Connection, facts: ServerFacts) => Promise<T>): Promise<T> {
    return this.#use(this.#pool, work);
  }

  /** A transaction; after a deadlock it is tried again from its beginning. Locks by name end with it. */
  transaction<T>(work: (connection: Connection, facts: ServerFacts) => Promise<T>): Promise<T> {
    return this.use(async (connection, facts) => {
      for (let tries = 1; ; tries++) {
        try {
          await connection.query('BEGIN');
          const result = await work(connection, facts);
          await connection.query('COMMIT');
          await connection.query('DO RELEASE_ALL_LOCKS()');
          return result;
        } catch (error) {
          if (!isDeadlock(error) || tries === DEADLOCK_TRIES) throw error;
          await undo(connection);
          await delay(Math.random() * 20 * tries);
        }
      }
    });
  }

  /**
   * Creates, changes or drops tables. That ends a transaction in MariaDB, so it goes over a connection beside the one
   * of the `transaction`, which is kept awake meanwhile: the locks that it holds guard this work.
   */
  async define(transaction: Connection, ...statements: string[]): Promise<void> {
    await this.beside(transaction, async (connection) => {
      for (const sql of statements) await patiently(connection, sql);
    });
  }

  /** Work over such a connection beside the one of the transaction. */
  async beside<T>(transaction: Connection, work: (connection: Connection) => Promise<T>): Promise<T> {
    const finished = new AbortController();
    const awake = keepAwake(transaction, finished.signal);
    try {
      return await this.#use(this.#definers, work);
    } finally {
      finished.abort();
      await awake;
    }
  }

  /** For work that close() cuts off instead of waiting for it. The result takes it back. */
  onClose(abort: () => void): () => void {
    this.#aborts.add(abort);
    return () => this.#aborts.delete(abort);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    for (const abort of this.#aborts) abort();
    await Promise.allSettled(this.#running);
    await Promise.all([this.#pool.close(), this.#definers.close()]);
  }

  async #use<T>(
    pool: ConnectionPool,
    work: (connection: Connection, facts: ServerFacts) => Promise<T>,
  ): Promise<T> {
    let connection: Connection | undefined;
    try {
      const facts = (this.#facts ??= await firstFacts(this.place));
      connection = await pool.take();
      const result = await work(connection, facts);
      pool.give(connection, true);
      return result;
    } catch (error) {
      if (connection) pool.give(connection, await undo(connection));
      throw error;
    }
  }
}

async function firstFacts(place: Place): Promise<ServerFacts> {
  const connection = await createConnection({ ...place.connection, connectTimeout: CONNECT_TIMEOUT_MS });
  try {
    return await readFacts(connection);
  } finally {
    connection.destroy();
  }
}

/** Whether nothing of the failed work is left on the connection. */
async function undo(connection: Connection): Promise<boolean> {
  if (!connection.isValid()) return false;
  return connection.query('ROLLBACK').then(
    () =>
      connection.query('DO RELEASE_ALL_LOCKS()').then(
        () => true,
        () => false,
      ),
    () => false,
  );
}

async function patiently(connection: Connection, sql: string): Promise<void> {
  const deadline = Date.now() + DEFINE_TIMEOUT_MS;
  for (;;) {
    try {
      await connection.query(sql);
      return;
    } catch (error) {
      if (!hasErrno(error, 'ER_LOCK_WAIT_TIMEOUT') || Date.now() > deadline) throw error;
      await delay(DEFINE_PAUSE_MS);
    }
  }
}

/** Where the transaction is lost meanwhile, its own next statement says so. */
async function keepAwake(connection: Connection, signal: AbortSignal): Promise<void> {
  const awake = () => connection.query('DO 0').catch(() => finished);
  const finished = Symbol('finished');
  const pause = () => delay(KEEP_AWAKE_MS, undefined, { signal }).catch(() => finished);
  while ((await pause()) !== finished && (await awake()) !== finished);
}
