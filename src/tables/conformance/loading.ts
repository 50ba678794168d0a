import assert from 'node:assert/strict';
import { CellError, ColumnsError, RowsError } from '../table-errors.ts';
import { beginStep, column, newTable, rowsOf, type Cases, valuesOf } from './place.ts';

const ab = [column('integer', 'a'), column('string', 'b')];

export const loadingCases: Cases = {
  'append creates a missing table and adds to one that is there': async ({ store }) => {
    const table = newTable();
    assert.equal(await store.columns(table), null);
    const step = await beginStep(store);
    await step.commit({ table, columns: ab, rows: [{ a: 1, b: 'x' }] });
    await step.commit({ table, columns: ab, rows: [{ a: 2, b: 'y' }] });
    assert.deepEqual(await store.columns(table), ab);
    assert.deepEqual(await rowsOf(store, table), [
      { a: 1, b: 'x' },
      { a: 2, b: 'y' },
    ]);
    assert.equal(await store.count(table), 2);
  },

  'properties that are no column fall away, missing ones are null': async ({ store }) => {
    const table = newTable();
    const rows = [{ b: 'x', c: 9 }, {}, { a: null, b: null }];
    await (await beginStep(store)).commit({ table, columns: ab, rows });
    const nulls = { a: null, b: null };
    assert.deepEqual(await rowsOf(store, table), [{ a: null, b: 'x' }, nulls, nulls]);
  },

  'without a model the columns of the existing table are in force': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    await step.commit({ table, columns: ab, rows: [] });
    await step.commit({ table, rows: [{ a: 1, c: 2 }] });
    assert.deepEqual(await rowsOf(store, table), [{ a: 1, b: null }]);
  },

  'a model that the existing table does not have is an error that names the column': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    await step.commit({ table, columns: ab, rows: [{ a: 1 }] });
    const more = step.commit({ table, columns: [...ab, column('date', 'c')], rows: [] });
    await assert.rejects(more, (error) => error instanceof ColumnsError && error.details.column === 'c');
    const other = step.commit({ table, columns: [column('bigint', 'a')], rows: [] });
    await assert.rejects(other, /"a" is bigint in the model, but integer in the existing table/);
    assert.equal(await store.count(table), 1);
  },

  'pages without rows, tables without columns': async ({ store }) => {
    const [table, empty] = [newTable(), newTable()];
    const step = await beginStep(store);
    await step.commit({ table, columns: ab, rows: [] }, { table: empty, columns: [], rows: [{}, { a: 1 }] });
    assert.deepEqual(await rowsOf(store, table), []);
    assert.deepEqual(await rowsOf(store, empty), [{}, {}]);
    assert.deepEqual(await store.columns(empty), []);
    await step.commit();
    assert.equal(step.page, 2);
  },

  'several tables from one page; the fault of one leaves all as they were': async ({ store }) => {
    const [one, two] = [newTable(), newTable()];
    const step = await beginStep(store);
    await step.commit(
      { table: one, columns: ab, rows: [{ a: 1 }] },
      { table: two, columns: ab, rows: [{ a: 2 }] },
    );
    const bad = [{ a: 3 }, { a: 4, b: 'fine' }, { a: 'five' }, { a: 'six' }];
    const page = step.commit(
      { table: one, columns: ab, rows: [{ a: 9 }] },
      { table: two, columns: ab, rows: bad },
    );
    await assert.rejects(page, (error) => {
      assert.ok(error instanceof CellError);
      assert.equal(error.code, 'cell');
      assert.deepEqual(
        { ...error.details, takes: '' },
        { table: two, row: 2, column: 'a', type: 'integer', value: '"five"', takes: '' },
      );
      assert.match(error.message, /row 3 .*column "a" \(integer\): "five" does not fit/);
      return true;
    });
    assert.deepEqual(await valuesOf(store, one, 'a'), [1]);
    assert.deepEqual(await valuesOf(store, two, 'a'), [2]);
    await step.commit({ table: one, columns: ab, rows: [{ a: 3 }] });
    assert.deepEqual(await valuesOf(store, one, 'a'), [1, 3]);
  },

  'what is no array of objects is an error that names the row': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    const faults: [string, RegExp, number | null][] = [
      ['{"a":1}', /no JSON array/, null],
      ['[{"a":1},', /no valid JSON/, null],
      ["[{'a':1}]", /no valid JSON/, null],
      ['', /no valid JSON/, null],
      ['[{"a":1},7]', /row 2 .*7 is no object/, 1],
      ['[{"a":1},{},null]', /row 3 .*null is no object/, 2],
      ['[["a"]]', /row 1 .*is no object/, 0],
    ];
    for (const [rows, message, row] of faults) {
      await assert.rejects(step.commit({ table, columns: ab, rows }), (error) => {
        assert.ok(error instanceof RowsError);
        assert.match(error.message, message);
        assert.equal(error.details.row, row);
        return true;
      });
    }
    const bytes = Uint8Array.of(0x5b, 0x22, 0xff, 0x22, 0x5d);
    await assert.rejects(step.commit({ table, columns: ab, rows: bytes }), /not valid UTF-8/);
    assert.equal(await store.columns(table), null);
  },

  'rows as bytes, also in the middle of a larger buffer, which stays whole': async ({ store }) => {
    const table = newTable();
    const whole = Buffer.from('###[{"a":1,"b":"é𝒳"}]###');
    const rows = whole.subarray(3, whole.length - 3);
    await (await beginStep(store)).commit({ table, columns: ab, rows });
    assert.deepEqual(await rowsOf(store, table), [{ a: 1, b: 'é𝒳' }]);
    assert.equal(whole.toString().slice(0, 6), '###[{"');
  },

  'pages of many sizes arrive whole and in order': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    const sizes = [1, 2, 24, 25, 26, 249, 250, 251, 999, 1001];
    let next = 0;
    for (const size of sizes) {
      const rows = Array.from({ length: size }, () => ({ a: next++ }));
      await step.commit({ table, columns: ab, rows });
    }
    assert.deepEqual(
      await valuesOf(store, table, 'a'),
      Array.from({ length: next }, (_, at) => at),
    );
  },

  'merge updates the rows of its keys and inserts the others': async ({ store }) => {
    const table = newTable();
    const columns = [
      column('integer', 'id'),
      column('string', 'part'),
      column('string', 'text'),
      column('integer', 'kept'),
    ];
    const step = await beginStep(store);
    const row = (id: number, part: string, text: string | null, kept: number | null) => ({
      id,
      part,
      text,
      kept,
    });
    await step.commit({
      table,
      columns,
      rows: [row(1, 'a', 'one', 10), row(1, 'b', 'two', 20), row(2, 'a', 'three', 30)],
    });
    const rows = [
      { id: 1, part: 'b', text: 'TWO' },
      { id: 3, part: 'a', text: 'new' },
      { id: 3, part: 'a', text: 'last' },
      { id: 2, part: 'a' },
    ];
    await step.commit({ table, columns: columns.slice(0, 3), mode: 'merge', keys: ['id', 'part'], rows });
    const merged = [
      row(1, 'a', 'one', 10),
      row(1, 'b', 'TWO', 20),
      row(2, 'a', null, 30),
      row(3, 'a', 'last', null),
    ];
    assert.deepEqual(await rowsOf(store, table), merged);
    await step.commit({ table, columns, rows: [row(1, 'a', 'again', 11)] });
    await step.commit({
      table,
      columns,
      mode: 'merge',
      keys: ['id', 'part'],
      rows: [row(1, 'a', 'both', 12)],
    });
    const both = (await rowsOf(store, table)).filter(({ text }) => text === 'both');
    assert.equal(both.length, 2, 'rows appended with the same keys are all updated');
  },

  'merge creates a missing table; keys alone are enough': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    const columns = [column('string', 'id')];
    const merge = (...ids: string[]) => ({
      table,
      columns,
      mode: 'merge' as const,
      keys: ['id'],
      rows: ids.map((id) => ({ id })),
    });
    await step.commit(merge('a', 'b', 'a'));
    await step.commit(merge('b', 'c'));
    assert.deepEqual(new Set(await valuesOf(store, table, 'id')), new Set(['a', 'b', 'c']));
    assert.equal(await store.count(table), 3);
  },

  'merge refuses null keys, keys that are no columns, and no keys': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    const merge = (keys: string[] | undefined, rows: unknown[]) =>
      step.commit({ table, columns: ab, mode: 'merge', ...(keys && { keys }), rows });
    for (const row of [{ a: null }, {}]) {
      await assert.rejects(merge(['a'], [{ a: 1 }, row]), (error) => {
        assert.ok(error instanceof CellError);
        assert.deepEqual([error.details.row, error.details.column, error.details.value], [1, 'a', 'null']);
        return true;
      });
    }
    await assert.rejects(merge(['z'], []), /the key "z" is no column/);
    await assert.rejects(merge([], []), ColumnsError);
    await assert.rejects(merge(undefined, []), /merge needs the names of the key columns/);
    assert.equal(await store.columns(table), null);
  },
};
