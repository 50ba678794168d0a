import assert from 'node:assert/strict';
import fc from 'fast-check';
import { CellError } from '../table-errors.ts';
import { COLUMN_TYPES, type ColumnType, type TableStore } from '../table-store.ts';
import { arriving, rowsText, type Arriving } from './arriving.ts';
import { CELL_SAMPLES } from './cell-samples.ts';
import { beginStep, column, newTable, type Cases, valuesOf } from './place.ts';

/** Each sample of the type, in one page, and those that do not fit each in a page of their own. */
async function samplesArrive(store: TableStore, type: ColumnType): Promise<void> {
  const table = newTable();
  const columns = [column('string', 'before'), column(type)];
  const step = await beginStep(store);
  const fitting = CELL_SAMPLES[type].filter(([, read]) => read !== null);
  const rows = fitting.map(([value]) => `{"x":${value}}`);
  await step.commit({ table, columns, rows: `[${rows.join(',')},{"x":null},{}]` });
  const page = await store.read(table, { limit: 1000 });
  const expected = [...fitting.map(([, read]) => read), 'null', 'null'];
  assert.equal(page.rows, `[${expected.map((read) => `{"before":null,"x":${read}}`).join(',')}]`);
  for (const [value] of CELL_SAMPLES[type].filter(([, read]) => read === null)) {
    const page = step.commit({ table, columns, rows: `[{"x":null},{"x":${value}},{"x":${value}}]` });
    await assert.rejects(page, (error) => {
      assert.ok(error instanceof CellError, value);
      assert.deepEqual([error.details.row, error.details.column, error.details.type], [1, 'x', type]);
      return true;
    });
  }
  assert.equal(await store.count(table), expected.length);
}

async function anyArrive(store: TableStore, type: ColumnType): Promise<void> {
  const step = await beginStep(store);
  const check = async (values: Arriving[]) => {
    const table = newTable();
    await step.commit({ table, columns: [column(type)], rows: rowsText(values) });
    const read = await valuesOf(store, table);
    assert.deepEqual(
      read,
      values.map((value) => value.read),
    );
    await store.dropTable(table);
  };
  await check(fc.sample(arriving[type], { numRuns: 1000, seed: 7 }));
  await fc.assert(fc.asyncProperty(fc.array(arriving[type], { minLength: 1, maxLength: 30 }), check), {
    numRuns: 20,
  });
}

const byType = Object.fromEntries(
  COLUMN_TYPES.flatMap((type): [string, Cases[string]][] => [
    [
      `${type}: each sample arrives exactly or is refused by row and column`,
      ({ store }) => samplesArrive(store, type),
    ],
    [`${type}: all its own values arrive exactly`, ({ store }) => anyArrive(store, type)],
  ]),
);

export const valueCases: Cases = {
  ...byType,

  'any JSON value in a column of any type arrives or is refused': async ({ store }) => {
    const step = await beginStep(store);
    const values = fc.array(fc.jsonValue({ maxDepth: 2 }), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...COLUMN_TYPES), values, async (type, page) => {
        const table = newTable();
        const rows = page.map((x) => ({ x }));
        try {
          await step.commit({ table, columns: [column(type)], rows });
        } catch (error) {
          assert.ok(error instanceof CellError);
          assert.ok(page[error.details.row] !== null);
          assert.equal(await store.columns(table), null);
          return;
        }
        for (const [at, read] of (await valuesOf(store, table)).entries()) {
          const value = JSON.parse(JSON.stringify(page[at])) as unknown;
          assert.deepEqual(comparable(type, read), comparable(type, value));
        }
      }),
      { numRuns: 150 },
    );
  },

  'the character U+0000 arrives where the store can hold it, and is refused where not': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    const cells: [ColumnType, string][] = [
      ['string', '"\\u0000"'],
      ['string', '"a\\u0000b"'],
      ['json', '"a\\u0000b"'],
      ['json', '{"\\u0000":"\\u0000"}'],
    ];
    for (const [type, text] of cells) {
      const page = step.commit({
        table,
        columns: [column(type)],
        mode: 'createThenAppend',
        rows: `[{"x":${text}}]`,
      });
      if (!store.capabilities.nulCharacters) {
        await assert.rejects(page, CellError);
        continue;
      }
      await page;
      await step.finish();
      assert.deepEqual(await valuesOf(store, table), [JSON.parse(text)]);
    }
    await step.commit({ table: newTable(), columns: [column('string')], rows: '[{"x":"\\\\u0000"}]' });
  },

  'long texts': async ({ store }) => {
    const table = newTable();
    const step = await beginStep(store);
    const ten = 'é𝒳"\\\n0'.repeat(1_300_000);
    assert.ok(Buffer.byteLength(ten) > 10_000_000);
    const columns = [column('string'), column('json', 'j')];
    const half = ten.slice(0, ten.length / 2);
    // In two rows: some servers take no more than 16 MiB at once unless they are told to.
    await step.commit({ table, columns, rows: [{ x: ten }, { j: { half } }] });
    const [one, two] = JSON.parse((await store.read(table, { limit: 2 })).rows) as [
      { x: string },
      { j: { half: string } },
    ];
    assert.ok(one.x === ten && two.j.half === half);
    const many = Array.from({ length: 20 }, (_, at) => ({ x: String(at % 10).repeat(1_000_000) }));
    await step.commit({ table: { ...table, table: `${table.table} many` }, columns, rows: many });
    const read = await valuesOf(store, { ...table, table: `${table.table} many` });
    assert.ok(read.every((text, at) => text === many[at]?.x));
    const broken = step.commit({ table, columns, rows: `[{"x":"${'0'.repeat(10_000_000)}\\ud800"}]` });
    await assert.rejects(broken, (error) => error instanceof CellError && error.message.length < 500);
  },

  'a value nested too deeply to be written is refused by row and column': async ({ store }) => {
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    const step = await beginStep(store);
    for (const type of ['json', 'string'] as const) {
      const page = step.commit({
        table: newTable(),
        columns: [column(type)],
        rows: `[{"x":1},{"x":${deep}}]`,
      });
      await assert.rejects(page, (error) => {
        assert.ok(error instanceof CellError);
        assert.match(error.message, /row 2 .*column "x".* nested some thousand levels/);
        return true;
      });
    }
  },

  'a text with half a character that was not escaped is refused as well': async ({ store }) => {
    const page = (await beginStep(store)).commit({
      table: newTable(),
      rows: '[{"x":"ok"},{"x":"\ud800"}]',
    });
    await assert.rejects(page, (error) => error instanceof CellError && error.details.row === 1);
  },
};

/** What a value and its cell have in common, however it is written. */
function comparable(type: ColumnType, value: unknown): unknown {
  if (value === null || type === 'json' || type === 'boolean') return value;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (type === 'string') return text;
  if (type === 'binary') return text.replace(/=+$/, '');
  if (type === 'date' || type === 'timestamp') return new Date(text).getTime();
  return Number(text);
}
