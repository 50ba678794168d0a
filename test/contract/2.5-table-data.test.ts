import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, sharedBench } from '../support/shared-bench.ts';

/** The source of a Parsing script that returns these table-data objects. */
const returning = (...tables: object[]) => `return ${JSON.stringify({ data: tables })};`;

describe('Contract 2.5: table-data object', () => {
  const bench = sharedBench();

  const loaded = async (script: string, target: Record<string, unknown>) => {
    const answer = await bench().parse(script, { target });
    assert.equal(answer.status, 200, answer.text);
    return answer;
  };
  const refused = async (script: string, target: Record<string, unknown>, message: RegExp) => {
    const answer = await bench().parse(script, { target });
    assert.equal(answer.status, 422, answer.text);
    const error = failure(answer);
    assert.equal(error.code, 'invalid_result', error.message);
    assert.match(error.message, message);
  };
  const idAndName = {
    columns: [
      { name: 'id', type: 'integer', position: 1 },
      { name: 'name', type: 'string', position: 2 },
    ],
  };

  describe('data: array of record objects that match the data model', () => {
    test('properties matching no model column are ignored, model columns without a property are null', async () => {
      await loaded(returning({ data: [{ id: 1, other: 'x' }, { name: 'b', id: 2 }, {}] }), {
        table: 'matched',
        model: idAndName,
      });
      assert.deepEqual(await bench().rows('matched'), [
        { id: 1, name: null },
        { id: 2, name: 'b' },
        { id: null, name: null },
      ]);
    });

    test('without a model, the columns of the existing table are the model', async () => {
      await bench().app('PUT', '/tables/local/main/existing', [{ id: 1, name: 'a' }]);
      await loaded(returning({ data: [{ id: 2, other: true }] }), { table: 'existing' });
      assert.deepEqual(await bench().rows('existing'), [
        { id: 1, name: 'a' },
        { id: 2, name: null },
      ]);
    });

    test('is required', async () => {
      const answer = await bench().parse('return { data: [{ tableName: "x" }] };');
      assert.equal(answer.status, 422);
      assert.match(failure(answer).message, /data\[0\]\.data/);
    });
  });

  describe('format: objects, table or JSON; default table', () => {
    const nested = [{ id: 1, tags: ['a', 'b'], address: { city: 'Köln' } }];
    const jsonModel = (type: string) => ({
      columns: [
        { name: 'id', type: 'integer', position: 1 },
        { name: 'address', type, position: 2 },
      ],
    });

    test('table: objects and arrays in a cell become JSON text; it is the default', async () => {
      for (const [table, format] of [
        ['format_table', 'table'],
        ['format_default', undefined],
      ] as const) {
        await loaded(returning({ data: nested, format }), { table });
        assert.deepEqual(await bench().rows(table), [
          { id: 1, tags: '["a","b"]', address: '{"city":"Köln"}' },
        ]);
      }
    });

    test('JSON: cells of columns whose type is json stay JSON, others become JSON text', async () => {
      await loaded(returning({ data: nested, format: 'JSON' }), {
        table: 'json_kept',
        model: jsonModel('json'),
      });
      assert.deepEqual(await bench().rows('json_kept'), [{ id: 1, address: { city: 'Köln' } }]);
      await loaded(returning({ data: nested, format: 'JSON' }), {
        table: 'json_text',
        model: jsonModel('string'),
      });
      assert.deepEqual(await bench().rows('json_text'), [{ id: 1, address: '{"city":"Köln"}' }]);
    });

    test('JSON without a model: the columns of objects and arrays are inferred as json', async () => {
      await loaded(returning({ data: nested, format: 'JSON' }), { table: 'json_inferred' });
      assert.deepEqual(await bench().rows('json_inferred'), nested);
    });

    test('objects: the mapping is applied, and its result is loaded', async () => {
      await loaded(returning({ data: [{ deep: [{ n: 1 }, { n: 2 }] }, 'even text'], format: 'objects' }), {
        table: 'mapped',
        mapping: `
          const [{ deep }, text] = $ctx.data;
          return { format: 'table', data: deep.map(({ n }) => ({ n, text })) };`,
      });
      assert.deepEqual(await bench().rows('mapped'), [
        { n: 1, text: 'even text' },
        { n: 2, text: 'even text' },
      ]);
    });

    test('objects: the mapping may return format JSON', async () => {
      await loaded(returning({ data: [{ a: { b: 1 } }], format: 'objects' }), {
        table: 'mapped_json',
        model: { columns: [{ name: 'whole', type: 'json', position: 1 }] },
        mapping: "return { format: 'JSON', data: $ctx.data.map((whole) => ({ whole })) };",
      });
      assert.deepEqual(await bench().rows('mapped_json'), [{ whole: { a: { b: 1 } } }]);
    });

    test('objects: the mapping may return an array of table-data objects', async () => {
      await loaded(returning({ data: [1, 2], format: 'objects' }), {
        table: 'mapped_many',
        mapping: `return [
          { data: $ctx.data.map((n) => ({ n })) },
          { data: [{ count: $ctx.data.length }], tableNameSuffix: '_count' },
        ];`,
      });
      assert.deepEqual(await bench().rows('mapped_many'), [{ n: 1 }, { n: 2 }]);
      assert.deepEqual(await bench().rows('mapped_many_count'), [{ count: 2 }]);
    });

    test('objects: what the Parsing script said about the table stays in force', async () => {
      await loaded(
        returning({
          data: [7],
          format: 'objects',
          tableName: 'mapped_elsewhere',
          modelName: undefined,
          model: idAndName,
        }),
        { table: 'unused', mapping: 'return { data: $ctx.data.map((id) => ({ id })) };' },
      );
      assert.deepEqual(await bench().rows('mapped_elsewhere'), [{ id: 7, name: null }]);
      assert.equal(await bench().columns('unused'), undefined);
    });

    test('objects: without a mapping, or when it returns objects again, an error', async () => {
      const objects = returning({ data: [{ a: 1 }], format: 'objects' });
      await refused(objects, { table: 'unmapped' }, /data\[0\]\.format.*needs a mapping/);
      await refused(
        objects,
        { table: 'unmapped', mapping: "return { format: 'objects', data: $ctx.data };" },
        /target\.mapping.*"table" or "JSON"/,
      );
      assert.equal(await bench().columns('unmapped'), undefined);
    });

    test('anything else is an error', async () => {
      for (const format of ['json', 'TABLE', '', 7, null])
        await refused(returning({ data: [], format }), { table: 'never' }, /data\[0\]\.format/);
    });
  });

  describe('sourceName: source of the table', () => {
    test('default is the Target source', async () => {
      const answer = await loaded(returning({ data: [{ a: 1 }] }), {
        source: 'local',
        table: 'of_target_source',
      });
      assert.equal(answer.body.result.output.tables[0].source, 'local');
      assert.deepEqual(await bench().rows('of_target_source'), [{ a: 1 }]);
    });

    test('names another one; one that is unknown, or of another type, is an error that lists the known ones', async () => {
      await loaded(returning({ data: [{ a: 1 }], sourceName: 'local' }), { table: 'named_source' });
      assert.deepEqual(await bench().rows('named_source'), [{ a: 1 }]);
      for (const sourceName of ['locla', 'files']) {
        const answer = await bench().parse(returning({ data: [{ a: 1 }], sourceName }), {
          target: { table: 'never' },
        });
        const error = failure(answer);
        assert.equal(error.code, 'unknown_source');
        assert.match(error.message, /data\[0\]\.sourceName.*Known: local/);
      }
    });
  });

  describe('spaceName: space of the table', () => {
    const inSpaces = async (table: string) => {
      const { body } = await bench().app('GET', '/tables');
      return (body.result as { space: string; table: string }[])
        .filter((found) => found.table === table)
        .map(({ space }) => space);
    };

    test('names the space', async () => {
      await loaded(returning({ data: [{ a: 1 }], spaceName: 'archive' }), {
        space: 'target',
        table: 'in_named',
      });
      assert.deepEqual(await inSpaces('in_named'), ['archive']);
      assert.deepEqual(await bench().rows('in_named', 'archive'), [{ a: 1 }]);
    });

    test('names the space, also beside sourceName', async () => {
      await loaded(returning({ data: [{ a: 1 }], sourceName: 'local', spaceName: 'archive' }), {
        space: 'target',
        table: 'in_both',
      });
      assert.deepEqual(await inSpaces('in_both'), ['archive']);
    });

    test('default is the default name space if sourceName is given', async () => {
      await loaded(returning({ data: [{ a: 1 }], sourceName: 'local' }), {
        space: 'target',
        table: 'in_default',
      });
      assert.deepEqual(await inSpaces('in_default'), ['main']);
    });

    test('the Target space is used if neither is given', async () => {
      await loaded(returning({ data: [{ a: 1 }] }), { space: 'target', table: 'in_target' });
      assert.deepEqual(await inSpaces('in_target'), ['target']);
    });

    test('the default space of the source, when the target names none either', async () => {
      await loaded(returning({ data: [{ a: 1 }] }), { table: 'in_main' });
      assert.deepEqual(await inSpaces('in_main'), ['main']);
    });
  });

  describe('tableName: table name', () => {
    test('default is the Target table', async () => {
      await loaded(returning({ data: [{ a: 1 }] }), { table: 'of_target' });
      assert.deepEqual(await bench().rows('of_target'), [{ a: 1 }]);
    });

    test('names another table', async () => {
      await loaded(returning({ data: [{ a: 1 }], tableName: 'of_script' }), { table: 'not_this' });
      assert.deepEqual(await bench().rows('of_script'), [{ a: 1 }]);
      assert.equal(await bench().columns('not_this'), undefined);
      await loaded(returning({ data: [{ a: 2 }], tableName: 'of_script' }), {});
      assert.equal((await bench().rows('of_script')).length, 2);
    });

    test('without one, and without a Target table, is an error', async () => {
      await refused(returning({ data: [{ a: 1 }] }), {}, /data\[0\]\.tableName.*the target names no table/);
    });

    test('any Unicode name will do: names are data', async () => {
      for (const tableName of [
        'Bücher 書籍',
        'a"b',
        "it's; DROP TABLE x --",
        '100%_[x]',
        'SELECT',
        '.hidden',
        '../up',
      ]) {
        await loaded(returning({ data: [{ 'ü "x"': 1, '': 2, 'a.b': 3 }], tableName }), {});
        assert.deepEqual(await bench().rows(tableName), [{ 'ü "x"': 1, '': 2, 'a.b': 3 }], tableName);
      }
    });
  });

  describe('tableNameSuffix: table name built by appending the suffix to the Target table name', () => {
    test('appends', async () => {
      await loaded(returning({ data: [{ a: 1 }], tableNameSuffix: '_2025' }), { table: 'sales' });
      assert.deepEqual(await bench().rows('sales_2025'), [{ a: 1 }]);
      assert.equal(await bench().columns('sales'), undefined);
    });

    test('without a Target table there is nothing to append to', async () => {
      await refused(returning({ data: [{ a: 1 }], tableNameSuffix: '_x' }), {}, /data\[0\]\.tableName/);
    });

    test('together with tableName is an error', async () => {
      await refused(
        returning({ data: [{ a: 1 }], tableName: 'a', tableNameSuffix: '_b' }),
        { table: 'sales' },
        /data\[0\]\.tableNameSuffix: tableName and tableNameSuffix exclude each other/,
      );
    });
  });

  describe('modelName: default is the configured Model', () => {
    const person = { name: 'person', columns: idAndName.columns };
    const short = { name: 'short', columns: [{ name: 'id', type: 'string', position: 1 }] };

    test('default is the configured Model, by name or inline', async () => {
      await bench().app('PUT', '/models/person', person);
      await loaded(returning({ data: [{ id: 1, x: 1 }] }), { table: 'by_name', model: 'person' });
      await loaded(returning({ data: [{ id: 1, x: 1 }] }), { table: 'by_inline', model: idAndName });
      for (const table of ['by_name', 'by_inline'])
        assert.deepEqual(await bench().rows(table), [{ id: 1, name: null }]);
    });

    test('names a model of the application', async () => {
      await bench().app('PUT', '/models/person', person);
      await bench().app('PUT', '/models/short', short);
      await loaded(returning({ data: [{ id: 1, name: 'x' }], modelName: 'short' }), {
        table: 'by_model_name',
        model: 'person',
      });
      assert.deepEqual(await bench().columns('by_model_name'), [{ name: 'id', type: 'string' }]);
      assert.deepEqual(await bench().rows('by_model_name'), [{ id: '1' }]);
    });

    test('an unknown one is an error that names the known ones', async () => {
      await bench().app('PUT', '/models/person', person);
      const answer = await bench().parse(returning({ data: [{ id: 1 }], modelName: 'persn' }), {
        target: { table: 'never' },
      });
      const error = failure(answer);
      assert.equal(error.code, 'unknown_model');
      assert.match(error.message, /data\[0\]\.modelName.*"persn".*Did you mean "person"/);
    });
  });

  describe('model: object with columns, an array of {name, type, position}', () => {
    test('positions order the columns, not their place in the array', async () => {
      const columns = [
        { name: 'third', type: 'string', position: 30 },
        { name: 'first', type: 'integer', position: -1 },
        { name: 'second', type: 'boolean', position: 5 },
      ];
      await loaded(returning({ data: [{ third: 'c', first: 1, second: true }], model: { columns } }), {
        table: 'positions',
      });
      assert.deepEqual(await bench().columns('positions'), [
        { name: 'first', type: 'integer' },
        { name: 'second', type: 'boolean' },
        { name: 'third', type: 'string' },
      ]);
      assert.deepEqual(Object.keys((await bench().rows('positions'))[0] ?? {}), ['first', 'second', 'third']);
    });

    test('goes before the configured Model and modelName', async () => {
      const model = { columns: [{ name: 'only', type: 'string', position: 1 }] };
      await loaded(returning({ data: [{ only: 'x', id: 1 }], model }), { table: 'inline', model: idAndName });
      assert.deepEqual(await bench().rows('inline'), [{ only: 'x' }]);
    });

    test('each of the ten types', async () => {
      const values = {
        string: 'text',
        integer: 42,
        bigint: '9223372036854775807',
        decimal: '1.50',
        double: 0.1,
        boolean: false,
        date: '2025-02-28',
        timestamp: '2025-02-28T10:00:00Z',
        json: { a: [1, null] },
        binary: 'AAEC',
      };
      const columns = Object.keys(values).map((type, position) => ({ name: type, type, position }));
      await loaded(returning({ data: [values], model: { columns }, format: 'JSON' }), { table: 'ten_types' });
      assert.deepEqual(await bench().rows('ten_types'), [values]);
      assert.deepEqual(
        await bench().columns('ten_types'),
        columns.map(({ name, type }) => ({ name, type })),
      );
    });

    test('anything else is an error that names the property', async () => {
      const column = { name: 'a', type: 'string', position: 1 };
      const wrong: [unknown, RegExp][] = [
        [[], /data\[0\]\.model/],
        [{}, /data\[0\]\.model\.columns/],
        [{ columns: [] }, /data\[0\]\.model\.columns/],
        [{ columns: [{ ...column, name: 7 }] }, /data\[0\]\.model\.columns\[0\]\.name/],
        [{ columns: [{ ...column, type: 'text' }] }, /data\[0\]\.model\.columns\[0\]\.type.*string/],
        [{ columns: [{ ...column, position: '1' }] }, /data\[0\]\.model\.columns\[0\]\.position/],
        [{ columns: [{ ...column, position: 1.5 }] }, /data\[0\]\.model\.columns\[0\]\.position/],
        [{ columns: [{ name: 'a', type: 'string' }] }, /data\[0\]\.model\.columns\[0\]\.position/],
        [{ columns: [{ ...column, size: 7 }] }, /data\[0\]\.model\.columns\[0\]\.size/],
        [{ columns: [column, { ...column, position: 2 }] }, /names of the columns must differ/],
      ];
      for (const [model, message] of wrong) {
        await refused(returning({ data: [], model }), { table: 'never' }, message);
      }
    });
  });

  describe('mode: createThenAppend or append', () => {
    const pages = (mode: string) => `
      const { page = 1 } = $ctx.variables;
      return {
        data: [{ data: [{ page }], mode: '${mode}' }],
        variables: { page: { value: page + 1, scope: 'executionContext' } },
        doWhile: page < 3,
      };`;
    const allPages = [{ page: 1 }, { page: 2 }, { page: 3 }];

    test('createThenAppend: created on the first iteration, appended to on later ones', async () => {
      await loaded(pages('createThenAppend'), { table: 'created' });
      assert.deepEqual(await bench().rows('created'), allPages);
    });

    test('createThenAppend: an existing table is replaced, columns and all', async () => {
      await bench().app('PUT', '/tables/local/main/replaced', [{ page: 'old', more: 1 }]);
      await loaded(pages('createThenAppend'), { table: 'replaced' });
      assert.deepEqual(await bench().rows('replaced'), allPages);
      assert.deepEqual(await bench().columns('replaced'), [{ name: 'page', type: 'integer' }]);
    });

    test('createThenAppend: the first iteration of the whole operation, over all source records', async () => {
      const { parse, app, rows } = bench();
      await app('PUT', '/tables/local/main/mode_records', [{ id: 1 }, { id: 2 }]);
      await app('PUT', '/tables/local/main/whole_operation', [{ id: 0 }]);
      const answer = await parse(
        "return { data: [{ data: [{ id: $ctx.data.id }], mode: 'createThenAppend' }] };",
        {
          sourceTable: { source: 'local', table: 'mode_records' },
          target: { table: 'whole_operation' },
        },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await rows('whole_operation'), [{ id: 1 }, { id: 2 }]);
    });

    test('createThenAppend: per target table, also for one that comes on a later page', async () => {
      const { app, rows } = bench();
      await app('PUT', '/tables/local/main/late_b', [{ page: 0 }]);
      await loaded(
        `const { page = 1 } = $ctx.variables;
         return {
           data: [{ data: [{ page }], tableName: page === 1 ? 'late_a' : 'late_b', mode: 'createThenAppend' }],
           variables: { page: { value: page + 1, scope: 'executionContext' } },
           doWhile: page < 3,
         };`,
        {},
      );
      assert.deepEqual(await rows('late_a'), [{ page: 1 }]);
      assert.deepEqual(await rows('late_b'), [{ page: 2 }, { page: 3 }]);
    });

    test('createThenAppend: with no records at all, the table is there and empty', async () => {
      const { app, rows } = bench();
      await app('PUT', '/tables/local/main/emptied', [{ id: 1 }]);
      const model = { columns: [{ name: 'id', type: 'integer', position: 1 }] };
      await loaded(returning({ data: [], mode: 'createThenAppend', model }), { table: 'emptied' });
      assert.deepEqual(await rows('emptied'), []);
      await app('PUT', '/tables/local/main/emptied_unmodelled', [{ id: 1 }]);
      await loaded(returning({ data: [], mode: 'createThenAppend' }), { table: 'emptied_unmodelled' });
      assert.deepEqual(await rows('emptied_unmodelled'), []);
    });

    test('append: records are inserted into the existing table', async () => {
      await bench().app('PUT', '/tables/local/main/appended', [{ page: 0 }]);
      await loaded(pages('append'), { table: 'appended' });
      assert.deepEqual(await bench().rows('appended'), [{ page: 0 }, ...allPages]);
    });

    test('append: is the default, creates a missing table, and never drops one', async () => {
      await loaded(returning({ data: [{ page: 1 }] }), { table: 'default_mode' });
      await loaded(returning({ data: [{ page: 2 }] }), { table: 'default_mode' });
      assert.deepEqual(await bench().rows('default_mode'), [{ page: 1 }, { page: 2 }]);
    });

    test('append: no records for a missing table are no error', async () => {
      await loaded(returning({ data: [] }), { table: 'never_filled' });
    });

    test('merge (ext): with keys, records that are there are updated', async () => {
      await bench().app('PUT', '/tables/local/main/merged', [
        { id: 1, name: 'a' },
        { id: 2, name: 'b' },
      ]);
      const data = [
        { id: 2, name: 'B' },
        { id: 3, name: 'c' },
      ];
      await loaded(returning({ data, mode: 'merge', keys: ['id'] }), { table: 'merged' });
      const rows = await bench().rows('merged');
      assert.deepEqual(
        rows.toSorted((a, b) => Number(a['id']) - Number(b['id'])),
        [{ id: 1, name: 'a' }, ...data],
      );
    });

    test('merge (ext): needs keys, and no other mode takes them', async () => {
      await refused(returning({ data: [], mode: 'merge' }), { table: 'merged' }, /data\[0\]\.keys/);
      await refused(returning({ data: [], keys: ['id'] }), { table: 'merged' }, /data\[0\]\.keys/);
      const unknown = await bench().parse(returning({ data: [{ id: 1 }], mode: 'merge', keys: ['nr'] }), {
        target: { table: 'merge_unknown' },
      });
      assert.equal(unknown.status, 422);
      assert.match(failure(unknown).message, /nr/);
    });

    test('anything else is an error', async () => {
      for (const mode of ['replace', 'createthenappend', '', null])
        await refused(returning({ data: [], mode }), { table: 'never' }, /data\[0\]\.mode/);
    });
  });

  describe('tmpTable: string true or false', () => {
    for (const tmpTable of ['true', true]) {
      test(`${JSON.stringify(tmpTable)}: the table is created as temporary, and gone when the job ends`, async () => {
        const table = `temporary_${typeof tmpTable}`;
        const answer = await loaded(returning({ data: [{ a: 1 }], tmpTable }), { table });
        assert.equal(answer.body.result.stats.records, 1);
        assert.equal(await bench().columns(table), undefined);
        assert.equal((await bench().app('GET', `/tables/local/main/${table}`)).status, 404);
      });
    }

    for (const tmpTable of ['false', false]) {
      test(`${JSON.stringify(tmpTable)}: the table stays`, async () => {
        const table = `lasting_${typeof tmpTable}`;
        await loaded(returning({ data: [{ a: 1 }], tmpTable }), { table });
        assert.deepEqual(await bench().rows(table), [{ a: 1 }]);
      });
    }

    test('a temporary table beside a lasting one of the same name leaves that alone', async () => {
      await bench().app('PUT', '/tables/local/main/both', [{ a: 0 }]);
      await loaded(returning({ data: [{ a: 1 }], tmpTable: 'true', mode: 'createThenAppend' }), {
        table: 'both',
      });
      assert.deepEqual(await bench().rows('both'), [{ a: 0 }]);
    });

    test('anything else is an error', async () => {
      for (const tmpTable of ['yes', 'True', '', 1, null])
        await refused(returning({ data: [], tmpTable }), { table: 'never' }, /data\[0\]\.tmpTable/);
    });
  });
});
