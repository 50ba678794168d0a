/** For tests: places on the server of TEST_MARIADB_URL, told apart by the prefix of their databases. */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, type TestContext } from 'node:test';
import { createConnection, type Connection } from 'mariadb';
import type { TableStore } from '../../table-store.ts';
import { openMariadbTables } from '../mariadb.ts';
import { readPlace } from './place.ts';
import { quote } from './sql-names.ts';

/** Tests that need the server: where there is none they are skipped, or fail if it is required. */
export function describeOnMariadb(name: string, tests: () => void): void {
  const missing = process.env['TEST_MARIADB_URL']
    ? null
    : (process.env['TEST_MARIADB_MISSING'] ??
      'TEST_MARIADB_URL is not set; `npm test` finds or starts a server');
  const isRequired = (process.env['MILLRACE_TEST_REQUIRE'] ?? '').split(',').includes('mariadb');
  describe(name, { skip: isRequired ? false : (missing ?? false) }, () => {
    if (missing !== null) throw new Error(`MILLRACE_TEST_REQUIRE asks for MariaDB: ${missing}`);
    tests();
  });
}

export interface MariadbPlace {
  connectionString: string;
  databasePrefix: string;
}

export function openMariadbPlace(place: string): TableStore {
  return openMariadbTables(JSON.parse(place) as MariadbPlace);
}

/** With a user that may do everything in databases of the prefix, and nothing beyond. */
export async function createMariadbPlace(): Promise<{
  place: string;
  settled(): Promise<void>;
  remove(): Promise<void>;
}> {
  const user = `t${randomBytes(4).toString('hex')}`;
  const databasePrefix = `${user}_`;
  const url = new URL(process.env['TEST_MARIADB_URL'] ?? '');
  url.pathname = `/${databasePrefix}main`;
  const asRoot = { connectionString: url.href, databasePrefix };
  const accounts = [`'${user}'@'%'`, `'${user}'@'localhost'`];
  await onServer(asRoot, async (connection) => {
    for (const account of accounts) {
      await connection.query(`CREATE USER ${account} IDENTIFIED BY '${user}'`);
      await connection.query(`GRANT ALL ON \`${user}\\_%\`.* TO ${account}`);
    }
  });
  url.username = user;
  url.password = user;
  const place: MariadbPlace = { connectionString: url.href, databasePrefix };
  return {
    place: JSON.stringify(place),
    settled: () => onServer(asRoot, (connection) => waitUntilGone(connection, user)),
    remove: () =>
      onServer(asRoot, async (connection) => {
        await dropDatabases(connection, databasePrefix);
        for (const account of accounts) await connection.query(`DROP USER ${account}`);
      }),
  };
}

export async function onServer<T>(
  { connectionString }: MariadbPlace,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const { connection: config } = readPlace({ connectionString });
  const connection = await createConnection(config);
  try {
    return await work(connection);
  } finally {
    await connection.end();
  }
}

async function dropDatabases(connection: Connection, prefix: string): Promise<void> {
  const databases = await connection.query<{ name: string }[]>(
    'SELECT SCHEMA_NAME AS name FROM information_schema.SCHEMATA',
  );
  for (const { name } of databases) {
    if (name.startsWith(prefix)) await connection.query(`DROP DATABASE ${quote(name)}`);
  }
}

const SETTLE_MS = 20_000;

/** The connections of a killed process are gone from the server, and with them its transactions and locks. */
async function waitUntilGone(connection: Connection, user: string): Promise<void> {
  const deadline = Date.now() + SETTLE_MS;
  for (;;) {
    const rows = await connection.query<unknown[]>(
      `SELECT 1 FROM information_schema.PROCESSLIST WHERE USER = '${user}'`,
    );
    if (rows.length === 0) return;
    if (Date.now() > deadline) throw new Error('the server still works for a process that was killed');
    await delay(10);
  }
}

export interface Opened {
  store: TableStore;
  place: MariadbPlace;
  /** The database of the space main. */
  main: string;
  sql<T = unknown>(text: string): Promise<T>;
}

export async function openNewPlace(t: TestContext): Promise<Opened> {
  const created = await createMariadbPlace();
  const place = JSON.parse(created.place) as MariadbPlace;
  const store = openMariadbPlace(created.place);
  const main = `${place.databasePrefix}main`;
  t.after(async () => {
    await store.close();
    await created.remove();
  });
  const url = new URL(place.connectionString);
  const server = new URL(process.env['TEST_MARIADB_URL'] ?? '');
  [url.username, url.password] = [server.username, server.password];
  const sql = <T>(text: string) =>
    onServer({ ...place, connectionString: url.href }, async (connection) => {
      await connection.query(`CREATE DATABASE IF NOT EXISTS ${main}`);
      await connection.query(`USE ${main}`);
      return connection.query<T>(text);
    });
  return { store, place, main, sql };
}

export const inMain = (table: string) => ({ space: 'main', table });
