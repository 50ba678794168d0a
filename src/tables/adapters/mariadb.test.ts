import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Connection } from 'mariadb';
import { tableStoreConformance } from '../conformance.ts';
import { beginStep, column, newJob, newTable, valuesOf } from '../conformance/place.ts';
import type { TableStore } from '../table-store.ts';
import { openMariadbTables } from './mariadb.ts';
import {
  createMariadbPlace,
  describeOnMariadb,
  inMain,
  onServer,
  openMariadbPlace,
  openNewPlace,
} from './mariadb/test-place.ts';

describeOnMariadb('Tables in MariaDB', () => {
  tableStoreConformance({
    name: 'MariaDB',
    createPlace: createMariadbPlace,
    opener: {
      module: new URL('./mariadb/test-place.ts', import.meta.url).href,
      exportName: openMariadbPlace.name,
    },
  });
});

describeOnMariadb('MariaDB: swapping and reading', () => {
  test('whoever selects in a loop, with a user and a view of its own, never sees the table missing or half', async (t) => {
    const { store, place, main, sql } = await openNewPlace(t);
    const table = inMain('swapped');
    const page = (x: number) => JSON.stringify(Array.from({ length: 20 }, () => ({ x })));
    await store.writeRows({ table, columns: null, mode: 'append', rows: page(0) });
    await sql('CREATE VIEW watching AS SELECT * FROM swapped');
    const state = { done: false, reads: 0 };
    const reader = onServer(place, async (connection: Connection) => {
      while (!state.done) {
        const source = state.reads++ % 2 ? 'swapped' : 'watching';
        const rows = await connection.query<{ x: bigint }[]>(`SELECT x FROM ${main}.${source}`);
        assert.equal(rows.length, 20);
        assert.equal(new Set(rows.map(({ x }) => x)).size, 1);
      }
    });
    for (let x = 1; x <= 20; x++)
      await store.writeRows({ table, columns: null, mode: 'replace', rows: page(x) });
    state.done = true;
    await reader;
    assert.ok(state.reads > 20);
    const left = await sql<{ name: string }[]>(
      `SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = '${main}' AND TABLE_NAME LIKE 'millrace\\_o%'`,
    );
    assert.deepEqual(left, []);
  });

  test('a finish that was cut off at any point is done again and ends the same', async (t) => {
    const { store, main, sql } = await openNewPlace(t);
    const [one, two] = [inMain('one'), inMain('two')];
    for (const cut of ['before', 'renamed', 'dropped']) {
      await store.writeRows({ table: one, columns: null, mode: 'replace', rows: '[{"x":0}]' });
      await store.dropTable(two);
      const step = await beginStep(store, `job ${cut}`);
      await step.commit(
        { table: one, mode: 'createThenAppend', rows: [{ x: 1 }] },
        { table: two, mode: 'createThenAppend', rows: [{ x: 2 }] },
      );
      const built = await sql<{ id: string; name: string }[]>(
        'SELECT id, name FROM millrace_table ORDER BY name',
      );
      assert.equal(built.length, 2);
      const [first = '', second = ''] = built.map(({ id }) => id);
      if (cut !== 'before') {
        await sql(
          `RENAME TABLE one TO millrace_old_${first}, millrace_own_${first} TO one, millrace_own_${second} TO two`,
        );
      }
      if (cut === 'dropped') await sql(`DROP TABLE millrace_old_${first}`);
      await step.finish();
      await step.finish();
      assert.deepEqual([await valuesOf(store, one), await valuesOf(store, two)], [[1], [2]]);
      await store.abandon(`job ${cut}`);
      const left = await sql<{ name: string }[]>(
        `SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = '${main}' ORDER BY 1`,
      );
      assert.deepEqual(
        left.map(({ name }) => name),
        ['millrace_checkpoint', 'millrace_table', 'one', 'two'],
      );
      assert.deepEqual(await store.jobs(), []);
    }
  });

  test('a large snapshot comes whole and in order, though the table is dropped before it is read', async (t) => {
    const { store } = await openNewPlace(t);
    const table = newTable();
    const size = 3_000;
    const rows = JSON.stringify(Array.from({ length: size }, (_, x) => ({ x, text: 'é'.repeat(1_000) })));
    for (let page = 0; page < 4; page++)
      await store.writeRows({ table, columns: null, mode: 'append', rows });
    const snapshot = await store.openSnapshot(table);
    await store.dropTable(table);
    let seen = 0;
    for (let batch = await snapshot.nextBatch(700); batch; batch = await snapshot.nextBatch(700)) {
      for (const { x } of JSON.parse(batch.rows) as { x: number }[]) assert.equal(x, seen++ % size);
      assert.equal(batch.keys.length, batch.count);
    }
    assert.equal(seen, 4 * size);
    await snapshot.close();
  });

  test('stores that load the same table at the same time number its rows in the order of their commits', async (t) => {
    const { store, place } = await openNewPlace(t);
    const others = [openMariadbTables(place), openMariadbTables(place)];
    t.after(() => Promise.all(others.map((other) => other.close())));
    const table = newTable();
    const seen: unknown[] = [];
    let [after, loading]: [string | null, boolean] = [null, true];
    const load = async (other: TableStore) => {
      const step = await beginStep(other, newJob());
      for (let page = 0; page < 15; page++) {
        await step.commit({
          table,
          columns: [column('integer')],
          rows: Array.from({ length: 200 }, () => ({ x: 1 })),
        });
      }
    };
    const follow = async () => {
      for (;;) {
        const last = !loading;
        if (await store.columns(table)) {
          const snapshot = await store.openSnapshot(table, { after });
          for (let batch = await snapshot.nextBatch(1_000); batch; batch = await snapshot.nextBatch(1_000)) {
            seen.push(...batch.keys);
          }
          after = snapshot.lastKey;
          await snapshot.close();
        }
        if (last) return;
      }
    };
    await Promise.all([Promise.all(others.map(load)).then(() => (loading = false)), follow()]);
    assert.equal(new Set(seen).size, 2 * 15 * 200, 'whoever reads on misses no row');
  });
});
