import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { beginStep, column, rowsOf, valuesOf } from '../../conformance/place.ts';
import { ColumnsError, DatabaseRefusal } from '../../table-errors.ts';
import type { TableStore } from '../../table-store.ts';
import { postgresSkip, postgresPlace, type PostgresPlace } from './test-place.ts';

const orders = { space: 'shop', table: 'orders' };
const columns = [column('integer'), column('string', 'text')];

function rowsWith(x: number, count = 200): string {
  return JSON.stringify(Array.from({ length: count }, () => ({ x, text: `of ${x}` })));
}

async function replace(store: TableStore, x: number): Promise<void> {
  const step = await beginStep(store);
  const load = { table: orders, columns, mode: 'createThenAppend' as const, rows: rowsWith(x, 100) };
  await step.commit(load);
  await step.commit(load);
  await step.finish();
}

/** Reads all the time, each time as a new statement: what it sees is one table, whole. */
async function readAllTheTime(place: PostgresPlace, sql: string, until: { done: boolean }): Promise<number> {
  const client = await place.connect();
  const seen = new Set<number>();
  while (!until.done) {
    const { rows } = await client.query<{ n: string; least: number; most: number }>(
      `SELECT count(*) AS n, min(x)::int AS least, max(x)::int AS most FROM ${sql}`,
    );
    assert.equal(rows[0]?.n, '200');
    assert.equal(rows[0].least, rows[0].most);
    seen.add(rows[0].least);
  }
  return seen.size;
}

describe('Swapping tables in PostgreSQL', { skip: postgresSkip }, () => {
  test('whoever reads by SQL never waits in vain, and sees the old or the new table whole', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await store.writeRows({ table: orders, columns, mode: 'append', rows: rowsWith(0) });
    const until = { done: false };
    const readers = [1, 2, 3].map(() => readAllTheTime(place, 'shop.orders', until));
    for (let x = 1; x <= 30; x++) await replace(store, x);
    until.done = true;
    const seen = await Promise.all(readers);
    assert.ok(Math.max(...seen) > 2, `only ${seen.join(', ')} tables were seen`);
  });

  test('the same through a view, which stays', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await store.writeRows({ table: orders, columns, mode: 'append', rows: rowsWith(0) });
    await place.execute('CREATE VIEW shop.seen AS SELECT x FROM shop.orders');
    const until = { done: false };
    const readers = [1, 2].map(() => readAllTheTime(place, 'shop.seen', until));
    for (let x = 1; x <= 20; x++) await replace(store, x);
    until.done = true;
    const seen = await Promise.all(readers);
    assert.ok(Math.max(...seen) > 2, `only ${seen.join(', ')} tables were seen`);
    assert.equal(await store.count({ space: 'shop', table: 'seen' }), 200);
  });

  test('a reader that stays holds up the swap, but nobody else', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await store.writeRows({ table: orders, columns, mode: 'append', rows: rowsWith(0) });
    const long = await place.connect();
    await long.query('BEGIN; SELECT 1 FROM shop.orders');
    const swapped = replace(store, 1);
    for (let at = 0; at < 20; at++) {
      const others = await store.count(orders);
      assert.equal(others, 200);
      await delay(50);
    }
    await long.query('COMMIT');
    await swapped;
    assert.equal((await rowsOf(store, orders))[0]?.['x'], 1);
  });

  test('rights, owner and comment go over to the new table', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    const [reader, owner] = [await place.createRole('reader'), await place.createRole('owner')];
    await store.writeRows({ table: orders, columns, mode: 'append', rows: rowsWith(0) });
    await place.execute(`
      GRANT CREATE, USAGE ON SCHEMA shop TO ${owner};
      ALTER TABLE shop.orders OWNER TO ${owner};
      GRANT SELECT ON shop.orders TO PUBLIC;
      GRANT INSERT, DELETE ON shop.orders TO ${reader} WITH GRANT OPTION;
      GRANT UPDATE (text) ON shop.orders TO ${reader};
      COMMENT ON TABLE shop.orders IS 'What''s ordered'`);
    const rights = `SELECT r.rolname AS owner, obj_description(c.oid) AS comment,
      (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(c.relacl) a) AS rights,
      (SELECT attacl::text FROM pg_attribute WHERE attrelid = c.oid AND attname = 'text') AS of_column
      FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = 'shop.orders'::regclass`;
    const before = await place.execute(rights);
    await replace(store, 1);
    assert.deepEqual(await place.execute(rights), before);
    await place.execute('REVOKE ALL ON shop.orders FROM PUBLIC');
    await place.execute('ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC');
    const revoked = await place.execute(rights);
    await replace(store, 2);
    assert.deepEqual(await place.execute(rights), revoked, 'what was taken away is not given back');
  });

  test('a table that is new has the rights that its space gives by default', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await place.execute(
      'CREATE SCHEMA shop; ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT ON TABLES TO PUBLIC',
    );
    await replace(store, 1);
    const [row] = await place.execute("SELECT relacl::text AS acl FROM pg_class WHERE relname = 'orders'");
    assert.match((row as { acl: string }).acl, /[{,]=r\//);
  });

  test('what people attached to the table stays, or the swap is refused', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await replace(store, 0);
    await place.execute('CREATE INDEX by_text ON shop.orders (text)');
    const { next } = await store.read(orders, { limit: 1 });
    await replace(store, 1);
    assert.equal((await place.execute("SELECT 1 FROM pg_indexes WHERE indexname = 'by_text'")).length, 1);
    await assert.rejects(store.read(orders, { limit: 1, after: next }), /was replaced since/);
    const step = await beginStep(store);
    await step.commit({ table: orders, mode: 'createThenAppend', rows: [{ other: 1 }] });
    await assert.rejects(step.finish(), (error) => {
      assert.ok(error instanceof ColumnsError);
      assert.match(error.message, /its columns change, .* there is index shop\.by_text/);
      return true;
    });
    assert.deepEqual(new Set(await valuesOf(store, orders)), new Set([1]));
    await place.execute('DROP INDEX shop.by_text');
    await step.finish();
    assert.deepEqual(await rowsOf(store, orders), [{ other: 1 }]);
    await place.execute(
      'ALTER TABLE shop.orders ADD UNIQUE (other); CREATE TABLE shop.part (o bigint REFERENCES shop.orders (other) ON DELETE CASCADE)',
    );
    const write = { table: orders, columns: null, mode: 'replace', rows: '[{"other":2}]' } as const;
    await assert.rejects(store.writeRows(write), (error) => {
      assert.ok(error instanceof DatabaseRefusal);
      assert.match(error.message, /by a foreign key/);
      return true;
    });
  });

  test('no table takes the place of a view', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await place.execute('CREATE SCHEMA shop; CREATE VIEW shop.orders AS SELECT 1 AS x');
    await assert.rejects(replace(store, 1), /it is a view, whose place no table can take/);
    await assert.rejects(store.dropTable(orders), DatabaseRefusal);
  });

  test('where one of the built tables cannot take its place, none does', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    const step = await beginStep(store);
    for (const table of ['first', 'second']) {
      await step.commit({ table: { space: 'shop', table }, mode: 'createThenAppend', rows: [{ x: 1 }] });
    }
    await place.execute('CREATE SCHEMA shop; CREATE VIEW shop.second AS SELECT 1 AS x');
    await assert.rejects(step.finish(), /it is a view/);
    assert.equal(await store.columns({ space: 'shop', table: 'first' }), null);
    await place.execute('DROP VIEW shop.second');
    await step.finish();
    assert.equal(await store.count({ space: 'shop', table: 'second' }), 1);
  });
});
