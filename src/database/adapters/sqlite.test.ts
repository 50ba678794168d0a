import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { sqlitePlace } from '../../../test/support/databases.ts';
import { DatabaseUnavailable, isUniqueViolation } from '../database.ts';
import { openSqlite } from './sqlite.ts';

interface Tables {
  item: { id: number; text: string };
}

async function opened(t: TestContext) {
  const { data, remove } = await sqlitePlace();
  const file = join(data, 'test.sqlite');
  const database = openSqlite<Tables>(file);
  t.after(async () => {
    await database.close();
    await remove();
  });
  await database.query.schema
    .createTable('item')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('text', 'text', (column) => column.notNull())
    .execute();
  const count = async () => (await database.query.selectFrom('item').selectAll().execute()).length;
  const insert = (id: number) => database.query.insertInto('item').values({ id, text: 'x' }).execute();
  return { database, file, count, insert };
}

describe('SQLite', () => {
  test('the safe settings are on: WAL, synchronous FULL, foreign keys', async (t) => {
    const { file, insert } = await opened(t);
    await insert(1);
    const other = new DatabaseSync(file);
    t.after(() => other.close());
    assert.equal(other.prepare('PRAGMA journal_mode').get()?.['journal_mode'], 'wal');
  });

  test('statements that share a commit are independent: one that fails leaves the others alone', async (t) => {
    const { insert, count } = await opened(t);
    const outcomes = await Promise.allSettled([insert(1), insert(2), insert(1), insert(3)]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
    );
    assert.ok(isUniqueViolation((outcomes[2] as PromiseRejectedResult).reason));
    assert.equal(await count(), 3);
  });

  test('a transaction has the database to itself; others wait, and none starves', async (t) => {
    const { database, insert, count } = await opened(t);
    let last = 100;
    const transactions = Array.from({ length: 20 }, () =>
      database.query.transaction().execute(async (transaction) => {
        const before = await transaction.selectFrom('item').selectAll().execute();
        await transaction
          .insertInto('item')
          .values({ id: (last += 1), text: 'x' })
          .execute();
        const after = await transaction.selectFrom('item').selectAll().execute();
        assert.equal(after.length, before.length + 1, 'nobody wrote in between');
      }),
    );
    await Promise.all([...transactions, ...Array.from({ length: 50 }, (_, id) => insert(id))]);
    assert.equal(await count(), 70);
  });

  test('a transaction that fails leaves nothing, and the next one works', async (t) => {
    const { database, insert, count } = await opened(t);
    const failing = database.query.transaction().execute(async (transaction) => {
      await transaction.insertInto('item').values({ id: 1, text: 'x' }).execute();
      throw new Error('changed my mind');
    });
    await assert.rejects(failing, /changed my mind/);
    assert.equal(await count(), 0);
    await insert(1);
    assert.equal(await count(), 1);
  });

  test('what another process writes is seen; both can write', async (t) => {
    const { file, insert, count } = await opened(t);
    const other = new DatabaseSync(file, { timeout: 5000 });
    t.after(() => other.close());
    for (let id = 0; id < 20; id += 2) {
      other.prepare('insert into item values (?, ?)').run(id, 'other');
      await insert(id + 1);
    }
    assert.equal(await count(), 20);
  });

  test('a file that cannot be opened: every statement fails, none hangs', async (t) => {
    const { data, remove } = await sqlitePlace();
    t.after(remove);
    const database = openSqlite<Tables>(join(data, 'missing-folder', 'test.sqlite'));
    const read = () => database.query.selectFrom('item').selectAll().execute();
    await assert.rejects(read(), DatabaseUnavailable);
    await assert.rejects(read(), DatabaseUnavailable);
    await assert.rejects(
      database.query.transaction().execute(async () => {}),
      DatabaseUnavailable,
    );
  });
});
