import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'node:test';
import pg from 'pg';
import { createConnection } from 'mariadb';
import { isRequired } from './required.ts';

/** A fresh, empty place for the service's records; `remove` when the test is over. */
export interface Place {
  /** The folder, which every service needs. */
  data: string;
  /** The value of the setting `database`. */
  database: string;
  remove(): Promise<void>;
}

export type DatabaseKind = 'sqlite' | 'postgres';

/** The same tests on each database; where one is missing they are reported as skipped, with the reason. */
export function onEachDatabase(
  name: string,
  tests: (newPlace: () => Promise<Place>, kind: DatabaseKind) => void,
): void {
  describe(`${name} [sqlite]`, () => tests(sqlitePlace, 'sqlite'));
  onPostgres(name, (newPlace) => tests(newPlace, 'postgres'));
}

export function onPostgres(name: string, tests: (newPlace: () => Promise<Place>) => void): void {
  const missing = whyNoPostgres();
  if (missing !== null && isRequired('postgres')) {
    describe(`${name} [postgres]`, () => {
      throw new Error(`MILLRACE_TEST_REQUIRE asks for PostgreSQL: ${missing}`);
    });
    return;
  }
  const skip = missing === null ? false : missing;
  describe(`${name} [postgres]`, { skip }, () => tests(postgresPlace));
}

export async function sqlitePlace(): Promise<Place> {
  const data = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  return { data, database: '', remove: () => rm(data, { recursive: true, force: true }) };
}

async function postgresPlace(): Promise<Place> {
  const server = process.env['TEST_POSTGRES_URL'] as string;
  const name = `millrace_test_${randomBytes(6).toString('hex')}`;
  await execute(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const data = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  return {
    data,
    database: url.href,
    async remove() {
      await execute(server, `drop database ${name} with (force)`);
      await rm(data, { recursive: true, force: true });
    },
  };
}

export interface TestDatabase {
  /** As a user of the service gives it. */
  url: string;
  remove(): Promise<void>;
}

/** A fresh database of PostgreSQL for tables; where there is no server: why. */
export async function postgresDatabase(): Promise<TestDatabase | { missing: string }> {
  const missing = whyNoPostgres();
  if (missing !== null) return missingServer('postgres', missing);
  const { database, remove } = await postgresPlace();
  return { url: database, remove };
}

/** The same of MariaDB. */
export async function mariadbDatabase(): Promise<TestDatabase | { missing: string }> {
  const server = process.env['TEST_MARIADB_URL'];
  if (!server)
    return missingServer('mariadb', process.env['TEST_MARIADB_MISSING'] ?? 'TEST_MARIADB_URL is not set');
  const name = `millrace_test_${randomBytes(6).toString('hex')}`;
  const run = async (statement: string) => {
    const { hostname: host, port, username: user, password } = new URL(server);
    const connection = await createConnection({ host, port: Number(port || 3306), user, password });
    await connection.query(statement);
    await connection.end();
  };
  await run(`create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, remove: () => run(`drop database ${name}`) };
}

function missingServer(kind: string, missing: string): { missing: string } {
  if (isRequired(kind)) throw new Error(`MILLRACE_TEST_REQUIRE asks for ${kind}: ${missing}`);
  return { missing };
}

function whyNoPostgres(): string | null {
  if (process.env['TEST_POSTGRES_URL']) return null;
  return (
    process.env['TEST_POSTGRES_MISSING'] ??
    'TEST_POSTGRES_URL is not set; `npm test` finds or starts a server'
  );
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
