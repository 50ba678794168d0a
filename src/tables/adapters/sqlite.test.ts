import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { tableStoreConformance } from '../conformance.ts';
import { beginStep, column, newTable, rowsOf } from '../conformance/place.ts';
import { StoreUnavailable, TableError } from '../table-errors.ts';
import type { TableStore } from '../table-store.ts';
import { openSqliteTables } from './sqlite.ts';

tableStoreConformance({
  name: 'SQLite',
  async createPlace() {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-tables-'));
    return { place: join(folder, 'local.db'), remove: () => rm(folder, { recursive: true }) };
  },
  opener: { module: new URL('./sqlite.ts', import.meta.url).href, exportName: 'openSqliteTables' },
});

async function newFile(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-tables-'));
  t.after(() => rm(folder, { recursive: true }));
  return join(folder, 'application', 'local.db');
}

async function openStore(t: TestContext): Promise<{ store: TableStore; file: string }> {
  const file = await newFile(t);
  const store = openSqliteTables(file);
  t.after(() => store.close());
  return { store, file };
}

test('a table has its own name inside the file, and strict types', async (t) => {
  const { store, file } = await openStore(t);
  const columns = [
    column('integer', 'n'),
    column('decimal', 'd'),
    column('binary', 'b'),
    column('double', 'r'),
  ];
  const rows = '[{"n":1,"d":"1.50","b":"AAE=","r":2},{"n":2}]';
  await store.writeRows({ table: { space: 'main', table: 'orders' }, columns, mode: 'append', rows });
  const database = new DatabaseSync(file, { readOnly: true });
  t.after(() => database.close());
  const read = database.prepare(
    'SELECT n, d, hex(b) AS b, r, typeof(n) || typeof(d) || typeof(b) || typeof(r) AS t FROM "main.orders"',
  );
  assert.deepEqual({ ...read.get() }, { n: 1, d: '1.50', b: '0001', r: 2, t: 'integertextblobreal' });
  const { strict } = database.prepare("SELECT strict FROM pragma_table_list('main.orders')").get() as {
    strict: number;
  };
  assert.equal(strict, 1);
  assert.deepEqual({ ...database.prepare('PRAGMA journal_mode').get() }, { journal_mode: 'wal' });
});

test('the column that numbers the rows is reserved', async (t) => {
  const { store } = await openStore(t);
  const step = await beginStep(store);
  for (const name of ['__row__', '__ROW__']) {
    await assert.rejects(
      step.commit({ table: newTable(), columns: [column('string', name)], rows: [] }),
      /is reserved/,
    );
    await assert.rejects(step.commit({ table: newTable(), rows: [{ [name]: 1 }] }), /is reserved/);
  }
});

test('where one of the built tables cannot take its place, none does', async (t) => {
  const { store } = await openStore(t);
  const names = ['first', 'second'].map((table) => ({ space: 'main', table }));
  const step = await beginStep(store);
  for (const table of names) await step.commit({ table, mode: 'createThenAppend', rows: [{ x: 1 }] });
  await store.writeRows({
    table: { space: 'main', table: 'SECOND' },
    columns: null,
    mode: 'append',
    rows: '[{"x":0}]',
  });
  await assert.rejects(step.finish(), /"second".* differs only in case from "main"\."SECOND"/);
  assert.deepEqual(
    (await store.tables()).map(({ table }) => table),
    ['SECOND'],
  );
  await store.dropTable({ space: 'main', table: 'SECOND' });
  await step.finish();
  assert.deepEqual(
    (await store.tables()).map(({ table }) => table),
    ['first', 'second'],
  );
});

test('an open snapshot neither holds up writing nor swapping, and loads go on beside slow reading', async (t) => {
  const { store } = await openStore(t);
  const table = newTable();
  await store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":1},{"x":2}]' });
  const snapshots = await Promise.all(Array.from({ length: 8 }, () => store.openSnapshot(table)));
  for (let page = 0; page < 20; page++) {
    await store.writeRows({ table, columns: null, mode: page % 2 ? 'replace' : 'append', rows: '[{"x":3}]' });
  }
  for (const snapshot of snapshots) {
    assert.equal((await snapshot.nextBatch(10))?.rows, '[{"x":1},{"x":2}]');
    await snapshot.close();
  }
  assert.deepEqual(await rowsOf(store, table), [{ x: 3 }]);
});

test('snapshots are limited in number, and a failed one leaves nothing open', async (t) => {
  const { store } = await openStore(t);
  const table = newTable();
  await store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":1}]' });
  for (let at = 0; at < 100; at++) await assert.rejects(store.openSnapshot(newTable()), /there is no table/);
  const open = await Promise.all(Array.from({ length: 64 }, () => store.openSnapshot(table)));
  await assert.rejects(store.openSnapshot(table), (error) => {
    assert.ok(error instanceof StoreUnavailable && error.transient);
    assert.match(error.message, /64 snapshots are open/);
    return true;
  });
  await open[0]?.close();
  await (await store.openSnapshot(table)).close();
});

test('a file that is no database, or of a newer version, is refused and left as it is', async (t) => {
  const file = await newFile(t);
  await openSqliteTables(file).close();
  const store = openSqliteTables(file);
  await store.tables();
  await store.close();
  const database = new DatabaseSync(file);
  database.exec('PRAGMA user_version = 99');
  database.close();
  const newer = openSqliteTables(file);
  await assert.rejects(
    newer.tables(),
    (error) => error instanceof TableError && /a newer version/.test(error.message),
  );
  await newer.close();
  const garbage = `${file}.garbage`;
  await writeFile(garbage, 'this is no database at all'.repeat(100));
  const broken = openSqliteTables(garbage);
  await assert.rejects(broken.tables(), /file is not a database/);
  await rm(garbage);
  assert.deepEqual(await broken.tables(), [], 'once the file is out of the way, the store works');
  await broken.close();
});

test('after closing, calls fail and nothing hangs', async (t) => {
  const { store } = await openStore(t);
  await store.tables();
  const pending = store.claim('job', 'step', 1);
  await store.close();
  assert.deepEqual(await pending, { page: 0, cursor: null });
  await assert.rejects(store.tables(), StoreUnavailable);
  await assert.rejects(store.claim('job', 'step', 2), StoreUnavailable);
});
