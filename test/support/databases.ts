import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'node:test';
import pg from 'pg';
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
