import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { sql } from 'kysely';
import { openPostgres } from '../../database/adapters/postgres.ts';
import { openSqlite } from '../../database/adapters/sqlite.ts';
import type { Database } from '../../database/database.ts';
import { onEachDatabase, type Place } from '../../../test/support/databases.ts';
import type { Records } from '../records.ts';
import { DatabaseTooNew, migrate } from './migrate.ts';

onEachDatabase('Migrations', (newPlace) => {
  async function place(t: TestContext): Promise<Place> {
    const made = await newPlace();
    t.after(() => made.remove());
    return made;
  }

  function open(t: TestContext, { data, database: url }: Place): Database<Records> {
    const database = url
      ? openPostgres<Records>(url, () => {})
      : openSqlite<Records>(join(data, 'records.sqlite'));
    t.after(() => database.close());
    return database;
  }

  test('several nodes start at once on an empty database', async (t) => {
    const where = await place(t);
    const nodes = Array.from({ length: 5 }, () => open(t, where));
    await Promise.all(nodes.map(migrate));
    for (const { query } of nodes)
      assert.deepEqual(await query.selectFrom('client').selectAll().execute(), []);
  });

  test('run again, they change nothing', async (t) => {
    const database = open(t, await place(t));
    await migrate(database);
    await database.query
      .insertInto('application')
      .values({ app_id: 'a', name: 'a', created_at: 1 })
      .execute();
    await migrate(database);
    assert.equal((await database.query.selectFrom('application').selectAll().execute()).length, 1);
  });

  test('a database that is newer than the program is refused', async (t) => {
    const database = open(t, await place(t));
    await migrate(database);
    const table =
      database.kind === 'postgres' ? sql.table('millrace.schema_version') : sql.table('schema_version');
    await sql`update ${table} set version = 999`.execute(database.query);
    await assert.rejects(migrate(database), (error: Error) => {
      assert.ok(error instanceof DatabaseTooNew);
      assert.match(
        error.message,
        /schema version 999, this millrace knows up to \d+: start a newer millrace/,
      );
      return true;
    });
  });

  test('times of the far future are exact', async (t) => {
    const database = open(t, await place(t));
    await migrate(database);
    const created_at = Number.MAX_SAFE_INTEGER;
    await database.query.insertInto('application').values({ app_id: 'a', name: 'a', created_at }).execute();
    const row = await database.query.selectFrom('application').selectAll().executeTakeFirstOrThrow();
    assert.equal(row.created_at, created_at);
  });
});
