import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { calling, scenarioBench } from '../support/scenarios.ts';
import { failure } from '../support/shared-bench.ts';

const set = (name: string, value: string) =>
  `return { variables: { ${name}: { value: ${value}, scope: 'executionContext' } } };`;
const VARIABLES = 'return $ctx.variables;';

describe('RunScenario: parameters', () => {
  const bench = scenarioBench();

  test('they override the defaults and are the execution context, above application variables', async () => {
    const { save, step, outcome, setVariable } = bench();
    await setVariable('region', 'of the application');
    await setVariable('kept', 'of the application');
    await save({
      name: 'parameters',
      parameters: [
        { name: 'region', default: 'eu' },
        { name: 'limits', default: { pages: [1, null] } },
        { name: 'id' },
        { name: 'none', default: null },
      ],
      steps: [step('one', 'return {};')],
      output: VARIABLES,
    });
    assert.deepEqual((await outcome('parameters', { parameters: { id: 7 } })).output, {
      region: 'eu',
      limits: { pages: [1, null] },
      id: 7,
      none: null,
      kept: 'of the application',
    });
    const given = await outcome('parameters', { parameters: { id: null, region: 'us', limits: 3 } });
    assert.deepEqual([given.output.region, given.output.limits, given.output.id], ['us', 3, null]);
  });

  test('an undeclared one is refused with its path and the name that it is near to', async () => {
    const { save, step, execute } = bench();
    await save({
      name: 'declares',
      parameters: [{ name: 'since', default: 1 }],
      steps: [step('one', 'return {};')],
    });
    const answer = await execute({ scenario: 'declares', parameters: { sinse: 1 } });
    assert.deepEqual(
      [answer.status, answer.body.result.code, answer.body.result.path],
      [400, 'invalid_request', 'operation.opParams.parameters.sinse'],
      answer.text,
    );
    assert.match(answer.body.result.message, /no such parameter\. Did you mean "since"\? Known: since/);
  });

  test('one without a default must be given', async () => {
    const { save, step, execute } = bench();
    await save({ name: 'requires', parameters: [{ name: 'id' }], steps: [step('one', 'return {};')] });
    const { status, body } = await execute({ scenario: 'requires' });
    assert.deepEqual([status, body.result.path], [400, 'operation.opParams.parameters.id']);
    assert.match(body.result.message, /must be given/);
  });

  test('the contract’s call: scenario, parameters, data null', async () => {
    const { save, step, execute } = bench();
    await save({ name: 'shown', steps: [step('one', 'return {};')], output: 'return [$ctx.data, "é"];' });
    const answer = await execute(
      { scenario: 'shown', parameters: {}, data: null },
      { isAsync: false, responseFormat: 'text' },
    );
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.result.output, '[null,"é"]');
  });
});

describe('RunScenario: steps', () => {
  const bench = scenarioBench();

  test('they run in order, each with the variables left by the one before, in both scopes', async () => {
    const { save, step, outcome, log, variable, api } = bench();
    const more = (letter: string) =>
      `const text = ($ctx.variables.text || '') + '${letter}';
       const all = ($ctx.variables.all || '') + '${letter}';
       return { variables: { text: { value: text, scope: 'executionContext' }, all } };`;
    const url = (name: string) => ({ request: { url: `${api.url}/echo?step=${name}` } });
    const before = api.requests.length;
    await save({
      name: 'ordered',
      steps: ['a', 'b', 'c'].map((name) => step(name, more(name), url(name))),
      output: 'return [$ctx.variables.text, $ctx.variables.all];',
    });
    const { output, jobId } = await outcome('ordered');
    assert.deepEqual(output, ['abc', 'abc']);
    assert.equal(await variable('all'), 'abc');
    assert.equal(await variable('text'), undefined);
    assert.deepEqual(
      api.requests.slice(before).map(({ query }) => query.get('step')),
      ['a', 'b', 'c'],
    );
    assert.deepEqual(await log(jobId), [
      'info: step "a" begins',
      'info: step "b" begins',
      'info: step "c" begins',
    ]);
  });

  test('a saved request is run as it is when the step begins', async () => {
    const { save, app, api, outcome } = bench();
    const put = (path: string) =>
      app('PUT', '/requests/ping', { name: 'ping', request: { url: `${api.url}${path}`, method: 'GET' } });
    assert.equal((await put('/empty?n=1')).status, 201);
    await save({ name: 'pings', steps: [{ name: 'ping', request: 'ping' }] });
    await put('/empty?n=2');
    const { output } = await outcome('pings');
    assert.deepEqual(output, {
      steps: [{ name: 'ping', state: 'succeeded', pages: 1, records: 0, tables: [] }],
    });
    assert.equal(api.requests.at(-1)?.url, '/empty?n=2');
  });

  test('when: falsy skips the step, and is recorded; it sees variables, data and what the steps before brought', async () => {
    const { save, step, outcome, log } = bench();
    const falsy = ['false', '0', '""', 'null', 'undefined'];
    const ids = '[{ id: 1 }, { id: 2 }]';
    await save({
      name: 'conditional',
      steps: [
        step('load', `return { data: [{ data: ${ids} }] };`, { target: { table: 'conditional' } }),
        ...falsy.map((value, n) =>
          step(`not ${n}`, 'throw new Error("is run");', { when: `return ${value};` }),
        ),
        step('seen', set('seen', '1'), {
          when: `console.log('asked');
                 return $ctx.steps.load.records === 2 && $ctx.steps['not 0'].state === 'skipped'
                   && $ctx.data[0].a === 1 && $ctx.variables.seen === undefined;`,
        }),
        step('again', set('again', '1'), { when: 'return $ctx.variables.seen;' }),
      ],
      output: 'return [$ctx.variables.again, _.mapObject($ctx.steps, (step) => step.state)];',
    });
    const { output, jobId } = await outcome('conditional', { data: [{ a: 1 }] });
    const skipped = Object.fromEntries(falsy.map((_, n) => [`not ${n}`, 'skipped']));
    assert.deepEqual(output, [1, { load: 'succeeded', ...skipped, seen: 'succeeded', again: 'succeeded' }]);
    const lines = await log(jobId);
    assert.ok(lines.includes('info: step "not 0" skipped: when is falsy'), lines.join('\n'));
    assert.ok(lines.includes('info: asked'));
  });

  test('a failure ends the job with the code of its cause; step and field are named', async () => {
    const { save, step, execute, api } = bench();
    const before = api.requests.length;
    await save({
      name: 'failing',
      steps: [
        step('first', 'return {};'),
        step('second', 'return $ctx.nothing.at.all;'),
        step('third', 'return {};'),
      ],
    });
    const error = failure(await execute({ scenario: 'failing' }));
    assert.deepEqual(
      [error.code, error['path'], error['line']],
      ['script_error', 'steps[1].operation.opParams.target.parsingScript', 1],
    );
    assert.match(error.message, /^step "second": target\.parsingScript, line 1, column .*nothing/s);
    assert.equal(api.requests.length - before, 2, 'the third step is not run');

    await save({
      name: 'failing',
      steps: [step('only', 'return {};', { request: { url: `${api.url}/status/404` } })],
    });
    const answer = await execute({ scenario: 'failing' });
    assert.deepEqual(
      [answer.status, answer.body.result.code, answer.body.result.httpStatus],
      [502, 'http_status', 404],
      answer.text,
    );
    assert.match(answer.body.result.message, /^step "only": GET .*404/);
    assert.equal(answer.body.result.path, undefined);
  });

  test('when that throws is a failure of the step', async () => {
    const { save, step, execute, outcome } = bench();
    const broken = (onError: string) => ({
      name: 'broken when',
      steps: [step('one', 'return {};', { when: 'return $ctx.data.x;', onError }), step('two', 'return {};')],
    });
    await save(broken('fail'));
    const error = failure(await execute({ scenario: 'broken when' }));
    assert.deepEqual([error.code, error['path']], ['script_error', 'steps[0].when']);
    await save(broken('continue'));
    const { output } = await outcome('broken when');
    assert.deepEqual(
      output.steps.map(({ state }: { state: string }) => state),
      ['failed', 'succeeded'],
    );
  });

  test('onError continue: the failure is logged and recorded, redacted, and the next step runs', async () => {
    const { save, step, outcome, log, putSource, api } = bench();
    await putSource({
      name: 'keyed',
      auth: { type: 'apiKey', name: 'key', in: 'query', value: 'the-secret-key' },
    });
    const orders = `return { data: [{ data: $ctx.response.body.items.map(({ id }) => ({ id })) }], doWhile: { url: '/tells' } };`;
    api.answer('GET /tells', (exchange) => exchange.json(500, { url: exchange.request.url }));
    await save({
      name: 'continues',
      steps: [
        step('one', orders, {
          request: {
            source: 'keyed',
            url: `${api.url}/orders/by-page?size=20`,
            options: { retry: false, onHttpError: 'fail' },
          },
          target: { table: 'continued' },
          onError: 'continue',
        }),
        step('two', 'return { data: [{ data: [{ id: 1 }] }] };', { target: { table: 'continued' } }),
      ],
    });
    const { output, jobId } = await outcome('continues');
    const [one, two] = output.steps;
    assert.deepEqual(
      [one.name, one.state, one.pages, one.records, one.error.code],
      ['one', 'failed', 1, 20, 'http_status'],
      JSON.stringify(one),
    );
    assert.deepEqual([two.state, two.pages, two.records], ['succeeded', 1, 1]);
    const lines = await log(jobId);
    const line = lines.find((text) => text.startsWith('warn: step "one" failed: http_status: GET'));
    assert.ok(line?.endsWith('; the scenario goes on'), lines.join('\n'));
    assert.ok(!`${JSON.stringify(output)}${lines.join()}`.includes('the-secret-key'));
  });

  test('$ctx.data and the source table "input" of the steps are what data gives', async () => {
    const { save, step, outcome, rows, api } = bench();
    const before = api.requests.length;
    await save({
      name: 'with data',
      steps: [
        step('whole', 'return { data: [{ data: $ctx.data }] };', { target: { table: 'whole' } }),
        step('each', 'return { data: [{ data: [$ctx.data] }] };', {
          target: { table: 'each' },
          request: { url: { script: `return '${api.url}/empty?id=' + $ctx.data.id;` } },
          sourceTable: { source: 'input' },
        }),
      ],
      output: 'return $ctx.data.length;',
    });
    const data = [1, 2, 3].map((id) => ({ id, name: `n${id}` }));
    const { output, stats } = await outcome('with data', { data });
    assert.deepEqual([output, stats.pages, stats.records], [3, 4, 6]);
    assert.deepEqual(await rows('whole'), data);
    assert.deepEqual(await rows('each'), data);
    assert.deepEqual(
      api.requests.slice(before).map(({ url }) => url),
      ['/empty', '/empty?id=1', '/empty?id=2', '/empty?id=3'],
    );
  });

  for (const [what, data, path] of [
    ['a text', 'records', 'data'],
    ['one record', { id: 1 }, 'data'],
    ['numbers', [{ id: 1 }, 2], 'data'],
    ['rows without names', [[1, 2]], 'data'],
  ] as const) {
    test(`data that is not records is refused with the path of the field: ${what}`, async () => {
      const { save, step, execute } = bench();
      await save({ name: 'takes data', steps: [step('one', 'return {};')] });
      const answer = await execute({ scenario: 'takes data', data });
      assert.deepEqual(
        [answer.status, answer.body.result.code, answer.body.result.path],
        [400, 'invalid_request', `operation.opParams.${path}`],
        answer.text,
      );
      assert.match(answer.body.result.message, /^data: must be null or an array of records/);
    });
  }
});

describe('RunScenario: output', () => {
  const bench = scenarioBench();
  const one =
    'return { data: [{ data: [{ id: 1 }, { id: 2 }] }], doWhile: !$ctx.variables.more, variables: { more: { value: true, scope: "executionContext" } } };';

  test('without a script: per step its state, pages, records and tables, and the stats are the sum', async () => {
    const { save, step, outcome } = bench();
    await save({
      name: 'counted',
      steps: [
        step('one', one, { target: { table: 'counted_1' } }),
        step('never', 'return {};', { when: 'return false;' }),
        step('two', one, { target: { table: 'counted_2' } }),
        {
          name: 'file',
          operation: {
            opName: 'HTTPRequest',
            opParams: {
              request: { url: `${bench().api.url}/empty`, method: 'GET' },
              target: { action: 'save to file', table: 'counted.json' },
            },
          },
        },
      ],
    });
    const { output, stats } = await outcome('counted');
    const table = (name: string, records: number) => [
      { source: 'local', space: 'main', table: name, records },
    ];
    const [first, never, second, file] = output.steps;
    assert.deepEqual(first, {
      name: 'one',
      state: 'succeeded',
      pages: 2,
      records: 4,
      tables: table('counted_1', 4),
    });
    assert.deepEqual(never, { name: 'never', state: 'skipped', pages: 0, records: 0, tables: [] });
    assert.deepEqual(second, {
      name: 'two',
      state: 'succeeded',
      pages: 1,
      records: 2,
      tables: table('counted_2', 2),
    });
    assert.deepEqual([file.pages, file.tables, file.files[0].name], [1, [], 'counted.json']);
    assert.deepEqual([stats.pages, stats.records], [4, 6]);
  });

  test('with a script: its value, which may use what the steps brought; nothing is null', async () => {
    const { save, step, outcome } = bench();
    const scenario = (output: string) => ({
      name: 'told',
      steps: [step('one', one, { target: { table: 'told' } })],
      output,
    });
    await save(
      scenario('console.log("at the end"); return { n: $ctx.steps.one.records, more: $ctx.variables.more };'),
    );
    const { output, jobId } = await outcome('told');
    assert.deepEqual(output, { n: 4, more: true });
    assert.ok((await bench().log(jobId)).includes('info: at the end'));
    await save(scenario('return undefined;'));
    assert.equal((await outcome('told')).output, null);
  });

  test('a script that throws fails the job, with its name and line', async () => {
    const { save, step, execute } = bench();
    await save({ name: 'throws', steps: [step('one', 'return {};')], output: '\nreturn nothing;' });
    const error = failure(await execute({ scenario: 'throws' }));
    assert.deepEqual([error.code, error['path'], error['line']], ['script_error', 'output', 2]);
  });

  test('several states of the job: asynchronous, and its result when it is over', async () => {
    const { save, step, execute, service, token } = bench();
    await save({ name: 'later', steps: [step('one', 'return {};')], output: 'return "done";' });
    const accepted = await execute({ scenario: 'later' }, { isAsync: true });
    assert.equal(accepted.status, 202, accepted.text);
    const { jobId, statusUrl } = accepted.body.result;
    for (;;) {
      const { body } = await service.call('GET', statusUrl, token);
      if (body.result.endedAt === null) continue;
      assert.deepEqual(
        [body.result.jobId, body.result.opName, body.result.output],
        [jobId, 'RunScenario', 'done'],
      );
      break;
    }
  });
});

describe('RunScenario: a scenario as a step', () => {
  const bench = scenarioBench();

  test('it sees a copy of the caller’s execution context under its own parameters, and hands back what its scripts set', async () => {
    const { save, step, outcome } = bench();
    await save({
      name: 'inner',
      parameters: [
        { name: 'own', default: 'by default' },
        { name: 'shared', default: 'of the inner' },
      ],
      steps: [
        step(
          'look',
          `const { own, shared, outer } = $ctx.variables;
           return { variables: {
             seen: { value: [own, shared, outer], scope: 'executionContext' },
             shared: { value: 'changed', scope: 'executionContext' },
             application: 'of all',
           } };`,
        ),
      ],
      output: 'return [$ctx.variables.seen, $ctx.variables.shared];',
    });
    await save({
      name: 'outer',
      parameters: [{ name: 'shared', default: 'of the outer' }],
      steps: [
        step('before', set('outer', '"set before"')),
        calling('call', { scenario: 'inner', parameters: { own: 'given' } }),
        step(
          'after',
          set(
            'after',
            '[$ctx.variables.seen, $ctx.variables.shared, $ctx.variables.own, $ctx.variables.application]',
          ),
        ),
      ],
      output: 'return [$ctx.steps.call.output, $ctx.variables.after];',
    });
    const seen = ['given', 'of the inner', 'set before'];
    const { output } = await outcome('outer');
    assert.deepEqual(output[0], [seen, 'changed']);
    assert.deepEqual(output[1], [seen, 'of the outer', null, 'of all']);
  });

  test('data: what the step gives; null gives none; left out, that of the caller', async () => {
    const { save, step, outcome } = bench();
    await save({ name: 'reads', steps: [step('one', 'return {};')], output: 'return $ctx.data;' });
    await save({
      name: 'hands on',
      steps: [
        calling('own', { scenario: 'reads', data: [{ b: 2 }] }),
        calling('none', { scenario: 'reads', data: null }),
        calling('inherited', { scenario: 'reads' }),
      ],
      output: 'return _.pluck($ctx.steps, "output");',
    });
    const { output } = await outcome('hands on', { data: [{ a: 1 }] });
    assert.deepEqual(output, [[{ b: 2 }], null, [{ a: 1 }]]);
  });

  test('its pages, records and tables are summed, and its log lines name the way to it', async () => {
    const { save, step, outcome, log } = bench();
    const load = 'return { data: [{ data: [{ id: 1 }] }] };';
    await save({
      name: 'loads twice',
      steps: [
        step('x', load, { target: { table: 'summed' } }),
        step('y', load, { target: { table: 'summed' } }),
      ],
    });
    await save({
      name: 'sums',
      steps: [calling('a', { scenario: 'loads twice' }), calling('b', { scenario: 'loads twice' })],
    });
    const { output, jobId, stats } = await outcome('sums');
    const tables = [{ source: 'local', space: 'main', table: 'summed', records: 2 }];
    assert.deepEqual(
      output.steps,
      ['a', 'b'].map((name) => ({ name, state: 'succeeded', pages: 2, records: 2, tables })),
    );
    assert.equal(stats.records, 4);
    assert.deepEqual(await log(jobId), [
      'info: step "a" begins',
      'info: step "a/x" begins',
      'info: step "a/y" begins',
      'info: step "b" begins',
      'info: step "b/x" begins',
      'info: step "b/y" begins',
    ]);
  });

  test('a failure inside names the way to it; the caller’s onError holds', async () => {
    const { save, step, execute, outcome } = bench();
    await save({ name: 'fails inside', steps: [step('deep', 'return nothing;')] });
    const caller = (onError: string) => ({
      name: 'calls it',
      steps: [calling('call', { scenario: 'fails inside' }, { onError })],
    });
    await save(caller('fail'));
    const error = failure(await execute({ scenario: 'calls it' }));
    assert.match(error.message, /^step "call\/deep": target\.parsingScript, line 1/);
    assert.deepEqual([error.code, error['path']], ['script_error', 'steps[0].operation.opParams.scenario']);
    await save(caller('continue'));
    const { output } = await outcome('calls it');
    assert.deepEqual([output.steps[0].state, output.steps[0].error.code], ['failed', 'script_error']);
    assert.match(output.steps[0].error.message, /^step "deep": /);
  });

  test('it works 16 deep; the limit names the chain', async () => {
    const { save, put, step, outcome, execute } = bench();
    await save({ name: 'd16', steps: [step('one', set('depth', '16'))] });
    for (let n = 15; n >= 1; n -= 1)
      await save({ name: `d${n}`, steps: [calling('next', { scenario: `d${n + 1}` })] });
    const { output } = await outcome('d1');
    assert.equal(output.steps[0].state, 'succeeded');
    const { status, body } = await put({ name: 'd0', steps: [calling('next', { scenario: 'd1' })] });
    assert.deepEqual([status, body.result.path], [400, 'steps[0].operation.opParams.scenario']);
    assert.match(body.result.message, /at most 16 scenarios .*"d0" calls "d1" calls .*"d16"/);
    // Longer below, after those above were saved.
    await save({ name: 'd17', steps: [step('one', 'return {};')] });
    await save({ name: 'd16', steps: [calling('next', { scenario: 'd17' })] });
    const refused = await execute({ scenario: 'd1' });
    assert.deepEqual(
      [refused.status, refused.body.result.path],
      [400, 'operation.opParams.scenario'],
      refused.text,
    );
    assert.match(refused.body.result.message, /at most 16/);
  });
});
