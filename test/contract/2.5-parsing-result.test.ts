import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, sharedBench } from '../support/shared-bench.ts';

describe('Contract 2.5: parsing script result', () => {
  const bench = sharedBench({ api: { orders: 30 } });

  const refused = async (result: string, message: RegExp) => {
    const answer = await bench().parse(`return ${result};`, { target: { table: 'never' } });
    assert.equal(answer.status, 422, `${result}: ${answer.text}`);
    const error = failure(answer);
    assert.equal(error.code, 'invalid_result', result);
    assert.equal(error['path'], 'target.parsingScript');
    assert.match(error.message, message, result);
  };

  describe('the object itself', () => {
    test('all properties are optional: an empty object loads nothing and ends the loop', async () => {
      const answer = await bench().parse('return {};', { target: { table: 'nothing' } });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(answer.body.result.output, {
        pages: 1,
        records: 0,
        bytes: 0,
        tables: [],
      });
      assert.equal(await bench().columns('nothing'), undefined);
    });

    test('null and undefined mean nothing to load and no further page', async () => {
      for (const nothing of ['return null;', 'return undefined;', 'return;']) {
        const { parse, api } = bench();
        const before = api.requests.length;
        const answer = await parse(nothing);
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.body.result.stats.records, 0);
        assert.equal(api.requests.length, before + 1);
      }
    });

    test('anything but an object is an error', async () => {
      for (const result of ['[]', '7', '"text"', 'true']) {
        const answer = await bench().parse(`return ${result};`);
        assert.equal(answer.status, 422, answer.text);
        assert.match(failure(answer).message, /must return an object, or null/);
      }
    });

    test('an unknown property is named, with the nearest known one', async () => {
      await refused('{ doWhlie: true }', /doWhlie.*Did you mean "doWhile"/);
      await refused('{ data: [{ data: [], tablename: "x" }] }', /data\[0\]\.tablename.*"tableName"/);
      await refused('{ variables: { a: { value: 1, scope: "application", x: 1 } } }', /variables\.a/);
      await refused('{ doWhile: { uri: "/x" } }', /doWhile/);
    });
  });

  describe('data: array of table-data objects', () => {
    test('maps the response onto one table', async () => {
      const { parse, rows } = bench();
      const answer = await parse(
        'return { data: [{ data: $ctx.response.body.items.map(({ id, status }) => ({ id, status })) }] };',
        { url: '/orders?size=3', target: { table: 'one_table' } },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await rows('one_table'), [
        { id: 1, status: 'paid' },
        { id: 2, status: 'shipped' },
        { id: 3, status: 'cancelled' },
      ]);
    });

    test('maps the response onto several tables', async () => {
      const { parse, rows } = bench();
      const answer = await parse(
        `const { items } = $ctx.response.body;
         return { data: [
           { data: items.map(({ id, customer_id }) => ({ id, customer_id })) },
           { data: items.flatMap(({ id, lines }) => lines.map((line) => ({ order: id, ...line }))), tableNameSuffix: '_lines' },
           { data: _.uniq(items.map(({ customer }) => customer), false, (one) => one.name), tableName: 'buyers' },
         ] };`,
        { url: '/orders?size=2', target: { table: 'several' } },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await rows('several'), [
        { id: 1, customer_id: 1 },
        { id: 2, customer_id: 2 },
      ]);
      assert.equal((await rows('several_lines')).length, 5);
      assert.deepEqual(
        (await rows('buyers')).map(({ name }) => name),
        ['Søren Åberg', '李小龍'],
      );
      assert.deepEqual(
        answer.body.result.output.tables.map((each: { table: string; records: number }) => [
          each.table,
          each.records,
        ]),
        [
          ['several', 2],
          ['several_lines', 5],
          ['buyers', 2],
        ],
      );
    });

    test('the same table twice gets the records of both', async () => {
      const { parse, rows } = bench();
      const answer = await parse('return { data: [{ data: [{ n: 1 }] }, { data: [{ n: 2 }] }] };', {
        target: { table: 'twice' },
      });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await rows('twice'), [{ n: 1 }, { n: 2 }]);
    });

    test('anything but an array of table-data objects is an error that names the place', async () => {
      const named = async (result: string, message: RegExp) => {
        const answer = await bench().parse(`return ${result};`, { target: { table: 'never' } });
        assert.equal(answer.status, 422, answer.text);
        assert.match(failure(answer).message, message);
      };
      await named('{ data: {} }', /data must be an array/);
      await named('{ data: "x" }', /data must be an array/);
      await named('{ data: [[]] }', /data\[0\]/);
      await named('{ data: [{ data: [] }, 7] }', /data\[1\]/);
      await named('{ data: [{ data: null }] }', /data\[0\]\.data/);
      await named('{ data: [{}] }', /data\[0\]\.data/);
      await named('{ data: [{ data: [{ a: 1 }, "b"] }] }', /data\[0\]\.data\[1\]/);
    });
  });

  describe('variables: object that maps a variable name to a value', () => {
    test('a string value sets an application variable', async () => {
      const { parse, variable } = bench();
      const answer = await parse('return { variables: { lastRun: "2025-01-01" } };');
      assert.equal(answer.status, 200, answer.text);
      assert.equal(await variable('lastRun'), '2025-01-01');
    });

    test('an object value has value and scope: application', async () => {
      const { parse, variable } = bench();
      const answer = await parse(
        'return { variables: { state: { value: { after: [1, null, "x"] }, scope: "application" } } };',
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await variable('state'), { after: [1, null, 'x'] });
    });

    test('an object value has value and scope: executionContext', async () => {
      const { parse, variable, rows } = bench();
      const answer = await parse(
        `const { page = 1 } = $ctx.variables;
         return {
           data: [{ data: [{ page }] }],
           variables: { page: { value: page + 1, scope: 'executionContext' } },
           doWhile: page < 3,
         };`,
        { target: { table: 'context_pages' } },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await rows('context_pages'), [{ page: 1 }, { page: 2 }, { page: 3 }]);
      assert.equal(await variable('page'), undefined);
    });

    test('anything else is an error that names the variable', async () => {
      const wrong = [
        '7',
        'true',
        'null',
        '[]',
        '{}',
        '{ value: 1 }',
        '{ scope: "application" }',
        '{ value: 1, scope: "global" }',
        '{ value: 1, scope: "Application" }',
        '{ value: undefined, scope: "application" }',
      ];
      for (const value of wrong) await refused(`{ variables: { broken: ${value} } }`, /variables\.broken/);
      await refused('{ variables: [] }', /variables/);
      assert.equal(await bench().variable('broken'), undefined);
    });
  });

  describe('doWhile: boolean or object', () => {
    const urlsAfter = async (script: string, url: string) => {
      const { parse, api } = bench();
      const before = api.requests.length;
      const answer = await parse(script, { url, target: { table: 'do_while' } });
      assert.equal(answer.status, 200, answer.text);
      return api.requests.slice(before).map((request) => request.url);
    };
    const times = (count: number, doWhile: string) => `
      const { round = 1 } = $ctx.variables;
      return {
        variables: { round: { value: round + 1, scope: 'executionContext' } },
        doWhile: round < ${count} ? ${doWhile} : false,
      };`;

    test('false, or none: the request is not executed again', async () => {
      assert.deepEqual(await urlsAfter('return { doWhile: false };', '/echo?a=1'), ['/echo?a=1']);
      assert.deepEqual(await urlsAfter('return { variables: {} };', '/echo?a=1'), ['/echo?a=1']);
    });

    test('true: the request is executed again', async () => {
      assert.deepEqual(await urlsAfter(times(3, 'true'), '/echo?a=1'), Array(3).fill('/echo?a=1'));
    });

    test('an object: the request is executed again, with the same URL', async () => {
      assert.deepEqual(await urlsAfter(times(3, '{}'), '/echo?a=1'), Array(3).fill('/echo?a=1'));
    });

    test('url: sets the URL of the next request', async () => {
      const { api } = bench();
      const urls = await urlsAfter(
        'const { next } = $ctx.response.body; return { doWhile: next ? { url: next } : false };',
        '/orders/by-next?size=10',
      );
      assert.deepEqual(
        urls,
        [1, 2, 3].map((page) => `/orders/by-next?size=10${page > 1 ? `&page=${page}` : ''}`),
      );
      assert.ok(api.url.startsWith('http://'));
    });

    test('url: a relative one resolves against the last one', async () => {
      const urls = await urlsAfter(
        'const { next } = $ctx.response.body; return { doWhile: next ? { url: next } : false };',
        '/orders/by-next?size=10&form=relative',
      );
      assert.equal(urls.length, 3);
      assert.deepEqual(await urlsAfter(times(2, '{ url: "?page=2" }'), '/orders/by-page?page=1&size=5'), [
        '/orders/by-page?page=1&size=5',
        '/orders/by-page?page=2',
      ]);
      assert.deepEqual(await urlsAfter(times(2, '{ url: "by-offset" }'), '/orders/by-page'), [
        '/orders/by-page',
        '/orders/by-offset',
      ]);
    });

    test('url: stays in force for a later doWhile without one', async () => {
      const script = `
        const { round = 1 } = $ctx.variables;
        return {
          variables: { round: { value: round + 1, scope: 'executionContext' } },
          doWhile: [{ url: '/echo?b=2' }, true, {}, false][round - 1],
        };`;
      assert.deepEqual(await urlsAfter(script, '/echo?a=1'), [
        '/echo?a=1',
        '/echo?b=2',
        '/echo?b=2',
        '/echo?b=2',
      ]);
    });

    test('url: that is none is an error, and nothing more is sent', async () => {
      const { parse, api } = bench();
      for (const url of ['http://', 'ftp://127.0.0.1/x', 'mailto:a@example.com']) {
        const before = api.requests.length;
        const answer = await parse(`return { doWhile: { url: '${url}' } };`, { url: '/echo' });
        assert.equal(answer.status, 422, `${url}: ${answer.text}`);
        assert.equal(api.requests.length, before + 1);
      }
    });

    test('Parameters, Headers, Body and Interceptors scripts run again on every round, with the changed variables', async () => {
      const { run, api } = bench();
      const before = api.requests.length;
      const round = 'String($ctx.variables.round || 1)';
      const answer = await run({
        request: {
          url: `${api.url}/echo`,
          method: 'POST',
          parameters: `return { p: ${round} };`,
          headers: `return { 'X-Round': ${round} };`,
          bodyType: 'JSON -> stringify()',
          body: { script: `return { b: ${round} };` },
          interceptors: `return [{ name: 'extendRequest', params: { parameters: { i: ${round} }, headers: {} } }];`,
        },
        target: { action: 'parse JSON', parsingScript: times(2, 'true') },
      });
      assert.equal(answer.status, 200, answer.text);
      const sent = api.requests
        .slice(before)
        .map(({ url, headers, body }) => [url, headers['x-round'], body.toString()]);
      assert.deepEqual(sent, [
        ['/echo?p=1&i=1', '1', '{"b":"1"}'],
        ['/echo?p=2&i=2', '2', '{"b":"2"}'],
      ]);
    });

    test('with a source table the loop runs to its end for each record, and begins anew at the configured URL', async () => {
      const { run, api, app } = bench();
      await app('PUT', '/tables/local/main/loop_records', [{ id: 1 }, { id: 2 }]);
      const before = api.requests.length;
      const answer = await run({
        sourceTable: { source: 'local', table: 'loop_records' },
        request: { url: `${api.url}/echo`, method: 'GET', headers: 'return { "X-Id": $ctx.data.id };' },
        target: {
          action: 'parse JSON',
          parsingScript: `
            const second = $ctx.response.body.path === '/echo' && $ctx.response.body.query.length > 0;
            return { doWhile: second ? false : { url: '/echo?page=2' } };`,
        },
      });
      assert.equal(answer.status, 200, answer.text);
      const sent = api.requests.slice(before).map(({ url, headers }) => [headers['x-id'], url]);
      assert.deepEqual(sent, [
        ['1', '/echo'],
        ['1', '/echo?page=2'],
        ['2', '/echo'],
        ['2', '/echo?page=2'],
      ]);
      assert.equal(answer.body.result.stats.sourceRecords, 2);
    });

    test('anything else is an error', async () => {
      for (const value of ['1', '"true"', '[]', '{ url: 7 }', '{ url: "" }', '{ url: null }']) {
        await refused(`{ doWhile: ${value} }`, /doWhile/);
      }
    });

    test('the same request with the same answer, and records each time, is a paging_loop after the third', async () => {
      const { parse, api } = bench();
      const before = api.requestsTo('/repeat').length;
      const answer = await parse(
        'const { items, next } = $ctx.response.body; return { data: [{ data: items.map(({ id }) => ({ id })) }], doWhile: { url: next } };',
        { url: '/repeat', target: { table: 'circle' } },
      );
      assert.equal(answer.status, 422);
      const error = failure(answer);
      assert.equal(error.code, 'paging_loop');
      assert.match(error.message, /same request .* same response 3 times/);
      assert.match(error.message, /onRepeat/);
      assert.equal(api.requestsTo('/repeat').length, before + 3);
    });

    test('onRepeat continue allows it', async () => {
      const { parse, rows } = bench();
      const answer = await parse(
        `const { round = 1 } = $ctx.variables;
         return {
           data: [{ data: [{ id: $ctx.response.body.items[0].id }] }],
           variables: { round: { value: round + 1, scope: 'executionContext' } },
           doWhile: round < 5,
         };`,
        {
          url: '/repeat',
          target: { table: 'allowed_circle' },
          request: { options: { onRepeat: 'continue' } },
        },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.equal((await rows('allowed_circle')).length, 5);
    });

    test('polling that loads nothing is no loop', async () => {
      const { parse, api, rows } = bench();
      let asked = 0;
      api.answer('GET /export', (exchange) => {
        asked += 1;
        exchange.json(200, asked < 7 ? { ready: false } : { ready: true, rows: [{ id: 1 }] });
      });
      const answer = await parse(
        `const { ready, rows = [] } = $ctx.response.body;
         return { data: [{ data: rows }], doWhile: !ready, doWhileDelay: 1 };`,
        { url: '/export', target: { table: 'polled' } },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.equal(asked, 7);
      assert.deepEqual(await rows('polled'), [{ id: 1 }]);
    });

    test('the same answer to changing requests is no loop', async () => {
      const { parse } = bench();
      const answer = await parse(
        `const { round = 1 } = $ctx.variables;
         return {
           data: [{ data: [{ id: 1 }] }],
           variables: { round: { value: round + 1, scope: 'executionContext' } },
           doWhile: round < 5,
         };`,
        {
          url: '/repeat',
          target: { table: 'same_answers' },
          request: { parameters: 'return { round: $ctx.variables.round || 1 };' },
        },
      );
      assert.equal(answer.status, 200, answer.text);
    });
  });

  describe('doWhileDelay: integer, milliseconds', () => {
    test('sleeps after each call of the doWhile iteration', async () => {
      const { parse, api } = bench();
      const before = api.requests.length;
      const answer = await parse(
        `const { round = 1 } = $ctx.variables;
         return {
           variables: { round: { value: round + 1, scope: 'executionContext' } },
           doWhile: round < 3,
           doWhileDelay: 150,
         };`,
        { url: '/echo' },
      );
      assert.equal(answer.status, 200, answer.text);
      const [first, second, third] = api.requests.slice(before).map(({ atMs }) => atMs) as [
        number,
        number,
        number,
      ];
      // A timer may fire a millisecond early.
      assert.ok(second - first >= 149, `${second - first} ms`);
      assert.ok(third - second >= 149, `${third - second} ms`);
    });

    test('applies between rounds: none after the last one', async () => {
      const start = performance.now();
      const answer = await bench().parse('return { doWhile: false, doWhileDelay: 60000 };');
      assert.equal(answer.status, 200, answer.text);
      assert.ok(performance.now() - start < 10_000);
    });

    test('0 and 24 hours are allowed; negative, more, or no integer is an error', async () => {
      for (const delay of ['0', '86400000']) {
        const answer = await bench().parse(`return { doWhile: false, doWhileDelay: ${delay} };`);
        assert.equal(answer.status, 200, answer.text);
      }
      for (const delay of ['-1', '86400001', '1.5', '"100"', 'null']) {
        await refused(`{ doWhile: true, doWhileDelay: ${delay} }`, /doWhileDelay/);
      }
    });
  });

  describe('a status other than 2xx', () => {
    test('fails the job with status, URL and the beginning of the body', async () => {
      const { parse, api } = bench();
      const answer = await parse('return { data: [{ data: [{ a: 1 }] }] };', {
        url: '/status/404?x=1',
        target: { table: 'not_loaded' },
      });
      assert.equal(answer.status, 502);
      const error = failure(answer);
      assert.equal(error.code, 'http_status');
      assert.equal(error['httpStatus'], 404);
      assert.ok(error.message.includes(`${api.url}/status/404?x=1`));
      assert.match(error.message, /404 Not Found: .*this is 404/);
      assert.equal(await bench().columns('not_loaded'), undefined);
    });

    test('a script that reads statusCode has taken charge', async () => {
      const { parse, rows } = bench();
      const answer = await parse(
        'const { statusCode } = $ctx.response; return statusCode === 404 ? { data: [{ data: [{ gone: true }] }] } : null;',
        { url: '/status/404', target: { table: 'gone' } },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await rows('gone'), [{ gone: true }]);
    });

    test('a script that stumbles over the unexpected body is not what is reported', async () => {
      const answer = await bench().parse('return { data: $ctx.response.body.items.map(_.identity) };', {
        url: '/status/400',
      });
      assert.equal(failure(answer).code, 'http_status');
    });

    test('onHttpError "fail" pins that it fails, "script" that the script decides', async () => {
      const { parse } = bench();
      const reading = 'return $ctx.response.statusCode > 0 ? null : {};';
      const pinned = await parse(reading, {
        url: '/status/404',
        request: { options: { onHttpError: 'fail' } },
      });
      assert.equal(failure(pinned).code, 'http_status');
      const script = await parse('return null;', {
        url: '/status/404',
        request: { options: { onHttpError: 'script' } },
      });
      assert.equal(script.status, 200, script.text);
    });
  });
});
