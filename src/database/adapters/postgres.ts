import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { Database, Outcome } from '../database.ts';

const CONNECTIONS = 10;
const CONNECT_TIMEOUT_MS = 5_000;
const IDLE_IN_TRANSACTION_MS = 10_000;

/** All tables of the service stand in a schema of their own, so that data may share the database. */
const SCHEMA = 'millrace';

/** `onIdleError` hears of connections that break while nobody uses them; the pool replaces them by itself. */
export function openPostgres<T>(url: string, onIdleError: (error: Error) => void): Database<T> {
  const pool = new pg.Pool({
    connectionString: url,
    max: CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    // A process that is stopped within a transaction must not hold its rows when another one takes over its jobs.
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    application_name: 'millrace',
    types: { getTypeParser },
  });
  pool.on('error', (error: Error & { client?: unknown }) => {
    delete error.client; // nothing that belongs into a log
    onIdleError(error);
  });
  // One that breaks in use, between two statements of a transaction, would end the process if nobody listened; the
  // next statement rejects with it.
  pool.on('connect', (client) => client.on('error', () => {}));
  const kysely = new Kysely<T>({ dialect: new PostgresDialect({ pool }) });
  return {
    kind: 'postgres',
    place: withoutPassword(url),
    query: kysely.withSchema(SCHEMA),
    run: async <Row>(sql: string, parameters: readonly unknown[]): Promise<Outcome<Row>> => {
      const { rows, rowCount } = await pool.query(sql, [...parameters]);
      return { rows: rows as Row[], changes: rowCount ?? 0 };
    },
    capabilities: { concurrentTransactions: true, tableSuffix: '', bigint: 'bigint', blob: 'bytea' },
    close: async () => {
      await kysely.destroy();
      if (!pool.ending) await pool.end(); // Kysely leaves alone what was never used through it
    },
  };
}

/** The records keep times as bigint milliseconds, which a double holds exactly; pg would give strings. */
function getTypeParser(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (oid === pg.types.builtins.INT8) return Number;
  return pg.types.getTypeParser(oid, format);
}

function withoutPassword(url: string): string {
  const shown = new URL(url);
  if (shown.password) shown.password = '***';
  shown.search = '';
  return shown.href;
}
