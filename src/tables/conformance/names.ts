import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ColumnsError, TableNameError } from '../table-errors.ts';
import { MAX_NAME_LENGTH, type NamePart, type TableName, type TableStore } from '../table-store.ts';
import { beginStep, column, newTable, rowsOf, type Cases } from './place.ts';

// prettier-ignore
const NAUGHTY = [
  '', ' ', 'a b', '"', '""', "'", "''", '`', '\\', '\\"', '\\\\', '$', '$.a', 'a.b', '.', '[0]', '#', '?', '?1', ':a',
  '@a', '%s', '--', '/*', ';', 'select', 'from', 'rowid', '_rowid_', 'oid', 'ctid', 'id', 'null', 'constructor',
  '__proto__', 'toString', 'hasOwnProperty', 'é', 'ß', 'İ', '𝒳', '日本語', '\u0301', '\u200b', '\u202e', '\ufeff', '\ufffe',
  '\t', '\n', '\r\n', '\u0001', '\u007f', '\u2028', 'sqlite_master', 'sqlite_x', 'pg_class', "Robert'); DROP TABLE t;--",
];

/** The names that the store says it takes. */
const taken = ({ capabilities }: TableStore, part: NamePart) =>
  NAUGHTY.filter((name) => capabilities.nameProblem(part, name) === undefined);

export const nameCases: Cases = {
  'columns of any name hold their own values, all in one table': async ({ store }) => {
    const table = newTable();
    const names = taken(store, 'column');
    const columns = names.map((name) => column('string', name));
    const row = `{${names.map((name, at) => `${JSON.stringify(name)}:"value ${at}"`).join(',')}}`;
    const step = await beginStep(store);
    await step.commit({ table, columns, rows: `[${row},{}]` });
    await step.commit({ table, columns, mode: 'merge', keys: names.slice(0, 12), rows: `[${row}]` });
    const [full, empty, none] = await rowsOf(store, table);
    assert.deepEqual(Object.keys(full ?? {}), names);
    assert.deepEqual(
      names.map((name) => Object.getOwnPropertyDescriptor(full, name)?.value),
      names.map((_, at) => `value ${at}`),
    );
    assert.ok(Object.values(empty ?? {}).every((value) => value === null));
    assert.equal(none, undefined);
    const inferred = newTable();
    await step.commit({ table: inferred, rows: `[${row}]` });
    assert.deepEqual(await rowsOf(store, inferred), [full]);
  },

  'tables of any name, in spaces of any name, are tables of their own': async ({ store }) => {
    const names: TableName[] = [
      ...taken(store, 'table').map((name) => ({ space: 'any', table: name })),
      ...taken(store, 'space').map((name) => ({ space: name, table: 'any' })),
    ];
    const twins = [
      ['a.b', 'c'],
      ['a', 'b.c'],
      ['a\\.b', 'c'],
      ['a\\', '.b.c'],
      ['', 'a'],
      ['', '.a'],
      ['.', 'a'],
    ];
    const { nameProblem } = store.capabilities;
    for (const [space = '', table = ''] of twins) {
      if (!nameProblem('space', space) && !nameProblem('table', table)) names.push({ space, table });
    }
    const step = await beginStep(store);
    for (const [at, table] of names.entries()) await step.commit({ table, rows: [{ at }] });
    for (const [at, table] of names.entries()) assert.deepEqual(await rowsOf(store, table), [{ at }]);
    const listed = await store.tables();
    for (const { space, table } of names) {
      assert.equal(listed.filter((other) => other.space === space && other.table === table).length, 1);
    }
    for (const table of names) assert.equal(await store.dropTable(table), true);
    for (const table of names) assert.equal(await store.columns(table), null);
    assert.equal(await store.dropTable({ space: 'any', table: 'never there' }), false);
  },

  'a name that the database does not take is an error that says why, and nothing is done': async ({
    store,
  }) => {
    const step = await beginStep(store);
    const { nameProblem } = store.capabilities;
    for (const name of [...NAUGHTY, 'x'.repeat(64), 'é'.repeat(32), '𝒳'.repeat(64)]) {
      const [space, table, inColumn] = (['space', 'table', 'column'] as const).map((part) =>
        nameProblem(part, name),
      );
      const refused = (problem: string) => (error: unknown) => {
        assert.ok(error instanceof TableNameError || error instanceof ColumnsError);
        assert.ok(error.message.includes(problem), error.message);
        return true;
      };
      if (space) {
        const load = { table: { space: name, table: 'a' }, rows: [{ x: 1 }] };
        await assert.rejects(step.commit(load), refused(space));
      }
      if (table) {
        const load = { table: { space: 'main', table: name }, rows: [{ x: 1 }] };
        await assert.rejects(step.commit(load), refused(table));
        await assert.rejects(step.commit({ ...load, mode: 'createThenAppend' }), refused(table));
      }
      if (inColumn) {
        const load = { table: newTable(), rows: [{ [name]: 1 }] };
        await assert.rejects(step.commit(load), refused(inColumn));
        assert.equal(await store.columns(load.table), null);
      }
    }
  },

  'names that no database holds exactly are errors': async ({ store }) => {
    const step = await beginStep(store);
    for (const name of ['a\0b', '\ud800', 'x\udfff', 'x'.repeat(MAX_NAME_LENGTH + 1)]) {
      await assert.rejects(step.commit({ table: { space: 'main', table: name }, rows: [] }), TableNameError);
      await assert.rejects(step.commit({ table: { space: name, table: 'a' }, rows: [] }), TableNameError);
      const columns = [column('string', name)];
      await assert.rejects(step.commit({ table: newTable(), columns, rows: [] }), ColumnsError);
      await assert.rejects(step.commit({ table: newTable(), rows: [{ [name]: 1 }] }), ColumnsError);
    }
  },

  'names that the database does not tell apart are errors, others are not': async ({ store }) => {
    const step = await beginStep(store);
    const columns = [
      column('string', 'a'),
      column('string', 'A'),
      column('string', 'é'),
      column('string', 'É'),
    ];
    const table = newTable();
    await assert.rejects(
      step.commit({ table, columns: [column('string'), column('date')], rows: [] }),
      /"x" is there twice/,
    );
    const both = { columns, rows: [{ a: 1, A: 2, é: 3, É: 4 }] };
    if (store.capabilities.caseSensitiveNames) {
      await step.commit({ table, ...both });
      assert.deepEqual(await rowsOf(store, table), [{ a: '1', A: '2', é: '3', É: '4' }]);
      return;
    }
    await assert.rejects(step.commit({ table, ...both }), (error) => {
      assert.ok(error instanceof ColumnsError);
      assert.match(error.message, /"a" and "A" differ only in case/);
      return true;
    });
    await assert.rejects(step.commit({ table, rows: both.rows }), /"a" and "A" differ only in case/);
    const { foldName, caseSensitiveTables } = store.capabilities;
    if (foldName && foldName('é') === foldName('É')) {
      await assert.rejects(step.commit({ table, columns: columns.slice(2), rows: [] }), /"é" and "É" differ/);
      columns.pop();
    }
    await step.commit({ table, columns: columns.slice(1), rows: both.rows });
    const { a: _a, É, ...others } = { a: '1', A: '2', é: '3', É: '4' };
    assert.deepEqual(await rowsOf(store, table), [columns.length === 4 ? { ...others, É } : others]);
    await assert.rejects(step.commit({ table, widen: true, rows: [{ a: 1 }] }), /differ only in case/);
    if (caseSensitiveTables) return;
    const shouted = { ...table, table: table.table.toUpperCase() };
    await assert.rejects(
      step.commit({ table: shouted, rows: [] }),
      /differs only in case from "main"\."table/,
    );
    await assert.rejects(step.commit({ table: shouted, mode: 'createThenAppend', rows: [] }), TableNameError);
    assert.equal(await store.columns(shouted), null);
  },

  'as many columns as the store says, and not one more': async ({ store }) => {
    const { maxColumns } = store.capabilities;
    const table = newTable();
    const step = await beginStep(store);
    // Of the smallest type, because some databases have a limit of bytes for a row as well.
    const columns = Array.from({ length: maxColumns }, (_, at) => column('boolean', `column ${at}`));
    const row = Object.fromEntries(columns.map(({ name }, at) => [name, at % 2 === 0]));
    await step.commit({ table, columns, rows: [row, row] });
    assert.deepEqual(await rowsOf(store, table), [row, row]);
    await step.commit({
      table,
      columns,
      mode: 'merge',
      keys: ['column 0'],
      rows: [{ ...row, 'column 1': true }],
    });
    const merged = { ...row, 'column 1': true };
    assert.deepEqual(await rowsOf(store, table), [merged, merged]);
    const more = { ...row, 'one more': 1 };
    const message = new RegExp(`${maxColumns + 1} columns are too many; the database takes ${maxColumns}`);
    await assert.rejects(step.commit({ table, widen: true, rows: [{ 'one more': 1 }] }), message);
    await assert.rejects(step.commit({ table: newTable(), rows: [more] }), message);
  },

  'whatever the name: its own value, or an error': async ({ store }) => {
    const step = await beginStep(store);
    const unit = fc.oneof(
      fc.constantFrom('"', '\\', '.', '$', "'", '\0', '\ud800', 'a', 'A'),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    );
    const name = fc.string({ unit, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(name, { maxLength: 6 }), async (names) => {
        const table = newTable();
        const row = `{${names.map((key, at) => `${JSON.stringify(key)}:${at}`).join(',')}}`;
        try {
          await step.commit({ table, rows: `[${row}]` });
        } catch (error) {
          assert.ok(error instanceof ColumnsError);
          const folded = new Set(names.map((key) => key.toLowerCase()));
          const { nameProblem } = store.capabilities;
          const isRefused = (key: string) =>
            key.includes('\0') || !key.isWellFormed() || nameProblem('column', key) !== undefined;
          assert.ok(folded.size < names.length || names.some(isRefused));
          return;
        }
        assert.deepEqual(await rowsOf(store, table), [JSON.parse(row)]);
      }),
      { numRuns: 60 },
    );
  },
};
