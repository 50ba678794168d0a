import assert from 'node:assert/strict';
import { KeyError, StoreUnavailable, UnknownTable } from '../table-errors.ts';
import type { SourceRows, TableName, TableStore } from '../table-store.ts';
import { beginStep, column, newTable, rowsOf, type Cases, valuesOf } from './place.ts';

const columns = [column('integer')];

async function filled(store: TableStore, count: number, table = newTable(), from = 0): Promise<TableName> {
  const rows = JSON.stringify(Array.from({ length: count }, (_, at) => ({ x: from + at })));
  assert.equal(await store.writeRows({ table, columns, mode: 'append', rows }), count);
  return table;
}
async function drain(rows: SourceRows, size: number): Promise<number[]> {
  const seen: number[] = [];
  for (let batch = await rows.nextBatch(size); batch; batch = await rows.nextBatch(size)) {
    const read = JSON.parse(batch.rows) as { x: number }[];
    assert.equal(read.length, batch.count);
    seen.push(...read.map(({ x }) => x));
  }
  assert.equal(await rows.nextBatch(size), null);
  await rows.close();
  return seen;
}

export const readingCases: Cases = {
  'keyset pages hold every row once, in the order of loading': async ({ store }) => {
    const table = await filled(store, 95);
    for (const limit of [1, 10, 19, 94, 95, 96, 1000]) {
      const seen: unknown[] = [];
      let after: string | null = null;
      do {
        const page = await store.read(table, { after, limit });
        const rows = JSON.parse(page.rows) as { x: number }[];
        assert.equal(rows.length, page.count);
        assert.ok(page.count > 0 && page.count <= limit);
        assert.deepEqual(page.columns, columns);
        seen.push(...rows.map(({ x }) => x));
        after = page.next;
      } while (after !== null);
      assert.deepEqual(
        seen,
        Array.from({ length: 95 }, (_, at) => at),
      );
    }
  },

  'a page ends early before it grows too large': async ({ store }) => {
    const table = newTable();
    const rows = Array.from({ length: 6 }, () => ({ text: 'x'.repeat(1000) }));
    await store.writeRows({ table, columns: null, mode: 'append', rows: JSON.stringify(rows) });
    const page = await store.read(table, { limit: 100, maxBytes: 2500 });
    assert.equal(page.count, 2);
    const rest = await store.read(table, { limit: 100, after: page.next });
    assert.equal(rest.count, 4);
    assert.equal((await store.read(table, { limit: 100, maxBytes: 1 })).count, 1);
    const snapshot = await store.openSnapshot(table);
    assert.equal((await snapshot.nextBatch(100, 2500))?.count, 2);
    assert.equal((await snapshot.nextBatch(100))?.count, 4);
    await snapshot.close();
  },

  'keys that do not belong to the table as it is are refused': async ({ store }) => {
    const table = await filled(store, 3);
    const { next } = await store.read(table, { limit: 1 });
    for (const after of ['', '1', 'x-1', "1-1' OR 1=1", `${next} `, '-1--1']) {
      await assert.rejects(store.read(table, { limit: 1, after }), KeyError);
    }
    await store.writeRows({ table, columns: null, mode: 'replace', rows: '[{"x":9}]' });
    await assert.rejects(store.read(table, { limit: 1, after: next }), /was replaced since/);
    await assert.rejects(store.openSnapshot(table, { after: next }), KeyError);
    await assert.rejects(store.read(newTable(), { limit: 1 }), UnknownTable);
    await assert.rejects(store.openSnapshot(newTable()), UnknownTable);
    await assert.rejects(store.count(newTable()), UnknownTable);
    await assert.rejects(store.read(table, { limit: 0 }), /at least one row/);
  },

  'a snapshot stays as it was while rows are added, changed, replaced and dropped': async ({ store }) => {
    const table = await filled(store, 50);
    const all = Array.from({ length: 50 }, (_, at) => at);
    const open = () => store.openSnapshot(table);
    const snapshots: SourceRows[] = [await open()];
    const firsts = [await snapshots[0]?.nextBatch(10)];
    await filled(store, 10, table, 1000);
    snapshots.push(await open());
    await store.writeRows({ table, columns, mode: 'merge', keys: ['x'], rows: '[{"x":1},{"x":77}]' });
    await store.writeRows({ table, columns, mode: 'replace', rows: '[{"x":-1}]' });
    snapshots.push(await open());
    await store.dropTable(table);
    assert.equal(firsts[0]?.count, 10);
    assert.deepEqual(await drain(snapshots[0] as SourceRows, 7), all.slice(10));
    const more = Array.from({ length: 10 }, (_, at) => 1000 + at);
    assert.deepEqual(await drain(snapshots[1] as SourceRows, 1000), [...all, ...more]);
    assert.deepEqual(await drain(snapshots[2] as SourceRows, 1), [-1]);
  },

  'a job that is resumed goes on after its last row, and sees no rows added since': async ({
    store,
    reopen,
  }) => {
    const table = await filled(store, 20);
    const before = await store.openSnapshot(table);
    const until = before.lastKey;
    const after = (await before.nextBatch(8))?.keys.at(-1) ?? null;
    await before.close();
    await filled(store, 5, table, 500);
    const other = await reopen();
    const resumed = await other.openSnapshot(table, { after, until });
    assert.equal(resumed.lastKey, until);
    assert.deepEqual(
      await drain(resumed, 5),
      Array.from({ length: 12 }, (_, at) => 8 + at),
    );
    await other.close();
    const empty = await store.openSnapshot(await filled(store, 0));
    assert.equal(await empty.nextBatch(5), null);
    await empty.close();
    await empty.close();
    await assert.rejects(empty.nextBatch(1), StoreUnavailable);
  },

  'writing rows: append, merge and replace': async ({ store }) => {
    const table = await filled(store, 2);
    assert.equal(await store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":2,"y":1}]' }), 1);
    assert.deepEqual(await rowsOf(store, table), [{ x: 0 }, { x: 1 }, { x: 2 }]);
    await store.writeRows({ table, columns: null, mode: 'append', widen: true, rows: '[{"x":3,"y":1}]' });
    assert.deepEqual(await valuesOf(store, table, 'y'), [null, null, null, 1]);
    assert.equal(
      await store.writeRows({
        table,
        columns: null,
        mode: 'merge',
        keys: ['x'],
        rows: '[{"x":3,"y":4},{"x":9}]',
      }),
      2,
    );
    assert.deepEqual((await rowsOf(store, table)).slice(3), [
      { x: 3, y: 4 },
      { x: 9, y: null },
    ]);
    const bad = store.writeRows({ table, columns: null, mode: 'replace', rows: '[{"x":1},{"x":"z"}]' });
    await assert.rejects(bad, /row 2 .*"x" \(integer\)/);
    assert.equal(await store.count(table), 5);
    await store.writeRows({ table, columns: null, mode: 'replace', rows: '[{"x":7,"z":1}]' });
    assert.deepEqual(await rowsOf(store, table), [{ x: 7, y: null }]);
    await store.writeRows({ table, columns: [column('string', 'z')], mode: 'replace', rows: '[{"z":1}]' });
    assert.deepEqual(await rowsOf(store, table), [{ z: '1' }]);
  },

  'whoever reads while a table is swapped sees the old or the new one, whole': async ({ store }) => {
    const table = newTable();
    const size = 40;
    const page = (x: number) => Array.from({ length: size }, () => ({ x }));
    await store.writeRows({ table, columns, mode: 'append', rows: JSON.stringify([...page(0), ...page(0)]) });
    const swaps = { done: false };
    const seen = new Set<unknown>();
    const read = async () => {
      while (!swaps.done) {
        const snapshot = await store.openSnapshot(table);
        const values = (await drain(snapshot, 1000)).concat((await valuesOf(store, table)) as number[]);
        for (const part of [values.slice(0, 2 * size), values.slice(2 * size)]) {
          assert.equal(part.length, 2 * size);
          assert.equal(new Set(part).size, 1);
          seen.add(part[0]);
        }
      }
    };
    const swap = async () => {
      for (let x = 1; x <= 25; x++) {
        const step = await beginStep(store);
        await step.commit({ table, columns, mode: 'createThenAppend', rows: page(x) });
        await step.commit({ table, columns, mode: 'createThenAppend', rows: page(x) });
        await step.finish();
      }
      swaps.done = true;
    };
    await Promise.all([swap(), read(), read()]);
    assert.ok(seen.size > 2, `only ${seen.size} tables were seen`);
  },
};
