import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSqliteTables } from './adapters/sqlite.ts';
import { beginStep, rowsOf } from './conformance/place.ts';
import { withSpacePrefix } from './space-prefix.ts';

test('two parts of a store see nothing of each other, whatever is done in them', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-tables-'));
  const store = openSqliteTables(join(folder, 'shared.db'));
  t.after(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });
  const [one, other] = [withSpacePrefix(store, 'one/'), withSpacePrefix(store, 'other/')];
  const table = { space: 'main', table: 'orders' };
  const write = { table, columns: null, mode: 'append' as const };
  await one.writeRows({ ...write, rows: '[{"x":1}]' });
  await other.writeRows({ ...write, rows: '[{"x":2}]' });

  const step = await beginStep(one);
  await step.commit({ table, mode: 'createThenAppend', rows: [{ x: 3 }] });
  await step.finish();
  assert.deepEqual(await rowsOf(one, table), [{ x: 3 }]);
  assert.deepEqual(await rowsOf(other, table), [{ x: 2 }]);
  assert.deepEqual(
    (await one.tables()).map(({ space, table: name }) => [space, name]),
    [['main', 'orders']],
  );
  const snapshot = await one.openSnapshot(table);
  assert.equal((await snapshot.nextBatch(10))?.rows, '[{"x":3}]');
  await snapshot.close();
  assert.equal(await one.count(table), 1);
  assert.equal(await one.dropTable(table), true);
  assert.equal(await one.columns(table), null);
  assert.equal(await other.count(table), 1);
});
