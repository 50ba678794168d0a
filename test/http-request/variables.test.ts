import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Answer } from '../support/service.ts';
import { eventually, failure, sharedBench } from '../support/shared-bench.ts';

describe('HTTPRequest: variables', () => {
  const bench = sharedBench();
  const executionContext = (name: string, value: string) =>
    `${name}: { value: ${value}, scope: 'executionContext' }`;

  /** What the Parsing script sees of these variables. */
  const seen = async (names: string[], request: Record<string, unknown> = {}) => {
    const table = `seen_${names.join('_')}`;
    await bench().app('DELETE', `/tables/local/main/${table}`);
    const answer = await bench().parse(
      `return { data: [{ data: [{ seen: JSON.stringify(_.pick($ctx.variables, ${JSON.stringify(names)})) }] }] };`,
      { target: { table }, request },
    );
    assert.equal(answer.status, 200, answer.text);
    return JSON.parse(String((await bench().rows(table))[0]?.['seen']));
  };

  test('application variables outlive the job, those of the execution context do not', async () => {
    const { parse, variable } = bench();
    const answer = await parse(
      `return { variables: { lasting: 'kept', also: { value: 7, scope: 'application' }, ${executionContext('passing', '1')} } };`,
    );
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await seen(['lasting', 'also', 'passing']), { lasting: 'kept', also: 7 });
    assert.equal(await variable('passing'), undefined);
  });

  test('any JSON value keeps its type, exactly', async () => {
    const { parse, variable } = bench();
    const values = [0, -1.5, true, false, null, '', 'ä"\\\u0000', [], {}, { a: [{ b: null }] }];
    for (const scope of ['application', 'executionContext']) {
      const answer = await parse(
        `const values = ${JSON.stringify(values)};
         const { round = 0 } = $ctx.variables;
         if (round > 0) return { data: [{ data: [{ same: _.isEqual($ctx.variables.typed, values) }] }] };
         return { variables: { typed: { value: values, scope: '${scope}' }, ${executionContext('round', '1')} }, doWhile: true };`,
        { target: { table: `typed_${scope}` } },
      );
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await bench().rows(`typed_${scope}`), [{ same: true }]);
    }
    assert.deepEqual(await variable('typed'), values);
  });

  test('a long number keeps its digits, in the round after and in the job after', async () => {
    const { parse, variable } = bench();
    const answer = await parse(
      'return { variables: { big: { value: $ctx.response.body.items[0].id, scope: "application" } } };',
      { url: '/big-numbers' },
    );
    assert.equal(answer.status, 200, answer.text);
    assert.equal(await variable('big'), '9007199254740993');
    assert.deepEqual(await seen(['big']), { big: '9007199254740993' });
  });

  test('application < properties of the HTTP source < what a script set in the execution context', async () => {
    const { setVariable, putSource, parse, rows } = bench();
    await setVariable('level', 'application');
    assert.deepEqual(await seen(['level']), { level: 'application' });
    await putSource({ name: 'levels', properties: { level: 'source' } });
    assert.deepEqual(await seen(['level'], { source: 'levels' }), { level: 'source' });
    const answer = await parse(
      `const { level } = $ctx.variables;
       return {
         data: [{ data: [{ level }] }],
         variables: { ${executionContext('level', "'script'")} },
         doWhile: level !== 'script',
       };`,
      { request: { source: 'levels' }, target: { table: 'levels' } },
    );
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('levels'), [{ level: 'source' }, { level: 'script' }]);
  });

  test('an application variable that is set stays behind one of the execution context with the same name', async () => {
    const { parse, rows, variable } = bench();
    const answer = await parse(
      `const { both, round = 1 } = $ctx.variables;
       return {
         data: [{ data: [{ both: both || null }] }],
         variables: round === 1
           ? { ${executionContext('both', "'context'")}, ${executionContext('round', '2')} }
           : { both: 'application', ${executionContext('round', 'round + 1')} },
         doWhile: round < 3,
       };`,
      { target: { table: 'both_scopes' } },
    );
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('both_scopes'), [{ both: null }, { both: 'context' }, { both: 'context' }]);
    assert.equal(await variable('both'), 'application');
  });

  test('are written when the page is committed: other jobs see them while the loop goes on', async () => {
    const { api, run, variable } = bench();
    const held = Promise.withResolvers<void>();
    api.answer('GET /held', async (exchange) => {
      if (exchange.query.has('page')) await held.promise;
      exchange.json(200, {});
    });
    const running = run({
      request: { url: `${api.url}/held`, method: 'GET' },
      target: {
        action: 'parse JSON',
        parsingScript: `
          const { lastSeen } = $ctx.variables;
          return { variables: { lastSeen: lastSeen ? 'page 2' : 'page 1' }, doWhile: lastSeen ? false : { url: '?page=2' } };`,
      },
    });
    await api.until(() => api.requestsTo('/held').length === 2);
    await eventually(async () => assert.equal(await variable('lastSeen'), 'page 1'));
    held.resolve();
    assert.equal((await running).status, 200);
    assert.equal(await variable('lastSeen'), 'page 2');
  });

  test('a page that fails sets none', async () => {
    const { parse, variable } = bench();
    const failing = await parse('return { variables: { unset: "x" }, data: [{ data: [1] }] };', {
      target: { table: 'never' },
    });
    assert.equal(failing.status, 422);
    const wrongValue = await parse(
      'return { variables: { unset: "x" }, data: [{ data: [{ a: "b" }], model: { columns: [{ name: "a", type: "integer", position: 1 }] } }] };',
      { target: { table: 'never' } },
    );
    assert.equal(failure(wrongValue).code, 'value_error');
    assert.equal(await variable('unset'), undefined);
  });

  test('those that a job found are as they were when it began, but for what it set itself', async () => {
    const { api, parse, rows, setVariable } = bench();
    await setVariable('outside', 'before');
    api.answer('GET /meanwhile', async (exchange) => {
      await setVariable('outside', 'after');
      exchange.json(200, {});
    });
    const answer = await parse('return { data: [{ data: [{ seen: $ctx.variables.outside }] }] };', {
      url: '/meanwhile',
      target: { table: 'meanwhile' },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('meanwhile'), [{ seen: 'before' }]);
  });

  test('names such as constructor and toString are names like others', async () => {
    const { parse, rows } = bench();
    const answer = await parse(
      `const { round = 1 } = $ctx.variables;
       const names = ['constructor', 'toString', 'hasOwnProperty', 'ü "x"'];
       if (round === 2)
         return { data: [{ data: names.map((name) => ({ seen: Object.getOwnPropertyDescriptor($ctx.variables, name)?.value ?? null })) }] };
       const variables = JSON.parse('{"round":{"value":2,"scope":"executionContext"},' +
         names.map((name) => JSON.stringify(name) + ':{"value":"v","scope":"executionContext"}').join() + '}');
       return { variables, doWhile: true };`,
      { target: { table: 'odd_names' } },
    );
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(
      (await rows('odd_names')).map((row) => row['seen']),
      ['v', 'v', 'v', 'v'],
    );
  });

  test('a name that is not set is not there, whatever JavaScript has under it', async () => {
    for (const name of ['constructor', 'toString', '__proto__'])
      assert.equal((await bench().app('GET', `/variables/${name}`)).status, 404, name);
  });

  test('__proto__, which JavaScript keeps for itself, is refused wherever it is a name', async () => {
    const { app, parse, putSource, api, run } = bench();
    const refused = async (answer: Promise<Answer>, status: number, path: string) => {
      const { text, ...found } = await answer;
      assert.deepEqual([found.status, found.body.result.path], [status, path], text);
      assert.match(text, /__proto__/);
    };
    const named = { name: '__proto__' };
    await refused(app('PUT', '/variables/__proto__', { ...named, value: 1 }), 400, 'name');
    await refused(putSource({ ...named }), 400, 'name');
    const body = '{"name":"crm","type":"HTTPSource","properties":{"__proto__":"x"}}';
    const property = await app('PUT', '/sources/crm', body);
    assert.equal(property.status, 400, property.text);
    assert.match(property.body.result.message, /__proto__/);

    for (const [variables, path] of [
      ['{ ["__proto__"]: "v" }', 'variables.__proto__'],
      ['{ a: { scope: "application", value: [{ ["__proto__"]: 1 }] } }', 'variables.a.value[0].__proto__'],
    ] as const) {
      const answer = await parse(`return { variables: ${variables} };`);
      assert.equal(failure(answer).code, 'invalid_result');
      assert.ok(failure(answer).message.includes(`${path}: nothing can have this name`), answer.text);
    }

    // Here it is a name like others, since names of headers and parameters are the system's.
    api.requests.length = 0;
    const sent = await run({
      request: {
        url: `${api.url}/echo`,
        method: 'POST',
        headers: `return JSON.parse('{"__proto__": "header"}');`,
        parameters: `return JSON.parse('{"__proto__": "parameter"}');`,
        bodyType: 'JSON -> x-www-form-urlencoded',
        body: { script: `return JSON.parse('{"__proto__": "field"}');` },
      },
    });
    assert.equal(sent.status, 200, sent.text);
    const [request] = api.requests;
    assert.equal(request?.url, '/echo?__proto__=parameter');
    assert.deepEqual(request?.rawHeaders.slice(request.rawHeaders.indexOf('__proto__')).slice(0, 2), [
      '__proto__',
      'header',
    ]);
    assert.equal(request?.body.toString(), '__proto__=field');
  });

  test('of another application are not seen', async () => {
    const { service, setVariable, token, api } = bench();
    await setVariable('mine', 'of shop');
    await service.system.applications.create({ appId: 'other' });
    const answer = await service.call('POST', '/api/v1/executeJob', token, {
      appId: 'other',
      responseFormat: 'json',
      operation: {
        opName: 'HTTPRequest',
        opParams: {
          request: { url: `${api.url}/empty`, method: 'GET' },
          target: {
            action: 'parse JSON',
            parsingScript:
              'console.log(JSON.stringify($ctx.variables)); return { variables: { mine: "of other" } };',
          },
        },
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await bench().log(answer.body.result.jobId), ['info: {}']);
    assert.equal(await bench().variable('mine'), 'of shop');
  });

  test('names that a variable of the application cannot have are refused', async () => {
    const { parse } = bench();
    for (const name of ['', ' x', 'a\nb', 'a/b', 'x'.repeat(201)]) {
      const answer = await parse(`return { variables: { ${JSON.stringify(name)}: 'v' } };`);
      assert.equal(answer.status, 422, JSON.stringify(name));
      assert.equal(failure(answer).code, 'invalid_result');
      assert.match(failure(answer).message, /variables/);
    }
  });
});
