import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, sharedBench } from '../support/shared-bench.ts';

/** Each property of a configuration that holds a script, and what stands around it. */
const scriptProperties = {
  'request.url': (script: string) => ({ request: { url: { script } } }),
  'request.parameters': (script: string) => ({ request: { parameters: script } }),
  'request.headers': (script: string) => ({ request: { headers: script } }),
  'request.body': (script: string) => ({
    request: { method: 'POST', bodyType: 'JSON -> stringify()', body: { script } },
  }),
  'request.interceptors': (script: string) => ({ request: { interceptors: script } }),
  'target.parsingScript': (script: string) => ({ target: { parsingScript: script } }),
  'target.mapping': (script: string) => ({ target: { mapping: script } }),
};

describe('Contract 2.4: scripting environment', () => {
  const bench = sharedBench({ settings: { scriptCallSeconds: 1 } });

  for (const [property, around] of Object.entries(scriptProperties)) {
    test(`the last statement of a script must be a return: ${property}`, async () => {
      const { parse, api } = bench();
      const before = api.requests.length;
      const { request = {}, target = {} } = around('const a = 1;\na;') as Record<
        string,
        Record<string, unknown>
      >;
      const error = failure(await parse('return null', { url: '/echo', request, target }));
      assert.equal(error.code, 'script_error');
      assert.equal(error['path'], property);
      assert.match(error.message, /last statement .* return/);
      assert.equal(api.requests.length, before, 'nothing is sent');
    });
  }

  test('the last statement of a script must be a return: one in a branch is not enough', async () => {
    const { parse } = bench();
    const error = failure(await parse('if ($ctx) { return {}; }'));
    assert.equal(error.code, 'script_error');
    assert.match(error.message, /last statement/);
  });

  test('the value of the return statement is the result of the script', async () => {
    const { run, api } = bench();
    const answer = await run({
      request: {
        url: { script: `const base = '${api.url}'; return base + '/echo'` },
        method: 'POST',
        parameters: 'const p = { a: "1" }; return p;',
        headers: 'return { "X-From": "headers" }',
        bodyType: 'JSON -> stringify()',
        body: { script: 'return { b: [1, 2] }; // the body' },
        interceptors: "return [{ name: 'extendRequest', params: { parameters: { i: '2' }, headers: {} } }];",
      },
      target: {
        action: 'parse JSON',
        table: 'returned',
        parsingScript: `
          const { query, headers, body } = $ctx.response.body;
          return { data: [{ format: 'objects', data: [{ query, from: headers['x-from'], body }] }] };`,
        mapping: `return {
          format: 'table',
          data: $ctx.data.map((each) => ({ query: each.query.join(';'), from: each.from, body: each.body })),
        };`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await bench().rows('returned'), [
      { query: 'a,1;i,2', from: 'headers', body: '{"b":[1,2]}' },
    ]);
  });

  test('the utility library is preloaded in version 1.8.3, in every script', async () => {
    const { run, api } = bench();
    const answer = await run({
      request: {
        url: { script: `return _.template('${api.url}/<%= path %>')({ path: 'echo' })` },
        method: 'POST',
        parameters: 'return { v: _.VERSION };',
        headers: 'return _.object([["X-V", _.VERSION]]);',
        bodyType: 'JSON -> stringify()',
        body: { script: 'return { v: _.VERSION };' },
        interceptors:
          "return [{ name: 'extendRequest', params: { parameters: { i: _.VERSION }, headers: {} } }];",
      },
      target: {
        action: 'parse JSON',
        table: 'versions',
        parsingScript: `
          const { query, headers, body } = $ctx.response.body;
          return { data: [{ format: 'objects', data: [[_.object(query).v, _.object(query).i, headers['x-v'], JSON.parse(body).v, _.VERSION]] }] };`,
        mapping: `return { data: $ctx.data[0].concat(_.VERSION).map((version) => ({ version })) };`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    const rows = await bench().rows('versions');
    assert.deepEqual(
      rows.map(({ version }) => version),
      Array(6).fill('1.8.3'),
    );
  });

  test('scripts are strict, and have neither timers nor network, files or require', async () => {
    const { parse, rows } = bench();
    const answer = await parse(
      `const names = ['setTimeout', 'setInterval', 'queueMicrotask', 'fetch', 'XMLHttpRequest', 'WebSocket',
          'require', 'process', 'module', 'exports', 'Buffer', 'WebAssembly', 'ivm'];
       const strict = (function () { return this === undefined; })();
       return { data: [{ data: [{ strict, there: names.filter((name) => name in globalThis).join() }] }] };`,
      { target: { table: 'strictness' } },
    );
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('strictness'), [{ strict: true, there: '' }]);
    const error = failure(await parse('undeclared = 1; return null;'));
    assert.match(error.message, /undeclared/);
  });

  test("console.log, warn and error go to the job's log", async () => {
    const { parse, log } = bench();
    const answer = await parse(
      "console.log('read', 2, { a: 1 }); console.warn('odd'); console.error('bad'); return null;",
      { request: { parameters: "console.log('from parameters'); return {};" } },
    );
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await log(answer.body.result.jobId), [
      'info: from parameters',
      'info: read 2 {"a":1}',
      'warn: odd',
      'error: bad',
    ]);
  });

  test('$ctx is fresh for each script: what one changes in it nobody else sees', async () => {
    const { parse, rows, setVariable } = bench();
    await setVariable('shape', { kept: true });
    const seen = 'JSON.stringify([$ctx.variables.shape, $ctx.added === undefined])';
    const answer = await parse(
      `return { data: [{ data: [{ parsing: ${seen}, headers: $ctx.response.body.headers['x-seen'] }] }] };`,
      {
        url: '/echo',
        target: { table: 'fresh' },
        request: {
          parameters: '$ctx.variables.shape.kept = false; $ctx.added = 1; return {};',
          headers: `return { 'X-Seen': ${seen} };`,
        },
      },
    );
    assert.equal(answer.status, 200, answer.text);
    const untouched = '[{"kept":true},true]';
    assert.deepEqual(await rows('fresh'), [{ parsing: untouched, headers: untouched }]);
  });

  describe('$ctx.variables: all scripts', () => {
    const shown = 'JSON.stringify([$ctx.variables.color, $ctx.variables.region])';

    test('an object of variable name to value, in every script', async () => {
      const { run, rows, setVariable, putSource, api } = bench();
      await setVariable('color', { deep: ['red'] });
      await putSource({ name: 'properties', properties: { region: 'eu' } });
      const answer = await run({
        request: {
          source: 'properties',
          url: { script: `return '${api.url}/echo?url=' + encodeURIComponent(${shown});` },
          method: 'POST',
          parameters: `return { parameters: ${shown} };`,
          headers: `return { 'X-Headers': ${shown} };`,
          bodyType: 'JSON -> stringify()',
          body: { script: `return { body: ${shown} };` },
          interceptors: `return [{ name: 'extendRequest', params: { parameters: { i: ${shown} }, headers: {} } }];`,
        },
        target: {
          action: 'parse JSON',
          table: 'seen_variables',
          parsingScript: `
            const { query, headers, body } = $ctx.response.body;
            const seen = [..._.object(query).url ? _.values(_.object(query)) : [], headers['x-headers'], JSON.parse(body).body, ${shown}];
            return { data: [{ format: 'objects', data: seen }] };`,
          mapping: `return { data: [...$ctx.data, ${shown}].map((seen) => ({ seen })) };`,
        },
      });
      assert.equal(answer.status, 200, answer.text);
      const seen = (await rows('seen_variables')).map((row) => row['seen']);
      assert.deepEqual(seen, Array(7).fill('[{"deep":["red"]},"eu"]'));
    });

    test('application variables are overridden by execution-context variables, the HTTP source properties among them', async () => {
      const { parse, rows, setVariable, putSource } = bench();
      await setVariable('region', 'of the application');
      await setVariable('only', 'of the application');
      await putSource({ name: 'overriding', properties: { region: 'of the source' } });
      const answer = await parse(
        `const { region, only, round = 1 } = $ctx.variables;
         return {
           data: [{ data: [{ region, only }] }],
           variables: {
             round: { value: round + 1, scope: 'executionContext' },
             region: { value: 'of the script', scope: 'executionContext' },
           },
           doWhile: round === 1,
         };`,
        { request: { source: 'overriding' }, target: { table: 'overriding' } },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await rows('overriding'), [
        { region: 'of the source', only: 'of the application' },
        { region: 'of the script', only: 'of the application' },
      ]);
      assert.equal(await bench().variable('region'), 'of the application');
    });

    test("the secrets in a source's auth are not among them", async () => {
      const { parse, rows, putSource, api } = bench();
      const { username, password } = api.credentials;
      await putSource({
        name: 'guarded',
        properties: { region: 'eu' },
        auth: { type: 'basic', username, password },
      });
      const answer = await parse(
        `const seen = JSON.stringify([$ctx, _.keys($ctx.variables)]);
         return { data: [{ data: [{ seen }] }] };`,
        { url: '/basic/echo', request: { source: 'guarded' }, target: { table: 'guarded' } },
      );
      assert.equal(answer.status, 200, answer.text);
      const [row] = await rows('guarded');
      const [{ variables }] = JSON.parse(String(row?.['seen']));
      assert.equal(variables.region, 'eu');
      assert.ok(!JSON.stringify(variables).includes(password));
      assert.ok(!Object.keys(variables).some((name) => /auth|password|secret/i.test(name)));
    });
  });

  describe('$ctx.data: all scripts', () => {
    const shown = 'JSON.stringify($ctx.data)';
    const seenByAll = async (sourceTable: object | null, table: string) => {
      const { run, api } = bench();
      const answer = await run({
        ...(sourceTable && { sourceTable: { source: 'local', ...sourceTable } }),
        request: {
          url: { script: `return '${api.url}/echo?url=' + encodeURIComponent(${shown});` },
          method: 'POST',
          parameters: `return { parameters: ${shown} };`,
          headers: `return { 'X-Headers': ${shown} };`,
          bodyType: 'JSON -> stringify()',
          body: { script: `return { body: ${shown} };` },
          interceptors: `return [{ name: 'extendRequest', params: { parameters: { i: ${shown} }, headers: {} } }];`,
        },
        target: {
          action: 'parse JSON',
          table,
          parsingScript: `
            const { query, headers, body } = $ctx.response.body;
            return { data: [{ data: [..._.values(_.object(query)), headers['x-headers'], JSON.parse(body).body, ${shown}].map((seen) => ({ seen })) }] };`,
        },
      });
      assert.equal(answer.status, 200, answer.text);
      return (await bench().rows(table)).map((row) => JSON.parse(String(row['seen'])));
    };
    const customers = [
      { id: 1, name: 'Ada' },
      { id: 2, name: 'Bob' },
      { id: 3, name: null },
    ];

    test('the current source record as an object (column name to value) when batching is off', async () => {
      await bench().app('PUT', '/tables/local/main/customers', customers);
      const seen = await seenByAll({ table: 'customers' }, 'seen_records');
      assert.deepEqual(seen, [
        ...Array(6).fill(customers[0]),
        ...Array(6).fill(customers[1]),
        ...Array(6).fill(customers[2]),
      ]);
    });

    test('an array of such objects when batching is on', async () => {
      await bench().app('PUT', '/tables/local/main/customers', customers);
      const seen = await seenByAll({ table: 'customers', batching: true, batchSize: 2 }, 'seen_batches');
      assert.deepEqual(seen, [...Array(6).fill(customers.slice(0, 2)), ...Array(6).fill(customers.slice(2))]);
    });

    test('null without a source table', async () => {
      assert.deepEqual(await seenByAll(null, 'seen_nothing'), Array(6).fill(null));
    });
  });

  describe('$ctx.response: Parsing script only', () => {
    test('no other script has it', async () => {
      const { run, rows, api } = bench();
      const there = "String('response' in $ctx)";
      const answer = await run({
        request: {
          url: { script: `return '${api.url}/echo?url=' + ${there};` },
          method: 'POST',
          parameters: `return { parameters: ${there} };`,
          headers: `return { 'X-Headers': ${there} };`,
          bodyType: 'JSON -> stringify()',
          body: { script: `return { body: ${there} };` },
          interceptors: `return [{ name: 'extendRequest', params: { parameters: { i: ${there} }, headers: {} } }];`,
        },
        target: {
          action: 'parse JSON',
          table: 'responses',
          parsingScript: `
            const { query, headers, body } = $ctx.response.body;
            const others = [..._.values(_.object(query)), headers['x-headers'], JSON.parse(body).body];
            return { data: [{ format: 'objects', data: [...others, ${there}] }] };`,
          mapping: `return { data: [...$ctx.data, ${there}].map((there) => ({ there })) };`,
        },
      });
      assert.equal(answer.status, 200, answer.text);
      const seen = (await rows('responses')).map((row) => row['there']);
      assert.deepEqual(seen, ['false', 'false', 'false', 'false', 'false', 'true', 'false']);
    });

    const seen = async (expression: string, url: string, table: string) => {
      const answer = await bench().parse(
        `return { data: [{ data: [{ seen: JSON.stringify(${expression}) }] }] };`,
        { url, target: { table } },
      );
      assert.equal(answer.status, 200, answer.text);
      return JSON.parse(String((await bench().rows(table))[0]?.['seen']));
    };

    test('statusCode: integer, HTTP status code', async () => {
      assert.equal(await seen('$ctx.response.statusCode', '/status/201', 'status_created'), 201);
      assert.equal(await seen('$ctx.response.statusCode', '/status/404', 'status_missing'), 404);
    });

    test('statusMessage: string, HTTP status message', async () => {
      bench().api.answer('GET /worded', ({ response }) => {
        response.writeHead(200, 'All Quite Well', { 'content-type': 'application/json' }).end('{}');
      });
      assert.equal(await seen('$ctx.response.statusMessage', '/worded', 'status_worded'), 'All Quite Well');
      assert.equal(await seen('$ctx.response.statusMessage', '/status/202', 'status_usual'), 'Accepted');
    });

    test('headers: object of response headers; names in lower case, repeated ones joined, set-cookie an array', async () => {
      const { api } = bench();
      api.answer('GET /headers', ({ response }) => {
        response.writeHead(
          200,
          [
            ['Content-Type', 'application/json'],
            ['X-Page-Count', '7'],
            ['X-Tag', 'a'],
            ['x-tag', 'b, c'],
            ['Set-Cookie', 'a=1; Path=/'],
            ['Set-Cookie', 'b=2'],
          ].flat(),
        );
        response.end('{}');
      });
      const headers = await seen('$ctx.response.headers', '/headers', 'headers');
      assert.equal(headers['x-page-count'], '7');
      assert.equal(headers['x-tag'], 'a, b, c');
      assert.deepEqual(headers['set-cookie'], ['a=1; Path=/', 'b=2']);
      assert.equal(headers['content-type'], 'application/json');
      assert.ok(Object.keys(headers).every((name) => name === name.toLowerCase()));

      api.answer('GET /one-cookie', (exchange) => exchange.json(200, {}, { 'set-cookie': 'only=1' }));
      assert.deepEqual(await seen("$ctx.response.headers['set-cookie']", '/one-cookie', 'cookie'), [
        'only=1',
      ]);
    });

    test('body: object or array, the parsed JSON body', async () => {
      const body = await seen('$ctx.response.body', '/orders/1', 'body_object');
      assert.equal(body.id, 1);
      const list = await seen('$ctx.response.body', '/orders/until-empty?size=2', 'body_array');
      assert.deepEqual(
        list.map((order: { id: number }) => order.id),
        [1, 2],
      );
    });

    test('bodyStr: string, the body before parsing', async () => {
      bench().api.answer('GET /spaced', (exchange) =>
        exchange.send(200, '\t{ "a" :1.50, "b": "\\u00e4"  }\n', { 'content-type': 'application/json' }),
      );
      assert.equal(
        await seen('$ctx.response.bodyStr', '/spaced', 'body_str'),
        '\t{ "a" :1.50, "b": "\\u00e4"  }\n',
      );
    });

    test('an empty body, and 204: body is null, bodyStr is empty, and the script runs', async () => {
      const expression = '[$ctx.response.statusCode, $ctx.response.body, $ctx.response.bodyStr]';
      assert.deepEqual(await seen(expression, '/empty', 'body_empty'), [200, null, '']);
      assert.deepEqual(await seen(expression, '/no-content', 'body_none'), [204, null, '']);
    });

    test('a body that is no JSON, and is looked at: 502 malformed_response with the position', async () => {
      const answer = await bench().parse('return { data: [{ data: $ctx.response.body.items }] };', {
        url: '/malformed-json',
        target: { table: 'malformed' },
      });
      assert.equal(answer.status, 502);
      const error = failure(answer);
      assert.equal(error.code, 'malformed_response');
      assert.match(error.message, /not JSON/);
      assert.match(error.message, /position 32 \(line 2, column 11\)/);
      assert.match(error.message, /\{\\"id\\": 2,\}/, 'an excerpt');
    });

    test('a body that is no JSON can still be read as bodyStr', async () => {
      const text = await seen('$ctx.response.bodyStr', '/malformed-json', 'malformed_text');
      assert.equal(text, '{"items": [{"id": 1},\n {"id": 2,}\n]}');
    });
  });

  describe('errors of scripts', () => {
    test('name the script, line and column, and hold the line itself; no stack of ours', async () => {
      const answer = await bench().parse('const a = 1;\n\n  const b = a.missing.deep;\nreturn b;');
      assert.equal(answer.status, 422);
      const error = failure(answer);
      assert.equal(error.code, 'script_error');
      assert.equal(error['path'], 'target.parsingScript');
      assert.equal(error['line'], 3);
      assert.equal(error['column'], 23);
      assert.match(error.message, /^target\.parsingScript, line 3, column 23: TypeError: .*deep/);
      assert.match(error.message, /\n {6}const b = a\.missing\.deep;\n +\^$/);
      assert.doesNotMatch(error.message, /\bat \w|\.js:|\.ts:|node:|isolate/);
    });

    test('of syntax name the place, too, before anything is sent', async () => {
      const { parse, api } = bench();
      const before = api.requests.length;
      const error = failure(
        await parse('return null', { request: { headers: 'const a = 1;\nreturn { a: ];' } }),
      );
      assert.equal(error.code, 'script_error');
      assert.equal(error['path'], 'request.headers');
      assert.equal(error['line'], 2);
      assert.equal(error['column'], 13);
      assert.match(error.message, /return \{ a: \];/);
      assert.equal(api.requests.length, before);
    });

    test('what a script throws is told, be it an Error or not', async () => {
      const { parse } = bench();
      const thrown = failure(await parse("throw new Error('no customer');\nreturn 1;"));
      assert.match(thrown.message, /line 1, .*no customer/);
      const text = failure(await parse("throw 'just text';\nreturn 1;"));
      assert.match(text.message, /just text/);
    });

    test('a script that runs too long fails with script_timeout, and the next job of the application runs', async () => {
      const { parse } = bench();
      const answer = await parse('for (;;) {}\nreturn 1;');
      assert.equal(answer.status, 422);
      assert.equal(failure(answer).code, 'script_timeout');
      assert.match(failure(answer).message, /1000 ms/);
      assert.equal((await parse('return null;')).status, 200);
    });
  });
});
