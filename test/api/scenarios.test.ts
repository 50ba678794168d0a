import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Answer } from '../support/service.ts';
import { calling, scenarioBench, type ScenarioBody } from '../support/scenarios.ts';

const nothing = 'return {};';

function refusal({ status, body }: Answer): [number, string, string] {
  return [status, body.result.code, body.result.path];
}

describe('API: scenarios', () => {
  const bench = scenarioBench();

  test('created, read, listed, changed, unchanged and deleted', async () => {
    const { put, app, step } = bench();
    const scenario: ScenarioBody = {
      name: 'sync orders/é'.replace('/', ' '),
      parameters: [{ name: 'since', default: null }],
      steps: [step('one', nothing, { when: 'return true;', onError: 'continue' })],
      output: 'return 1;',
    };
    const path = `/scenarios/${encodeURIComponent(scenario.name)}`;
    assert.equal((await put(scenario)).status, 201);
    assert.deepEqual((await app('GET', path)).body.result, scenario);
    assert.equal((await put(scenario)).body.result.change, 'unchanged');
    assert.equal((await put({ ...scenario, output: 'return 2;' })).body.result.change, 'changed');
    const { items } = (await app('GET', '/scenarios')).body.result;
    assert.deepEqual(
      items.map(({ name }: { name: string }) => name),
      [scenario.name],
    );
    assert.equal((await app('DELETE', path)).status, 200);
    assert.deepEqual(refusal(await app('GET', path)).slice(0, 2), [404, 'not_found']);
    assert.deepEqual(refusal(await app('DELETE', path)).slice(0, 2), [404, 'not_found']);
  });

  test('what a step holds is kept as it was given', async () => {
    const { put, app, api } = bench();
    const opParams = { request: { url: api.url, method: 'GET', options: { readTimeout: '30' } } };
    const scenario = {
      name: 'as given',
      steps: [{ name: 'one', operation: { opName: 'HTTPRequest', opParams } }],
    };
    await put(scenario);
    const { steps } = (await app('GET', '/scenarios/as%20given')).body.result;
    assert.deepEqual(steps[0].operation.opParams, opParams);
  });

  test('roles: a viewer reads, an editor writes', async () => {
    const { service, appId, step } = bench();
    const viewer = await service.tokenOf('viewer');
    const path = `/api/v1/applications/${appId}/scenarios`;
    assert.equal((await service.call('GET', path, viewer)).status, 200);
    const body = { name: 'x', steps: [step('one', nothing)] };
    assert.equal((await service.call('PUT', `${path}/x`, viewer, body)).status, 403);
  });
});

describe('API: scenarios that are refused when they are saved, with the path of the field', () => {
  const bench = scenarioBench();
  type Case = [what: string, scenario: (name: string) => unknown, path: string, says: RegExp, code?: string];
  const request = (more: object) => ({
    opName: 'HTTPRequest',
    opParams: { request: { url: 'http://x', method: 'GET', ...more } },
  });
  const good = { name: 'good', operation: request({}) };
  const third = (step: object) => (name: string) => ({
    name,
    steps: [good, { ...good, name: 'good too' }, { name: 'third', ...step }],
  });
  const cases: Case[] = [
    [
      'an unknown operation',
      third({ operation: { opName: 'HTTPReqest', opParams: {} } }),
      'steps[2].operation.opName',
      /no operation "HTTPReqest"\. Did you mean "HTTPRequest"\? Known: HTTPRequest, RunScenario/,
      'unknown_operation',
    ],
    [
      'opParams without a method',
      third({ operation: { opName: 'HTTPRequest', opParams: { request: { url: 'http://x' } } } }),
      'steps[2].operation.opParams.request.method',
      /^steps\[2\]\.operation\.opParams\.request\.method: /,
    ],
    [
      'a method that is not allowed',
      third({ operation: request({ method: 'PUT' }) }),
      'steps[2].operation.opParams.request.method',
      /must be one of GET.*The setting extraMethods can add PUT/,
    ],
    [
      'an unknown property of opParams',
      third({ operation: request({ metod: 'GET' }) }),
      'steps[2].operation.opParams.request.metod',
      /Did you mean "method"\?/,
    ],
    [
      'an unknown source',
      third({ operation: request({ source: 'crm' }) }),
      'steps[2].operation.opParams.request.source',
      /no HTTPSource "crm"/,
      'unknown_source',
    ],
    [
      'an unknown saved request',
      third({ request: 'orders' }),
      'steps[2].request',
      /no saved request "orders"\. Known: none/,
      'not_found',
    ],
    ['neither operation nor request', third({}), 'steps[2].operation', /either operation or request/],
    ['both', third({ ...good, request: 'x' }), 'steps[2].operation', /not both/],
    [
      'an unknown scenario',
      third(calling('third', { scenario: 'nowhere' })),
      'steps[2].operation.opParams.scenario',
      /no scenario "nowhere"/,
      'unknown_scenario',
    ],
    [
      'data of a called scenario that is not records',
      third(calling('third', { scenario: 'takes', data: [1] })),
      'steps[2].operation.opParams.data',
      /must be null or an array of records/,
    ],
    [
      'an undeclared parameter of a called scenario',
      third(calling('third', { scenario: 'takes', parameters: { a: 1, c: 2 } })),
      'steps[2].operation.opParams.parameters.c',
      /"takes" has no such parameter/,
    ],
    [
      'a missing parameter of a called scenario',
      third(calling('third', { scenario: 'takes' })),
      'steps[2].operation.opParams.parameters.a',
      /must be given/,
    ],
    [
      'a secret',
      third({ operation: request({ auth: { type: 'bearer', token: 'x' } }) }),
      'steps[2].operation.opParams.request.auth',
      /secrets are not kept/,
    ],
    ['the name of another step', third({ ...good }), 'steps[2].name', /another one is named "good"/],
    [
      'a when that does not compile',
      third({ ...good, name: 'third', when: 'return (;' }),
      'steps[2].when',
      /line 1, column/,
      'script_error',
    ],
    [
      'a when without return',
      third({ ...good, name: 'third', when: 'true;' }),
      'steps[2].when',
      /last statement .* return/,
      'script_error',
    ],
    [
      'an output that does not compile',
      (name) => ({ name, steps: [good], output: 'const a = 1;\nreturn {;' }),
      'output',
      /line 2, column/,
      'script_error',
    ],
    [
      'an onError that there is not',
      third({ ...good, name: 'third', onError: 'ignore' }),
      'steps[2].onError',
      /continue/,
    ],
    ['an unknown property', (name) => ({ name, step: [] }), 'step', /Did you mean "steps"\?/],
    [
      'an unknown property of a step',
      third({ ...good, name: 'third', onEror: 'fail' }),
      'steps[2].onEror',
      /Did you mean "onError"\?/,
    ],
    ['no steps', (name) => ({ name, steps: [] }), 'steps', /1/],
    [
      'too many steps',
      (name) => ({ name, steps: Array.from({ length: 101 }, (_, n) => ({ ...good, name: `${n}` })) }),
      'steps',
      /100/,
    ],
    [
      'a parameter twice',
      (name) => ({ name, parameters: [{ name: 'a' }, { name: 'a' }], steps: [good] }),
      'parameters[1].name',
      /another one is named "a"/,
    ],
    [
      'an unknown property of a parameter',
      (name) => ({ name, parameters: [{ name: 'a', defalt: 1 }], steps: [good] }),
      'parameters[0].defalt',
      /Did you mean "default"\?/,
    ],
    [
      'a call of itself',
      (name) => ({ name, steps: [good, calling('again', { scenario: name })] }),
      'steps[1].operation.opParams.scenario',
      /must not call itself: "(.+)" calls "\1"$/,
    ],
  ];
  for (const [what, scenario, path, says, code = 'invalid_request'] of cases) {
    test(what, async () => {
      const { app, save, step } = bench();
      await save({ name: 'takes', parameters: [{ name: 'a' }], steps: [step('one', nothing)] });
      const name = `refused ${what}`;
      const answer = await app('PUT', `/scenarios/${encodeURIComponent(name)}`, scenario(name));
      assert.ok(answer.status >= 400 && answer.status < 500, answer.text);
      assert.deepEqual(refusal(answer).slice(1), [code, path], answer.text);
      assert.match(answer.body.result.message, says);
      assert.equal(
        (await app('GET', `/scenarios/${encodeURIComponent(name)}`)).status,
        404,
        'it is not saved',
      );
    });
  }

  test('a call of itself through others, named from the one that is saved', async () => {
    const { save, put, step, app } = bench();
    await save({ name: 'c1', steps: [step('one', nothing)] });
    await save({ name: 'c2', steps: [calling('up', { scenario: 'c1' })] });
    await save({ name: 'c3', steps: [step('one', nothing), calling('up', { scenario: 'c2' })] });
    const before = (await app('GET', '/scenarios/c1')).text;
    const answer = await put({ name: 'c1', steps: [calling('up', { scenario: 'c3' })] });
    assert.deepEqual(
      refusal(answer),
      [400, 'invalid_request', 'steps[0].operation.opParams.scenario'],
      answer.text,
    );
    assert.equal(
      answer.body.result.message,
      'steps[0].operation.opParams.scenario: a scenario must not call itself: "c1" calls "c3" calls "c2" calls "c1"',
    );
    assert.equal((await app('GET', '/scenarios/c1')).text, before);
  });

  test('tables are not looked for: a step before may make them', async () => {
    const { save, step, outcome } = bench();
    await save({
      name: 'makes and reads',
      steps: [
        step('make', 'return { data: [{ data: [{ id: 1 }, { id: 2 }] }] };', { target: { table: 'made' } }),
        step('read', nothing, { sourceTable: { source: 'local', table: 'made' } }),
      ],
    });
    const { output } = await outcome('makes and reads');
    assert.deepEqual([output.steps[1].state, output.steps[1].pages], ['succeeded', 2]);
  });

  test('scenarios that call others many times are looked into once', async () => {
    const { save, step, put } = bench();
    await save({ name: 'wide 9', steps: [step('one', nothing)] });
    const calls = (scenario: string) =>
      Array.from({ length: 50 }, (_, n) => calling(`call ${n}`, { scenario }));
    for (let n = 8; n >= 1; n -= 1) await save({ name: `wide ${n}`, steps: calls(`wide ${n + 1}`) });
    const began = performance.now();
    assert.equal((await put({ name: 'wide 0', steps: calls('wide 1') })).status, 201);
    assert.ok(performance.now() - began < 5_000, 'it would be 50 to the power of 9');
  });
});

describe('API: scenarios that are refused when they are run', () => {
  const bench = scenarioBench();

  test('an unknown one: 404 unknown_scenario, with the name that it is near to', async () => {
    const { save, step, execute } = bench();
    await save({ name: 'daily', steps: [step('one', nothing)] });
    const answer = await execute({ scenario: 'dayly' });
    assert.deepEqual(refusal(answer), [404, 'unknown_scenario', 'operation.opParams.scenario']);
    assert.match(answer.body.result.message, /no scenario "dayly"\. Did you mean "daily"\? Known: daily/);
  });

  test('unknown properties, and a missing scenario', async () => {
    const { execute } = bench();
    const unknown = await execute({ scenario: 'x', params: {} });
    assert.deepEqual(refusal(unknown), [400, 'invalid_request', 'operation.opParams.params']);
    assert.deepEqual(refusal(await execute({})), [400, 'invalid_request', 'operation.opParams.scenario']);
    const parameters = await execute({ scenario: 'x', parameters: [] });
    assert.deepEqual(refusal(parameters), [400, 'invalid_request', 'operation.opParams.parameters']);
  });

  test('one that calls a scenario that was deleted since, or one that calls itself by now', async () => {
    const { save, step, app, execute, service, appId } = bench();
    await save({ name: 'called', steps: [step('one', nothing)] });
    await save({ name: 'caller', steps: [step('one', nothing), calling('call', { scenario: 'called' })] });
    assert.equal((await app('DELETE', '/scenarios/called')).status, 200, 'it may be deleted all the same');
    const gone = await execute({ scenario: 'caller' });
    assert.deepEqual(refusal(gone), [404, 'unknown_scenario', 'operation.opParams.scenario']);
    assert.match(
      gone.body.result.message,
      /in the scenario "caller", steps\[1\]\.operation\.opParams\.scenario: there is no scenario "called"/,
    );
    const { scenarios } = service.system.saved;
    await scenarios.put(appId, {
      name: 'called',
      parameters: [],
      steps: [{ ...calling('back', { scenario: 'caller' }), onError: 'fail' as const }],
    });
    const endless = await execute({ scenario: 'caller' });
    assert.deepEqual(refusal(endless), [400, 'invalid_request', 'operation.opParams.scenario']);
    assert.match(endless.body.result.message, /"caller" calls "called" calls "caller"/);
  });

  test('a source that was deleted since', async () => {
    const { save, step, app, execute, putSource, api } = bench();
    await putSource({ name: 'crm', baseUrl: api.url });
    await save({ name: 'uses crm', steps: [step('one', nothing, { request: { source: 'crm' } })] });
    await app('DELETE', '/sources/crm');
    const answer = await execute({ scenario: 'uses crm' });
    assert.deepEqual(refusal(answer), [400, 'unknown_source', 'operation.opParams.scenario']);
  });

  test('the scenario of another application', async () => {
    const { save, step, execute, service } = bench();
    await save({ name: 'of shop', steps: [step('one', nothing)] });
    await service.system.applications.create({ appId: 'elsewhere' });
    const answer = await execute({ scenario: 'of shop' }, { appId: 'elsewhere' });
    assert.deepEqual(refusal(answer).slice(0, 2), [404, 'unknown_scenario']);
  });
});
