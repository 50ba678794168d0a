import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { Database } from '../database.ts';

const CONNECTIONS = 10;
const CONNECT_TIMEOUT_MS = 5_000;

/** All tables of the service stand in a schema of their own, so that data may share the database. */
const SCHEMA = 'millrace';

/** `onIdleError` hears of connections that break while nobody uses them; the pool replaces them by itself. */
export function openPostgres<T>(url: string, onIdleError: (error: Error) => void): Database<T> {
  const pool = new pg.Pool({
    connectionString: url,
    max: CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: 'millrace',
    types: { getTypeParser },
  });
  pool.on('error', onIdleError);
  const kysely = new Kysely<T>({ dialect: new PostgresDialect({ pool }) });
  return {
    kind: 'postgres',
    place: withoutPassword(url),
    query: kysely.withSchema(SCHEMA),
    capabilities: { concurrentTransactions: true, tableSuffix: '', bigint: 'bigint', blob: 'bytea' },
    close: () => kysely.destroy(),
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
