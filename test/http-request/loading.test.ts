import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { BIG_NUMBERS } from '../support/external-api.ts';
import { eventually, failure, sharedBench } from '../support/shared-bench.ts';

/** A Parsing script that takes the pages as they come from /pages/{name}. */
const asItComes = (rest = '') => `
  const { items, more } = $ctx.response.body;
  const { page = 1 } = $ctx.variables;
  return {
    data: [{ data: items, ${rest} }],
    variables: { page: { value: page + 1, scope: 'executionContext' } },
    doWhile: more,
  };`;

const nextPage = { parameters: 'return { page: $ctx.variables.page || 1 };' };

describe('HTTPRequest: loading', () => {
  const bench = sharedBench();

  /** Serves these pages; `before` is awaited before each. */
  const serve = (name: string, pages: unknown[][], before?: (page: number) => Promise<void>) => {
    bench().api.answer(`GET /pages/${name}`, async (exchange) => {
      const page = exchange.number('page', 1);
      await before?.(page);
      exchange.json(200, { items: pages[page - 1], more: page < pages.length });
    });
    return { url: `/pages/${name}`, request: nextPage };
  };
  const model = (columns: Record<string, string>) => ({
    columns: Object.entries(columns).map(([name, type], position) => ({ name, type, position })),
  });
  /** What is in the file of the application's tables, unseen or not. */
  const physicalTables = () => {
    const { data } = bench().service.settings;
    const folder = join(data, 'applications', bench().appId);
    assert.ok(readdirSync(folder).includes('local.sqlite'));
    const database = new DatabaseSync(join(folder, 'local.sqlite'), { readOnly: true });
    try {
      const rows = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
      return rows.map(({ name }) => String(name)).toSorted();
    } finally {
      database.close();
    }
  };

  describe('createThenAppend', () => {
    const old = [{ n: -1 }, { n: -2 }];

    test('readers see the old table until the operation succeeds, and then the whole new one', async () => {
      const { parse, rows, app } = bench();
      await app('PUT', '/tables/local/main/swapped', old);
      const seen: unknown[] = [];
      const options = serve('swapped', [[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]], async () => {
        seen.push(await rows('swapped'));
      });
      const answer = await parse(asItComes("mode: 'createThenAppend'"), {
        ...options,
        target: { table: 'swapped' },
      });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(seen, [old, old, old]);
      assert.deepEqual(await rows('swapped'), [{ n: 1 }, { n: 2 }, { n: 3 }]);
    });

    test('readers that read all the time see the old or the new table, nothing between', async () => {
      const { parse, rows, app } = bench();
      await app('PUT', '/tables/local/main/watched', old);
      const pages = Array.from({ length: 8 }, (_, page) =>
        Array.from({ length: 200 }, (_row, n) => ({ n: page * 200 + n })),
      );
      const done = new AbortController();
      const counts = new Set<number>();
      const watch = async () => {
        while (!done.signal.aborted) counts.add((await rows('watched')).length);
      };
      const watching = watch();
      const answer = await parse(asItComes("mode: 'createThenAppend'"), {
        ...serve('watched', pages),
        target: { table: 'watched' },
      });
      done.abort();
      await watching;
      assert.equal(answer.status, 200, answer.text);
      assert.equal((await rows('watched')).length, 1600);
      assert.deepEqual(
        [...counts].filter((count) => count !== 2 && count !== 1600),
        [],
      );
      assert.ok(counts.has(2));
    });

    test('an error in mid-job leaves the old table; what was loaded is kept aside, for the job to be resumed', async () => {
      const { parse, rows, app } = bench();
      await app('PUT', '/tables/local/main/kept', old);
      const before = physicalTables();
      const answer = await parse(asItComes("mode: 'createThenAppend'"), {
        ...serve('kept', [[{ n: 1 }], [{ n: 2 }], [7]]),
        target: { table: 'kept' },
      });
      assert.equal(answer.status, 422, answer.text);
      assert.match(failure(answer).message, /data\[0\]\.data\[0\]/);
      assert.deepEqual(await rows('kept'), old);
      const kept = physicalTables().filter((name) => !before.includes(name));
      assert.equal(kept.length, 1);
    });

    test('an error in mid-job leaves no new table either', async () => {
      const { parse, columns } = bench();
      const answer = await parse(asItComes("mode: 'createThenAppend'"), {
        ...serve('never_there', [[{ n: 1 }], [7]]),
        target: { table: 'never_there' },
      });
      assert.equal(answer.status, 422, answer.text);
      assert.equal(await columns('never_there'), undefined);
    });

    test('two tables take their places together', async () => {
      const { parse, rows, app } = bench();
      for (const table of ['pair_a', 'pair_b']) await app('PUT', `/tables/local/main/${table}`, old);
      const script = `
        const { items, more } = $ctx.response.body;
        return {
          data: ['a', 'b'].map((name) => ({ data: items, tableName: 'pair_' + name, mode: 'createThenAppend' })),
          variables: { page: { value: 2, scope: 'executionContext' } },
          doWhile: more,
        };`;
      const seen: unknown[] = [];
      const options = serve('pair', [[{ n: 1 }], [{ n: 2 }]], async () => {
        seen.push(await rows('pair_a'), await rows('pair_b'));
      });
      assert.equal((await parse(script, options)).status, 200);
      assert.deepEqual(seen, [old, old, old, old]);
      for (const table of ['pair_a', 'pair_b']) assert.deepEqual(await rows(table), [{ n: 1 }, { n: 2 }]);
    });

    test('a table that was made of no records takes the columns of those that come later', async () => {
      const { parse, rows } = bench();
      const target = { table: 'first_empty' };
      const empty = await parse("return { data: [{ data: [], mode: 'createThenAppend' }] };", { target });
      assert.equal(empty.status, 200, empty.text);
      const later = await parse('return { data: [{ data: [{ a: 1, b: "x" }] }] };', { target });
      assert.equal(later.status, 200, later.text);
      assert.deepEqual(await rows('first_empty'), [{ a: 1, b: 'x' }]);
    });
  });

  describe('append', () => {
    test('pages that were committed before an error stay, and those behind it are not there', async () => {
      const { parse, rows, service, token } = bench();
      const answer = await parse(asItComes(), {
        ...serve('half', [[{ n: 1 }], [{ n: 2 }], [7], [{ n: 4 }]]),
        target: { table: 'half' },
      });
      assert.equal(answer.status, 422, answer.text);
      assert.deepEqual(await rows('half'), [{ n: 1 }, { n: 2 }]);
      const job = await service.call('GET', `/api/v1/jobs/${failure(answer)['jobId'] as string}`, token);
      assert.equal(job.body.result.stats.pages, 2);
      assert.equal(job.body.result.stats.records, 2);
    });

    test('with a model that the existing table does not have is an error that names the column', async () => {
      const { parse, rows, app } = bench();
      await app('PUT', '/tables/local/main/other_columns', [{ a: 1 }]);
      const script = 'return { data: [{ data: [{ a: 1, b: 2 }] }] };';
      const wrong: [Record<string, string>, RegExp][] = [
        [{ a: 'integer', b: 'integer' }, /"b"/],
        [{ a: 'string' }, /"a".*string.*integer/],
      ];
      for (const [columns, message] of wrong) {
        const answer = await parse(script, { target: { table: 'other_columns', model: model(columns) } });
        assert.equal(answer.status, 422, answer.text);
        assert.equal(failure(answer).code, 'table_error');
        assert.match(failure(answer).message, message);
      }
      assert.deepEqual(await rows('other_columns'), [{ a: 1 }]);
    });
  });

  describe('merge', () => {
    const byId = (table: string) =>
      bench()
        .rows(table)
        .then((rows) => rows.toSorted((a, b) => Number(a['id']) - Number(b['id'])));

    test('updates by key across pages and within one, and creates a missing table', async () => {
      const { parse } = bench();
      const pages = [
        [
          { id: 1, v: 'a' },
          { id: 2, v: 'b' },
          { id: 1, v: 'a2' },
        ],
        [
          { id: 2, v: 'b2' },
          { id: 3, v: 'c' },
        ],
      ];
      const merging = asItComes("mode: 'merge', keys: ['id']");
      const answer = await parse(merging, { ...serve('merge', pages), target: { table: 'merge' } });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await byId('merge'), [
        { id: 1, v: 'a2' },
        { id: 2, v: 'b2' },
        { id: 3, v: 'c' },
      ]);
    });

    test('by several keys', async () => {
      const { parse, rows } = bench();
      const pages = [
        [
          { a: 1, b: 'x', v: 1 },
          { a: 1, b: 'y', v: 2 },
        ],
        [{ a: 1, b: 'y', v: 3 }],
      ];
      const answer = await parse(asItComes("mode: 'merge', keys: ['a', 'b']"), {
        ...serve('merge_two', pages),
        target: { table: 'merge_two' },
      });
      assert.equal(answer.status, 200, answer.text);
      const values = (await rows('merge_two')).map(({ v }) => v);
      assert.deepEqual(new Set(values), new Set([1, 3]));
      assert.equal(values.length, 2);
    });

    test('a record without its key is an error, and nothing of its page is loaded', async () => {
      const { parse } = bench();
      const answer = await parse(asItComes("mode: 'merge', keys: ['id']"), {
        ...serve('merge_null', [[{ id: 1 }], [{ id: 2 }, { id: null }]]),
        target: { table: 'merge_null' },
      });
      assert.equal(answer.status, 422, answer.text);
      assert.equal(failure(answer).code, 'value_error');
      assert.match(failure(answer).message, /row 2 .*column "id".*null/);
      assert.deepEqual(await byId('merge_null'), [{ id: 1 }]);
    });
  });

  describe('columns inferred from the records', () => {
    const loadPages = async (name: string, pages: unknown[][], rest = '') => {
      const answer = await bench().parse(asItComes(rest), { ...serve(name, pages), target: { table: name } });
      assert.equal(answer.status, 200, answer.text);
      return { rows: await bench().rows(name), columns: await bench().columns(name) };
    };

    test('later pages bring new columns', async () => {
      const { rows, columns } = await loadPages('new_columns', [
        [{ a: 1 }],
        [{ b: 'x' }],
        [{ a: 2, c: true }],
      ]);
      assert.deepEqual(columns, [
        { name: 'a', type: 'integer' },
        { name: 'b', type: 'string' },
        { name: 'c', type: 'boolean' },
      ]);
      assert.deepEqual(rows, [
        { a: 1, b: null, c: null },
        { a: null, b: 'x', c: null },
        { a: 2, b: null, c: true },
      ]);
    });

    test('later pages widen types, and what was there stays exact', async () => {
      const { rows, columns } = await loadPages('wider', [
        [{ number: 1, mixed: 7, late: null, flag: true }],
        [{ number: 1.5, mixed: 'seven', late: 3, flag: 'yes' }],
      ]);
      assert.deepEqual(columns, [
        { name: 'number', type: 'double' },
        { name: 'mixed', type: 'string' },
        { name: 'late', type: 'integer' },
        { name: 'flag', type: 'string' },
      ]);
      assert.deepEqual(rows, [
        { number: 1, mixed: '7', late: null, flag: 'true' },
        { number: 1.5, mixed: 'seven', late: 3, flag: 'yes' },
      ]);
    });

    test('the same with createThenAppend, and with a temporary table beside', async () => {
      const { rows } = await loadPages(
        'wider_new',
        [[{ a: 1 }], [{ a: 'x', b: 2 }]],
        "mode: 'createThenAppend'",
      );
      assert.deepEqual(rows, [
        { a: '1', b: null },
        { a: 'x', b: 2 },
      ]);
    });

    test('a table that was there before the job keeps its columns', async () => {
      await bench().app('PUT', '/tables/local/main/not_wider', [{ a: 1 }]);
      const { rows } = await loadPages('not_wider', [[{ a: 2, b: 1 }]]);
      assert.deepEqual(rows, [{ a: 1 }, { a: 2 }]);
      const wrong = await bench().parse(asItComes(), {
        ...serve('not_wider_text', [[{ a: 'text' }]]),
        target: { table: 'not_wider' },
      });
      assert.equal(failure(wrong).code, 'value_error');
    });
  });

  describe('values that do not fit', () => {
    const misfits: [type: string, value: unknown, shown: RegExp][] = [
      ['integer', 1.5, /1\.5/],
      ['integer', 'x', /"x"/],
      ['integer', true, /true/],
      ['bigint', '9223372036854775808', /9223372036854775808/],
      ['double', 'NaN', /"NaN"/],
      ['decimal', '1,5', /"1,5"/],
      ['boolean', 'true', /"true"/],
      ['boolean', 1, /1/],
      ['date', '2025-02-30', /"2025-02-30"/],
      ['timestamp', '2025-02-28 25:00', /"2025-02-28 25:00"/],
      ['binary', 'no base64!', /"no base64!"/],
    ];

    for (const [type, value, shown] of misfits) {
      test(`${JSON.stringify(value)} in ${type}: 422 value_error with column, row and value`, async () => {
        const table = `misfit_${type}_${typeof value}`;
        const answer = await bench().parse(
          `return { data: [{ data: ${JSON.stringify([{ ok: 1 }, { ok: 2, 'the "cell"': value }])} }] };`,
          { target: { table, model: model({ ok: 'integer', 'the "cell"': type }) } },
        );
        assert.equal(answer.status, 422, answer.text);
        const error = failure(answer);
        assert.equal(error.code, 'value_error');
        assert.match(error.message, /row 2\b/);
        assert.ok(error.message.includes(JSON.stringify('the "cell"')), error.message);
        assert.match(error.message, shown);
        assert.match(error.message, new RegExp(`\\(${type}\\).*takes`));
        assert.equal(await bench().columns(table), undefined, 'nothing of the page is loaded');
      });
    }

    test('nothing of that page is loaded: no other table, and no variable', async () => {
      const { parse, rows, columns, variable } = bench();
      const answer = await parse(
        `const { page = 1 } = $ctx.variables;
         return {
           data: [
             { data: [{ page }], tableName: 'good' },
             { data: [{ n: page === 2 ? 'two' : page }], tableName: 'bad', model: { columns: [{ name: 'n', type: 'integer', position: 1 }] } },
           ],
           variables: { page: { value: page + 1, scope: 'executionContext' }, reached: String(page) },
           doWhile: true,
         };`,
      );
      assert.equal(failure(answer).code, 'value_error');
      assert.deepEqual(await rows('good'), [{ page: 1 }]);
      assert.deepEqual(await rows('bad'), [{ n: 1 }]);
      assert.deepEqual(await columns('bad'), [{ name: 'n', type: 'integer' }]);
      assert.equal(await variable('reached'), '1');
    });
  });

  describe('numbers beyond what a double holds', () => {
    const items = 'return { data: [{ data: $ctx.response.body.items }] };';
    const big = { url: '/big-numbers' };

    test('reach the script as strings of their exact digits', async () => {
      const { parse, rows } = bench();
      const answer = await parse(
        'return { data: [{ data: [{ seen: JSON.stringify($ctx.response.body.items.map(_.values)) }] }] };',
        { ...big, target: { table: 'big_seen' } },
      );
      assert.equal(answer.status, 200, answer.text);
      const [row] = await rows('big_seen');
      assert.deepEqual(JSON.parse(String(row?.['seen'])), [
        ['9007199254740993', '12345678901234567.89', '0.1234567890123456789012', 12.5],
        ['-9223372036854775808', 0.1, 1e-7, 9007199254740991],
        ['123456789012345678901234567890', -1e-21, '1E400', 0],
      ]);
    });

    test("and the table exactly, by the column's type", async () => {
      const { parse, rows } = bench();
      const two = 'return { data: [{ data: $ctx.response.body.items.slice(0, 2) }] };';
      const answer = await parse(two, {
        ...big,
        target: {
          table: 'big_typed',
          model: model({ id: 'bigint', balance: 'decimal', ratio: 'string', plain: 'double' }),
        },
      });
      assert.equal(answer.status, 200, answer.text);
      const { text } = await bench().app('GET', '/tables/local/main/big_typed');
      assert.match(text, /9007199254740993/);
      assert.deepEqual(await rows('big_typed'), [
        {
          id: '9007199254740993',
          balance: '12345678901234567.89',
          ratio: '0.1234567890123456789012',
          plain: 12.5,
        },
        { id: '-9223372036854775808', balance: '0.1', ratio: '1e-7', plain: 9007199254740991 },
      ]);
    });

    test('what a column cannot hold exactly is an error, never rounded', async () => {
      const { parse } = bench();
      for (const [column, type] of [
        ['id', 'bigint'],
        ['id', 'integer'],
        ['id', 'double'],
        ['balance', 'double'],
      ] as const) {
        const answer = await parse(items, {
          ...big,
          target: { table: 'big_wrong', model: model({ [column]: type }) },
        });
        assert.equal(failure(answer).code, 'value_error', `${column} as ${type}`);
        assert.match(failure(answer).message, new RegExp(`column "${column}"`));
      }
    });

    test('without a model the columns are inferred so that nothing is lost', async () => {
      const { parse, rows, columns } = bench();
      const answer = await parse(items, { ...big, target: { table: 'big_inferred' } });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await columns('big_inferred'), [
        { name: 'id', type: 'decimal' },
        { name: 'balance', type: 'decimal' },
        { name: 'ratio', type: 'decimal' },
        { name: 'plain', type: 'double' },
      ]);
      const loaded = await rows('big_inferred');
      assert.deepEqual(
        loaded.map(({ id }) => id),
        ['9007199254740993', '-9223372036854775808', '123456789012345678901234567890'],
      );
      assert.deepEqual(
        loaded.map(({ balance }) => balance),
        ['12345678901234567.89', '0.1', '-0.000000000000000000001'],
      );
      assert.equal(loaded[0]?.['ratio'], '0.1234567890123456789012');
      assert.equal(loaded[2]?.['ratio'], `1${'0'.repeat(400)}`);
      assert.ok(BIG_NUMBERS.includes('1E400'));
    });

    test('a column of small numbers is widened when a big one comes', async () => {
      const { parse, api, rows, columns } = bench();
      api.answer('GET /growing', (exchange) => {
        const isFirst = exchange.number('page', 1) === 1;
        const text = isFirst
          ? '{"items":[{"id":1}],"more":true}'
          : '{"items":[{"id":9007199254740993}],"more":false}';
        exchange.send(200, text, { 'content-type': 'application/json' });
      });
      const answer = await parse(asItComes(), {
        url: '/growing',
        request: nextPage,
        target: { table: 'growing' },
      });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await columns('growing'), [{ name: 'id', type: 'bigint' }]);
      assert.deepEqual(await rows('growing'), [{ id: 1 }, { id: '9007199254740993' }]);
    });

    test('a string of digits is no number', async () => {
      const { parse, rows, columns } = bench();
      const answer = await parse('return { data: [{ data: [{ zip: "01234567890123456789" }] }] };', {
        target: { table: 'zip_codes' },
      });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await columns('zip_codes'), [{ name: 'zip', type: 'string' }]);
      assert.deepEqual(await rows('zip_codes'), [{ zip: '01234567890123456789' }]);
    });

    test('from a table to the next request and back, not a digit is lost', async () => {
      const { parse, run, api, rows, app } = bench();
      await app('DELETE', '/tables/local/main/big_round');
      const loaded = await parse(items, {
        ...big,
        target: { table: 'big_round', model: model({ id: 'decimal', balance: 'decimal' }) },
      });
      assert.equal(loaded.status, 200, loaded.text);
      const sent = await run({
        sourceTable: { source: 'local', table: 'big_round' },
        request: {
          url: `${api.url}/echo`,
          method: 'POST',
          bodyType: 'JSON -> stringify()',
          body: { script: 'return $ctx.data;' },
        },
        target: {
          action: 'parse JSON',
          table: 'big_back',
          parsingScript: 'return { data: [{ data: [JSON.parse($ctx.response.body.body)] }] };',
        },
      });
      assert.equal(sent.status, 200, sent.text);
      assert.deepEqual(await rows('big_back'), await rows('big_round'));
    });
  });

  describe('temporary tables', () => {
    const temporary = asItComes("tmpTable: 'true'");
    const during = async (name: string, pages: unknown[][]) => {
      const before = physicalTables();
      const seen: string[][] = [];
      const options = serve(name, pages, async (page) => {
        if (page < 2) return;
        const created = () => physicalTables().filter((table) => !before.includes(table));
        await eventually(() => assert.equal(created().length, 1));
        seen.push(created());
      });
      const answer = await bench().parse(temporary, { ...options, target: { table: name } });
      return { answer, seen, left: physicalTables().filter((table) => !before.includes(table)) };
    };

    test('are real tables while the job runs, unseen by others, and gone when it succeeds', async () => {
      const { answer, seen, left } = await during('tmp_done', [[{ n: 1 }], [{ n: 2 }]]);
      assert.equal(answer.status, 200, answer.text);
      assert.equal(seen[0]?.length, 1);
      assert.deepEqual(left, []);
      assert.equal(answer.body.result.stats.records, 2);
    });

    test('are gone when it fails', async () => {
      const { answer, seen, left } = await during('tmp_failed', [[{ n: 1 }], [7]]);
      assert.equal(answer.status, 422, answer.text);
      assert.equal(seen[0]?.length, 1);
      assert.deepEqual(left, []);
    });

    test('are gone when it is cancelled', async () => {
      const { api, service, token, run } = bench();
      const before = physicalTables();
      const held = Promise.withResolvers<void>();
      const options = serve('tmp_cancelled', [[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]], (page) =>
        page === 2 ? held.promise : Promise.resolve(),
      );
      const submitted = await run(
        {
          request: { url: api.url + options.url, method: 'GET', ...options.request },
          target: { action: 'parse JSON', parsingScript: temporary, table: 'tmp_cancelled' },
        },
        { isAsync: true },
      );
      await api.until(() => api.requestsTo('/pages/tmp_cancelled').length === 2);
      await eventually(() => assert.equal(physicalTables().length, before.length + 1));
      const { jobId } = submitted.body.result;
      await service.call('POST', `/api/v1/jobs/${jobId}/cancel`, token);
      await service.call('POST', `/api/v1/jobs/${jobId}/cancel`, token);
      const events = await fetch(`${service.url}/api/v1/jobs/${jobId}/events`, {
        headers: { authorization: `Bearer ${token}` },
      });
      assert.match(await events.text(), /"state":"cancelled"/);
      held.resolve();
      assert.deepEqual(physicalTables(), before);
    });
  });

  test('any JSON value comes back from a json column as it was', async () => {
    const { api, parse, rows, app } = bench();
    let values: unknown[] = [];
    api.answer('GET /any-json', (exchange) => exchange.json(200, values));
    const value = fc.jsonValue({ stringUnit: 'binary', maxDepth: 3 });
    await fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: 1, maxLength: 30 }), async (given) => {
        values = given;
        await app('DELETE', '/tables/local/main/any_json');
        const answer = await parse(
          "return { data: [{ format: 'JSON', data: $ctx.response.body.map((value) => ({ value })) }] };",
          { url: '/any-json', target: { table: 'any_json', model: model({ value: 'json' }) } },
        );
        assert.equal(answer.status, 200, answer.text);
        const back = (await rows('any_json')).map((row) => row['value']);
        assert.equal(JSON.stringify(back), JSON.stringify(given));
      }),
      { numRuns: 15 },
    );
  });

  test('any text comes back from an inferred column as it was', async () => {
    const { api, parse, rows, app } = bench();
    let values: string[] = [];
    api.answer('GET /any-text', (exchange) => exchange.json(200, values));
    const text = fc.string({ unit: 'binary', maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 30 }), async (given) => {
        values = given;
        await app('DELETE', '/tables/local/main/any_text');
        const answer = await parse(
          'return { data: [{ data: $ctx.response.body.map((value) => ({ value })) }] };',
          { url: '/any-text', target: { table: 'any_text' } },
        );
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(
          (await rows('any_text')).map((row) => row['value']),
          given,
        );
      }),
      { numRuns: 15 },
    );
  });
});
