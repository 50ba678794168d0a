import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { TableStore } from '../../table-store.ts';
import { openPostgresTables, type PostgresTablesOptions } from '../postgres.ts';

/** For the option `skip` of a test: the reason, or false. Fails where MILLRACE_TEST_REQUIRE asks for PostgreSQL. */
export const postgresSkip = whyNoPostgres();

function whyNoPostgres(): string | false {
  if (process.env['TEST_POSTGRES_URL']) return false;
  const reason =
    process.env['TEST_POSTGRES_MISSING'] ??
    'TEST_POSTGRES_URL is not set; `npm test` finds or starts a server';
  const required = (process.env['MILLRACE_TEST_REQUIRE'] ?? '').split(',').includes('postgres');
  if (required) throw new Error(`MILLRACE_TEST_REQUIRE asks for PostgreSQL: ${reason}`);
  return reason;
}

/** A database of its own on the server of TEST_POSTGRES_URL, dropped by `remove`. */
export async function createPostgresPlace(): Promise<{
  place: string;
  settled(): Promise<void>;
  remove(): Promise<void>;
}> {
  const server = process.env['TEST_POSTGRES_URL'] ?? '';
  const name = `millrace_test_${randomBytes(6).toString('hex')}`;
  await execute(server, `CREATE DATABASE ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    place: url.href,
    async settled() {
      const text = `SELECT 1 FROM pg_stat_activity WHERE datname = '${name}'`;
      while ((await execute(server, text)).length > 0) await delay(5);
    },
    async remove() {
      await execute(server, `DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}

export function openPostgresPlace(connectionString: string): TableStore {
  return openPostgresTables({ connectionString });
}

export interface PostgresPlace {
  url: string;
  open(options?: Partial<PostgresTablesOptions>): TableStore;
  execute(sql: string): Promise<unknown[]>;
  connect(): Promise<pg.Client>;
  /** Roles belong to the whole server: the name that it got. */
  createRole(name: string): Promise<string>;
}

/** Gone when the test is over, with all that was opened. */
export async function postgresPlace(t: TestContext): Promise<PostgresPlace> {
  const { place, remove } = await createPostgresPlace();
  const server = process.env['TEST_POSTGRES_URL'] ?? '';
  const opened: (() => Promise<void>)[] = [];
  const roles: string[] = [];
  t.after(async () => {
    for (const close of opened) await close();
    await remove();
    for (const role of roles) await execute(server, `DROP ROLE ${role}`);
  });
  return {
    url: place,
    open(options) {
      const store = openPostgresTables({ connectionString: place, ...options });
      opened.push(() => store.close());
      return store;
    },
    execute: (sql) => execute(place, sql),
    async connect() {
      const client = new pg.Client({ connectionString: place });
      await client.connect();
      opened.push(() => client.end());
      return client;
    },
    async createRole(name) {
      const role = `${new URL(place).pathname.slice(1)}_${name}`;
      await execute(server, `CREATE ROLE ${role} LOGIN`);
      roles.push(role);
      return role;
    },
  };
}

async function execute(url: string, statement: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const results = (await client.query(statement)) as pg.QueryResult | pg.QueryResult[];
    return [results].flat().at(-1)?.rows ?? [];
  } finally {
    await client.end();
  }
}
