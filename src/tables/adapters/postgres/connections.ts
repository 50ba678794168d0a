import pg from 'pg';
import { StoreUnavailable } from '../../table-errors.ts';
import { asTableError, isConnectionWhole } from './failures.ts';

/** All of it can be sent to a thread. */
export interface ConnectionOptions {
  connectionString: string;
  maxConnections: number;
  ssl?:
    boolean | { ca?: string; cert?: string; key?: string; servername?: string; rejectUnauthorized?: boolean };
}

export type Client = pg.ClientBase;

/** A row of cells as the database writes them. */
export type TextRow = (string | null)[];

const CONNECT_TIMEOUT_MS = 10_000;
/** Bounds a worker that was stopped between the statements of a page: until then its locks hold up others. */
const IDLE_IN_TRANSACTION_MS = 15_000;
const LOCK_TIMEOUT_MS = 30_000;
const STATEMENT_TIMEOUT_MS = 600_000;
/** Where the server does not even say that a statement took too long. */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 30_000;
const KEEPALIVE_S = 30;

const SESSION = `
  SET statement_timeout = ${STATEMENT_TIMEOUT_MS};
  SET lock_timeout = ${LOCK_TIMEOUT_MS};
  SET idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS};
  SET tcp_keepalives_idle = ${KEEPALIVE_S};
  SET tcp_keepalives_interval = 10;
  SET tcp_keepalives_count = 3;
  SET "TimeZone" = 'UTC';
  SET "DateStyle" = 'ISO, YMD';
  SET bytea_output = 'hex';
  SET extra_float_digits = 1;
  SET standard_conforming_strings = on;
  SHOW server_encoding`;

/** Cells stay as the database writes them; what they become is decided by the types of the columns. */
const asText = { getTypeParser: () => (text: string) => text };

/** A bounded pool, and sessions beside it for what needs one of its own for long. */
export class Connections {
  readonly #config: pg.PoolConfig;
  readonly #pool: pg.Pool;
  readonly #onConnectionLost: (error: Error) => void;
  /** Those of the pool that have the settings of SESSION. */
  readonly #prepared = new WeakSet<Client>();
  readonly #sessions = new Set<Session>();
  #closing: Promise<void> | undefined;

  /** `onConnectionLost` hears of connections that break while nobody uses them; they are replaced. */
  constructor(
    { connectionString, maxConnections, ssl }: ConnectionOptions,
    onConnectionLost: (error: Error) => void,
  ) {
    this.#onConnectionLost = onConnectionLost;
    this.#config = {
      connectionString,
      ...(ssl !== undefined && { ssl }),
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_S * 1000,
      query_timeout: ANSWER_TIMEOUT_MS,
      application_name: 'millrace',
      types: asText,
    };
    this.#pool = new pg.Pool({ ...this.#config, max: maxConnections });
    this.#pool.on('error', onConnectionLost);
    // One that breaks between two statements of a transaction: the next statement fails, which is enough.
    this.#pool.on('connect', (client) => client.on('error', () => undefined));
  }

  /** Rejects with table errors alone, but for faults of our own. */
  async use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#closing) throw new StoreUnavailable({ problem: 'it was closed' });
    const client = await this.#pool.connect().catch((error: unknown) => Promise.reject(asTableError(error)));
    let broken = true;
    try {
      if (!this.#prepared.has(client)) await prepareSession(client);
      this.#prepared.add(client);
      const result = await work(client);
      broken = false;
      return result;
    } catch (error) {
      broken = !isConnectionWhole(error);
      throw asTableError(error);
    } finally {
      client.release(broken);
    }
  }

  /** READ COMMITTED, because each statement must see the tables that it has just locked as they are by then. */
  transaction<T>(access: 'READ ONLY' | 'READ WRITE', work: (client: Client) => Promise<T>): Promise<T> {
    return this.use(async (client) => {
      await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED ${access}`);
      try {
        const result = await work(client);
        await client.query('COMMIT');
        return result;
      } catch (error) {
        if (isConnectionWhole(error)) await client.query('ROLLBACK');
        throw error;
      }
    });
  }

  async openSession(): Promise<Session> {
    if (this.#closing) throw new StoreUnavailable({ problem: 'it was closed' });
    const client = new pg.Client(this.#config);
    client.on('error', this.#onConnectionLost);
    const session: Session = {
      client,
      end: async () => {
        if (this.#sessions.delete(session)) await client.end();
      },
    };
    this.#sessions.add(session);
    try {
      await client.connect();
      await prepareSession(client);
      return session;
    } catch (error) {
      await session.end();
      throw asTableError(error);
    }
  }

  get openSessions(): number {
    return this.#sessions.size;
  }

  close(): Promise<void> {
    this.#closing ??= Promise.all([...[...this.#sessions].map(({ end }) => end()), this.#pool.end()]).then(
      () => undefined,
    );
    return this.#closing;
  }
}

export interface Session {
  client: Client;
  end(): Promise<void>;
}

async function prepareSession(client: Client): Promise<void> {
  const results = (await client.query(SESSION)) as unknown as pg.QueryResult<{ server_encoding: string }>[];
  const encoding = results.at(-1)?.rows[0]?.server_encoding;
  if (encoding === 'UTF8') return;
  throw new StoreUnavailable({ problem: `the encoding of the database is ${encoding}; it must be UTF8` });
}

/** Prepared once a connection: for what runs with every page. */
export async function rowsOf<Row extends pg.QueryResultRow>(
  client: Client,
  { name, text }: { name?: string; text: string },
  values: unknown[] = [],
): Promise<Row[]> {
  return (await client.query<Row>({ ...(name !== undefined && { name }), text, values })).rows;
}
