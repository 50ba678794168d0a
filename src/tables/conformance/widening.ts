import assert from 'node:assert/strict';
import fc from 'fast-check';
import { COLUMN_TYPES, type ColumnType } from '../table-store.ts';
import { arriving, rowsText } from './arriving.ts';
import { beginStep, column, newTable, rowsOf, type Cases, valuesOf } from './place.ts';

export const wideningCases: Cases = {
  'without a model a new table gets its columns from the rows': async ({ store }) => {
    const table = newTable();
    const row = { i: 1, d: 1.5, s: 'x', b: true, o: { a: 1 }, l: [1], n: null, mixed: 1 };
    const text = JSON.stringify([row, { i: -5, d: 1, mixed: 'x', late: 2 }]).replace(
      '"i":1',
      '"big":9007199254740993,"huge":12345678901234567890,"i":1',
    );
    await (await beginStep(store)).commit({ table, widen: true, rows: text });
    const types = Object.fromEntries(
      ((await store.columns(table)) ?? []).map(({ name, type }) => [name, type]),
    );
    assert.deepEqual(types, {
      big: 'bigint',
      huge: 'decimal',
      i: 'integer',
      d: 'double',
      s: 'string',
      b: 'boolean',
      o: 'json',
      l: 'json',
      n: 'string',
      mixed: 'string',
      late: 'integer',
    });
    const [first] = await rowsOf(store, table);
    assert.deepEqual(first, {
      ...row,
      mixed: '1',
      late: null,
      big: '9007199254740993',
      huge: '12345678901234567890',
    });
  },

  'hints say which strings are the digits of numbers, and that nested values become text': async ({
    store,
  }) => {
    const table = newTable();
    const step = await beginStep(store);
    const inference = { digits: ['id', 'ratio'], nested: 'text' } as const;
    const first = { id: 1, ratio: 0.5, zip: '12', o: { a: 1 }, l: [1] };
    const second = { id: '9007199254740993', ratio: '0.1234567890123456789', zip: '13', o: null, l: 'x' };
    await step.commit({ table, widen: true, inference, rows: JSON.stringify([first]) });
    await step.commit({ table, widen: true, inference, rows: JSON.stringify([second]) });
    assert.deepEqual(await store.columns(table), [
      column('bigint', 'id'),
      column('decimal', 'ratio'),
      ...['zip', 'o', 'l'].map((name) => column('string', name)),
    ]);
    assert.deepEqual(await rowsOf(store, table), [
      { ...first, ratio: '0.5', o: '{"a":1}', l: '[1]' },
      second,
    ]);
  },

  'later pages bring columns and wider types, and what is there stays exact': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    const pages: [string, ColumnType, unknown[]][] = [
      ['1', 'integer', [1]],
      ['9007199254740993', 'bigint', [1, '9007199254740993']],
      ['0.5', 'decimal', ['1', '9007199254740993', '0.5']],
      ['"text"', 'string', ['1', '9007199254740993', '0.5', 'text']],
      ['{"a":1}', 'string', ['1', '9007199254740993', '0.5', 'text', '{"a":1}']],
    ];
    for (const [at, [value, type, expected]] of pages.entries()) {
      await step.commit({ table, widen: true, rows: `[{"x":${value},"column ${at}":${at}}]` });
      const columns = Array.from({ length: at + 1 }, (_, n) => column('integer', `column ${n}`));
      assert.deepEqual(await store.columns(table), [column(type), ...columns]);
      assert.deepEqual(await valuesOf(store, table), expected);
    }
    const rows = await rowsOf(store, table);
    assert.deepEqual(
      rows.map((row) => row['column 2']),
      [null, null, 2, null, null],
    );
  },

  'a column that held only nulls is still free to become any type': async ({ store }) => {
    const values: [unknown, ColumnType][] = [
      [7, 'integer'],
      [true, 'boolean'],
      [[1], 'json'],
      [0.5, 'double'],
      ['x', 'string'],
    ];
    for (const [value, type] of values) {
      const table = newTable();
      const step = await beginStep(store);
      await step.commit({ table, widen: true, rows: [{ x: null }] });
      assert.deepEqual(await store.columns(table), [column('string')]);
      await step.commit({ table, widen: true, rows: [{ x: null }, { x: value }] });
      assert.deepEqual(await store.columns(table), [column(type)]);
      assert.deepEqual(await valuesOf(store, table), [null, null, value]);
    }
    const table = newTable();
    const step = await beginStep(store);
    await step.commit({ table, widen: true, rows: [{ x: null }] });
    await step.commit({ table, rows: [{ x: 'used as text' }] });
    await step.commit({ table, widen: true, rows: [{ x: 5 }] });
    assert.deepEqual(await valuesOf(store, table), [null, 'used as text', '5']);
  },

  'keys given out before a table was widened lead on': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    await step.commit({ table, widen: true, rows: [{ x: 1 }, { x: 2 }, { x: 3 }] });
    const { next } = await store.read(table, { limit: 1 });
    await step.commit({ table, widen: true, rows: [{ x: 'four' }] });
    const { rows } = await store.read(table, { limit: 10, after: next });
    assert.deepEqual(JSON.parse(rows), [{ x: '2' }, { x: '3' }, { x: 'four' }]);
  },

  'values of one type stay exact when a page of another type comes': async ({ store }) => {
    const step = await beginStep(store);
    const types = COLUMN_TYPES.filter((type) => type !== 'string');
    for (const from of types) {
      const values = fc.sample(arriving[from], { numRuns: 60, seed: 11 });
      const table = newTable();
      await step.commit({ table, columns: [column(from)], rows: rowsText(values) });
      await step.commit({ table, widen: true, rows: [{ x: 'text' }] });
      const read = await valuesOf(store, table);
      const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
      assert.deepEqual(read, [...values.map(({ read }) => asText(read)), 'text'], from);
    }
    for (const from of ['integer', 'bigint', 'double'] as const) {
      const values = fc.sample(arriving[from], { numRuns: 60, seed: 12 });
      const table = newTable();
      await step.commit({ table, columns: [column(from)], rows: rowsText(values) });
      await step.commit({ table, widen: true, rows: '[{"x":0.1000000000000000055}]' });
      assert.deepEqual((await store.columns(table))?.[0]?.type, 'decimal');
      const read = await valuesOf(store, table);
      for (const [at, value] of values.entries()) assert.equal(Number(read[at]), Number(value.read));
    }
  },

  'a declared model widens too, where it is asked to': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    await step.commit({ table, columns: [column('integer')], rows: [{ x: 1 }] });
    await step.commit({
      table,
      columns: [column('double'), column('date', 'y')],
      widen: true,
      rows: [{ x: 0.5 }],
    });
    assert.deepEqual(await rowsOf(store, table), [
      { x: 1, y: null },
      { x: 0.5, y: null },
    ]);
  },
};
