import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginStep, column, rowsOf, valuesOf } from '../../conformance/place.ts';
import { CellError, ColumnsError, DatabaseRefusal, KeyError, TableNameError } from '../../table-errors.ts';
import { describeOnMariadb, inMain, openNewPlace } from './test-place.ts';

describeOnMariadb('MariaDB: tables as others see them', () => {
  test('a table has its own name, the types that people expect, and keeps the row number to itself', async (t) => {
    const { store, sql } = await openNewPlace(t);
    const columns = [
      column('integer', 'n'),
      column('decimal', 'd'),
      column('timestamp', 't'),
      column('boolean', 'b'),
      column('binary', 'raw'),
    ];
    const rows = '[{"n":1,"d":"1.50","t":"2024-01-31T10:00:00.25Z","b":true,"raw":"AAE="}]';
    await store.writeRows({ table: inMain('orders'), columns, mode: 'append', rows });
    const [row] = await sql<object[]>(
      'SELECT orders.*, hex(raw) AS bytes, CAST(d AS DECIMAL(10,3)) * 2 AS twice FROM orders',
    );
    const shown = { ...row } as Record<string, unknown>;
    assert.deepEqual(Object.keys(shown), ['n', 'd', 't', 'b', 'raw', 'bytes', 'twice']);
    assert.deepEqual(
      [shown['n'], shown['d'], shown['b'], shown['bytes'], shown['twice']],
      [1n, '1.50', 1, '0001', '3.000'],
    );
    const types = await sql<{ Field: string; Type: string }[]>('SHOW COLUMNS FROM orders');
    assert.deepEqual(
      types.map(({ Field, Type }) => `${Field} ${Type}`),
      ['__row__ bigint(20)', 'n bigint(20)', 'd text', 't datetime(6)', 'b tinyint(1)', 'raw longblob'],
    );
  });

  test("tables of somebody else's are listed, counted and read, every value as it is", async (t) => {
    const { store, sql } = await openNewPlace(t);
    await sql(`CREATE TABLE customers (
      region VARCHAR(8), id INT UNSIGNED ZEROFILL, name VARCHAR(40) CHARACTER SET latin1, price DECIMAL(12,2), rate FLOAT,
      big BIGINT UNSIGNED, active BOOLEAN, born DATE, seen TIMESTAMP NULL, at DATETIME(3), span TIME, kind ENUM('a','b'),
      doc JSON, raw VARBINARY(4), total INT AS (1 + 1) STORED, PRIMARY KEY (region, id)) CHARACTER SET utf8mb4`);
    await sql(`INSERT INTO customers (region, id, name, price, rate, big, active, born, seen, at, span, kind, doc, raw) VALUES
      ('north', 7, 'Zoë', 12.50, 0.1, 18446744073709551615, 1, '1980-02-29', '2024-01-31 10:00:00', '2024-01-31 10:00:00.25', '10:11:12', 'b', '{"a": [1,\n2]}', x'00ff'),
      ('east', 8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`);
    const types =
      'string integer string decimal double decimal boolean date timestamp timestamp string string json binary integer';
    assert.deepEqual((await store.columns(inMain('customers')))?.map(({ type }) => type).join(' '), types);
    assert.equal(await store.count(inMain('customers')), 2);
    assert.ok((await store.tables()).some(({ space, table }) => space === 'main' && table === 'customers'));
    const rows = await rowsOf(store, inMain('customers'));
    assert.deepEqual(
      rows.map(({ region }) => region),
      ['east', 'north'],
    );
    assert.deepEqual(rows[1], {
      region: 'north',
      id: 7,
      name: 'Zoë',
      price: '12.50',
      rate: 0.1,
      big: '18446744073709551615',
      active: true,
      born: '1980-02-29',
      seen: '2024-01-31T10:00:00Z',
      at: '2024-01-31T10:00:00.250Z',
      span: '10:11:12',
      kind: 'b',
      doc: { a: [1, 2] },
      raw: 'AP8=',
      total: 2,
    });
    await sql('UPDATE customers SET active = 2');
    await assert.rejects(rowsOf(store, inMain('customers')), /"active" is tinyint\(1\).* holds 2/);
  });

  test('they are read on by their primary key, or by position where there is none', async (t) => {
    const { store, sql } = await openNewPlace(t);
    await sql('CREATE TABLE keyed (a VARCHAR(20), b INT, c VARBINARY(4), x INT, PRIMARY KEY (a, b, c))');
    await sql("INSERT INTO keyed SELECT CONCAT('k', seq MOD 3), seq, CHAR(seq), seq FROM seq_1_to_40");
    await sql('CREATE TABLE loose (x INT)');
    await sql('INSERT INTO loose SELECT seq FROM seq_1_to_40');
    for (const name of ['keyed', 'loose']) {
      const seen: unknown[] = [];
      let after: string | null = null;
      do {
        const page = await store.read(inMain(name), { after, limit: 7 });
        seen.push(...(JSON.parse(page.rows) as { x: number }[]).map(({ x }) => x));
        after = page.next;
      } while (after !== null);
      assert.equal(seen.length, 40);
      assert.equal(new Set(seen).size, 40);
      const whole = await store.openSnapshot(inMain(name));
      const begun = await whole.nextBatch(15);
      const rest = await store.openSnapshot(inMain(name), {
        after: begun?.keys.at(-1) ?? null,
        until: whole.lastKey,
      });
      assert.equal((await rest.nextBatch(100))?.count, 25);
      await Promise.all([whole.close(), rest.close()]);
    }
    const { next } = await store.read(inMain('keyed'), { limit: 1 });
    await sql('DROP TABLE keyed');
    await sql('CREATE TABLE keyed (a VARCHAR(20), b INT, PRIMARY KEY (b, a))');
    await assert.rejects(store.read(inMain('keyed'), { limit: 1, after: next }), KeyError);
  });

  test('they are appended to and merged into, and what would be changed on the way is refused', async (t) => {
    const { store, sql } = await openNewPlace(t);
    await sql(`CREATE TABLE stock (id INT PRIMARY KEY, name VARCHAR(5), code CHAR(3), price DECIMAL(6,2), at DATETIME,
      kind ENUM('a','b'), small TINYINT, twice INT AS (id * 2) STORED)`);
    const step = await beginStep(store);
    const table = inMain('stock');
    const row = {
      id: 1,
      name: 'five5',
      code: 'abc',
      price: '1234.50',
      at: '2024-01-31T10:00:00Z',
      small: 100,
    };
    await step.commit({ table, rows: [row] });
    await step.commit({
      table,
      mode: 'merge',
      keys: ['id'],
      rows: [
        { ...row, name: 'two' },
        { ...row, id: 2 },
      ],
    });
    assert.deepEqual(await rowsOf(store, table), [
      { ...row, name: 'two', kind: null, twice: 2 },
      { ...row, id: 2, kind: null, twice: 4 },
    ]);
    const faults = {
      name: 'longer',
      code: 'ab ',
      price: '1.234',
      at: '2024-01-31T10:00:00.5Z',
      kind: 'A',
      twice: 1,
    };
    for (const [name, value] of Object.entries(faults)) {
      await assert.rejects(step.commit({ table, rows: [row, { ...row, [name]: value }] }), (error) => {
        assert.ok(error instanceof CellError, String(error));
        assert.deepEqual([error.details.row, error.details.column], [1, name]);
        return true;
      });
    }
    await assert.rejects(step.commit({ table, rows: [{ ...row, id: 3, small: 300 }] }), /'small'/);
    await assert.rejects(
      step.commit({ table, rows: [row] }),
      DatabaseRefusal,
      'its primary key is there already',
    );
    await assert.rejects(
      step.commit({ table, columns: [column('string', 'small')], widen: true, rows: [] }),
      (error) => error instanceof ColumnsError && /the service did not make it/.test(error.message),
    );
    assert.equal(await store.count(table), 2);
  });

  test('views are read; into views and tables without transactions nothing is loaded', async (t) => {
    const { store, sql } = await openNewPlace(t);
    await sql('CREATE TABLE old_style (x INT) ENGINE=MyISAM');
    await sql('INSERT INTO old_style VALUES (1), (2)');
    await sql('CREATE VIEW looks AS SELECT x + 1 AS y FROM old_style');
    assert.deepEqual(await valuesOf(store, inMain('looks'), 'y'), [2, 3]);
    const step = await beginStep(store);
    await assert.rejects(step.commit({ table: inMain('old_style'), rows: [{ x: 1 }] }), /MyISAM/);
    await assert.rejects(step.commit({ table: inMain('looks'), rows: [{ y: 1 }] }), TableNameError);
    await step.commit({ table: inMain('looks'), mode: 'createThenAppend', rows: [{ y: 1 }] });
    await assert.rejects(step.finish(), /it is a view/);
  });
});
