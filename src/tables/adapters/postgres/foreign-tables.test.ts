import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { beginStep, column, rowsOf } from '../../conformance/place.ts';
import { CellError, ColumnsError, DatabaseRefusal, RowsError, UnknownTable } from '../../table-errors.ts';
import type { TableStore } from '../../table-store.ts';
import { postgresPlace, postgresSkip } from './test-place.ts';

const there = { space: 'public', table: 'there' };

async function drained(store: TableStore, table = there, size = 3): Promise<unknown[]> {
  const snapshot = await store.openSnapshot(table);
  const rows: unknown[] = [];
  for (let batch = await snapshot.nextBatch(size); batch; batch = await snapshot.nextBatch(size)) {
    rows.push(...(JSON.parse(batch.rows) as unknown[]));
  }
  await snapshot.close();
  return rows;
}

/** Read in pages, and by snapshots that are opened again after each row, as a job does that is resumed. */
async function readInParts(store: TableStore, table = there): Promise<[unknown[], unknown[]]> {
  const [paged, resumed]: [unknown[], unknown[]] = [[], []];
  for (let after: string | null | undefined; after !== null;) {
    const page = await store.read(table, { after: after ?? null, limit: 2 });
    paged.push(...(JSON.parse(page.rows) as unknown[]));
    after = page.next;
  }
  const until = await store.openSnapshot(table);
  for (let after: string | null = null; ;) {
    const snapshot = await store.openSnapshot(table, { after, until: until.lastKey });
    const batch = await snapshot.nextBatch(1);
    await snapshot.close();
    if (!batch) break;
    resumed.push(...(JSON.parse(batch.rows) as unknown[]));
    after = batch.keys[0] ?? null;
  }
  await until.close();
  return [paged, resumed];
}

describe("Others' tables in PostgreSQL", { skip: postgresSkip }, () => {
  test('columns of every type are read, and counted', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await place.execute(`
      CREATE TYPE mood AS ENUM ('fine', 'not so');
      CREATE DOMAIN positive AS int4 CHECK (VALUE > 0);
      CREATE TABLE there (i2 int2, i4 int4, i8 int8, n numeric(10,2), f4 float4, f8 float8, b bool, v varchar(5),
        c char(4), u uuid, d date, ts timestamp, tz timestamptz(0), t time, iv interval, j jsonb, k json, by bytea,
        m mood, a int[], p positive, ip inet, g int4 GENERATED ALWAYS AS (i4 + 1) STORED);
      INSERT INTO there VALUES (1, -2, 9007199254740993, 12.5, 0.1, 1e300, true, 'abc', 'ab',
        'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '2024-02-29', '2024-02-29 10:11:12.25', '2024-02-29 10:11:12+02',
        '10:11', '1 day', '{"b": 1, "a": [true]}', '{"b":1,"a":1.50}', '\\x00ff', 'not so', '{1,2}', 7, '10.0.0.1');
      INSERT INTO there (f4, f8, ts, d, n) VALUES ('NaN', '-Infinity', 'infinity', '0044-03-15 BC', NULL)`);
    const types = Object.fromEntries(
      ((await store.columns(there)) ?? []).map(({ name, type }) => [name, type]),
    );
    assert.deepEqual(types, {
      i2: 'integer',
      i4: 'integer',
      i8: 'bigint',
      n: 'decimal',
      f4: 'double',
      f8: 'double',
      b: 'boolean',
      v: 'string',
      c: 'string',
      u: 'string',
      d: 'date',
      ts: 'timestamp',
      tz: 'timestamp',
      t: 'string',
      iv: 'string',
      j: 'json',
      k: 'json',
      by: 'binary',
      m: 'string',
      a: 'string',
      p: 'integer',
      ip: 'string',
      g: 'integer',
    });
    const [first, second] = (await drained(store)) as Record<string, unknown>[];
    assert.deepEqual(first, {
      i2: 1,
      i4: -2,
      i8: '9007199254740993',
      n: '12.50',
      f4: 0.1,
      f8: 1e300,
      b: true,
      v: 'abc',
      c: 'ab  ',
      u: 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
      d: '2024-02-29',
      ts: '2024-02-29T10:11:12.250Z',
      tz: '2024-02-29T08:11:12Z',
      t: '10:11:00',
      iv: '1 day',
      j: { b: 1, a: [true] },
      k: { b: 1, a: 1.5 },
      by: 'AP8=',
      m: 'not so',
      a: '{1,2}',
      p: 7,
      ip: '10.0.0.1',
      g: -1,
    });
    const { f4, f8, ts, d, n } = second ?? {};
    assert.deepEqual(
      { f4, f8, ts, d, n },
      { f4: 'NaN', f8: '-Infinity', ts: 'infinity', d: '0044-03-15 BC', n: null },
    );
    assert.equal(await store.count(there), 2);
    assert.deepEqual(await store.tables(), [{ ...there, columns: await store.columns(there) }]);
  });

  test('rows are appended and merged; what the database fills by itself is left to it', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await place.execute(`CREATE TABLE there (id serial PRIMARY KEY, code varchar(5) UNIQUE NOT NULL, n int4,
      twice int4 GENERATED ALWAYS AS (n * 2) STORED, at timestamp DEFAULT '2020-01-01')`);
    const step = await beginStep(store);
    await step.commit({
      table: there,
      rows: [
        { code: 'a', n: 1 },
        { code: 'b', n: 2 },
      ],
    });
    await step.commit({
      table: there,
      mode: 'merge',
      keys: ['code'],
      rows: [
        { code: 'b', n: 5 },
        { code: 'c', n: 3, at: '2024-01-01T01:00:00+01:00' },
      ],
    });
    assert.deepEqual(await drained(store), [
      { id: 1, code: 'a', n: 1, twice: 2, at: '2020-01-01T00:00:00Z' },
      { id: 2, code: 'b', n: 5, twice: 10, at: null },
      { id: 3, code: 'c', n: 3, twice: 6, at: '2024-01-01T00:00:00Z' },
    ]);
    await step.commit({ table: there, widen: true, rows: [{ code: 'd', n: 4, more: true }] });
    const types = new Map((await store.columns(there))?.map(({ name, type }) => [name, type]));
    assert.equal(types.get('more'), 'boolean');
  });

  test('what its columns would round or cut is refused by row and column', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await place.execute(
      'CREATE TABLE there (v varchar(3), c char(3), n numeric(5,2), z numeric(5,0), ts timestamp(0), f float4, i int4)',
    );
    const step = await beginStep(store);
    const fitting = {
      v: 'é𝒳x',
      c: 'ab',
      n: '1.500',
      z: 12,
      ts: '2024-01-01T00:00:00.000Z',
      f: 0.1,
      i: -(2 ** 31),
    };
    await step.commit({ table: there, rows: [fitting] });
    const [row] = (await drained(store)) as Record<string, unknown>[];
    assert.deepEqual(row, { ...fitting, c: 'ab ', n: '1.50', z: '12', ts: '2024-01-01T00:00:00Z' });
    const bad = {
      v: 'abc ',
      c: 'abcd',
      n: 1.005,
      z: 0.5,
      ts: '2024-01-01T00:00:00.5Z',
      f: 0.123456789,
      i: 2 ** 31,
    };
    for (const [name, value] of Object.entries(bad)) {
      await assert.rejects(step.commit({ table: there, rows: [{}, { [name]: value }] }), (error) => {
        assert.ok(error instanceof CellError, name);
        assert.deepEqual([error.details.row, error.details.column], [1, name]);
        return true;
      });
    }
    assert.equal(await store.count(there), 1);
  });

  test('what the database refuses names the table, and the row where it can be told', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await place.execute(
      "CREATE TYPE mood AS ENUM ('fine'); CREATE TABLE there (i2 int2 CHECK (i2 > 0), m mood, k int UNIQUE)",
    );
    await place.execute('CREATE VIEW seen AS SELECT * FROM there; CREATE TABLE kept (x int)');
    const step = await beginStep(store);
    for (const bad of [{ i2: -1 }, { m: 'sad' }, { k: 1 }]) {
      const page = step.commit({ table: there, rows: [{ i2: 1, k: 1 }, bad] });
      await assert.rejects(page, (error) => {
        assert.ok(error instanceof RowsError);
        assert.equal(error.details.row, 1);
        assert.match(error.message, /"public"\."there"/);
        return true;
      });
    }
    await assert.rejects(
      step.commit({ table: { ...there, table: 'seen' }, rows: [{ i2: 1 }] }),
      DatabaseRefusal,
    );
    await assert.rejects(store.dropTable(there), /view seen depends on table there/);
    const many = Array.from({ length: 1_200 }, (_, at) => column('integer', `c${at}`));
    const wide = Object.fromEntries(many.map(({ name }) => [name, 1]));
    await assert.rejects(
      step.commit({ table: { ...there, table: 'wide' }, columns: many, rows: [{}, wide] }),
      (error) => error instanceof RowsError && /row is too big/.test(error.message),
    );
  });

  test('they are read in parts by their primary key, else by place, and views by count', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await place.execute(`
      CREATE TABLE there (a text, b timestamptz, x int, PRIMARY KEY (b, a));
      INSERT INTO there SELECT chr(97 + n % 3), '2024-01-01'::timestamptz + (n / 3) * interval '1.5 days', n
        FROM generate_series(0, 7) n;
      CREATE TABLE placed AS SELECT n AS x FROM generate_series(0, 7) n;
      CREATE VIEW seen AS SELECT x FROM placed;
      CREATE MATERIALIZED VIEW written AS SELECT x FROM placed;
      CREATE TABLE parts (x int) PARTITION BY HASH (x);
      CREATE TABLE part0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
      CREATE TABLE part1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
      INSERT INTO parts SELECT x FROM placed; CREATE TABLE empty (x int); CREATE TABLE bare ();
      INSERT INTO bare DEFAULT VALUES`);
    const expected = [0, 1, 2, 3, 4, 5, 6, 7];
    for (const table of ['there', 'placed', 'seen', 'written', 'parts']) {
      for (const rows of await readInParts(store, { space: 'public', table })) {
        const read = (rows as { x: number }[]).map(({ x }) => x);
        assert.deepEqual(
          table === 'parts' ? read.toSorted((one, other) => one - other) : read,
          expected,
          table,
        );
      }
    }
    assert.deepEqual(await readInParts(store, { space: 'public', table: 'empty' }), [[], []]);
    assert.deepEqual(await drained(store, { space: 'public', table: 'bare' }), [{}]);
    const names = (await store.tables()).map(({ table }) => table);
    assert.deepEqual(names, ['bare', 'empty', 'parts', 'placed', 'seen', 'there', 'written']);
  });

  test("the service's own schema and the catalog are no spaces", async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await beginStep(store);
    for (const [space, table] of [
      ['millrace', 'checkpoint'],
      ['pg_catalog', 'pg_class'],
      ['information_schema', 'tables'],
    ] as const) {
      assert.equal(await store.columns({ space, table }), null);
      await assert.rejects(store.read({ space, table }, { limit: 1 }), UnknownTable);
      await assert.rejects(store.openSnapshot({ space, table }), UnknownTable);
      await assert.rejects(store.count({ space, table }), UnknownTable);
      await assert.rejects(store.dropTable({ space, table }), /the space is/);
    }
    assert.deepEqual(await store.tables(), []);
  });

  test('whoever may only read needs no bookkeeping', async (t) => {
    const place = await postgresPlace(t);
    const role = await place.createRole('reader');
    await place.execute(`CREATE TABLE there AS SELECT 1 AS x; GRANT SELECT ON there TO ${role};
      CREATE TABLE hidden (x int); REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
    const url = new URL(place.url);
    url.username = role;
    for (let round = 0; round < 2; round++) {
      const store = place.open({ connectionString: url.href });
      assert.deepEqual(await rowsOf(store, there), [{ x: 1 }]);
      assert.deepEqual(await rowsOf(store, { ...there, jobId: 'job' }), [{ x: 1 }]);
      assert.deepEqual(await drained(store), [{ x: 1 }]);
      assert.deepEqual(
        (await store.tables()).map(({ table }) => table),
        ['there'],
      );
      await assert.rejects(store.count({ ...there, table: 'hidden' }), /permission denied/);
      await assert.rejects(store.claim('job', 'step', 1), DatabaseRefusal);
      // The second round: the bookkeeping is there, and belongs to somebody else.
      await beginStep(place.open(), `job ${round}`);
    }
  });

  test('a table made here has the types that people expect', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    const types = [
      'string',
      'integer',
      'bigint',
      'decimal',
      'double',
      'boolean',
      'date',
      'timestamp',
      'json',
    ] as const;
    const columns = [...types, 'binary' as const].map((type) => column(type, type));
    await store.writeRows({ table: there, columns, mode: 'append', rows: '[]' });
    const text = `SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum) AS types
      FROM pg_attribute WHERE attrelid = 'there'::regclass AND attnum > 1`;
    assert.deepEqual(await place.execute(text), [
      {
        types:
          'text, bigint, bigint, numeric, double precision, boolean, date, timestamp with time zone, json, bytea',
      },
    ]);
    const widened = store.writeRows({
      table: there,
      columns: [column('date', 'json')],
      mode: 'append',
      rows: '[]',
    });
    await assert.rejects(widened, ColumnsError);
  });
});
