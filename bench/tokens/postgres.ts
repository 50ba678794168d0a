import { randomBytes } from 'node:crypto';
import pg from 'pg';

const RUNNING_SERVER = 'postgres://postgres@127.0.0.1:5432/postgres';
const CONNECT_TIMEOUT_MS = 2_000;

export interface PostgresDatabase {
  url: string;
  /** Whether a commit waits for the disk; a server for tests may have that switched off. */
  durable: boolean;
}

/** A fresh database, dropped with the stack; or why there is none. */
export async function freshPostgresDatabase(
  stack: AsyncDisposableStack,
): Promise<PostgresDatabase | { missing: string }> {
  const server = process.env['TEST_POSTGRES_URL'] ?? RUNNING_SERVER;
  const name = `millrace_bench_${randomBytes(6).toString('hex')}`;
  let durable: boolean;
  try {
    const [row] = await query<{ durable: boolean }>(
      server,
      `select current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off' as durable`,
    );
    durable = row?.durable === true;
    await query(server, `create database ${name}`);
  } catch (error) {
    return { missing: (error as Error).message || String(error) };
  }
  stack.defer(async () => void (await query(server, `drop database ${name} with (force)`)));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, durable };
}

export async function tokensInPostgres(url: string): Promise<number> {
  const [row] = await query<{ tokens: string }>(url, 'select count(*) as tokens from millrace.token');
  return Number(row?.tokens);
}

async function query<Row extends pg.QueryResultRow>(url: string, statement: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  await client.connect();
  try {
    return (await client.query<Row>(statement)).rows;
  } finally {
    await client.end();
  }
}
