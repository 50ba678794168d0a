import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { HttpClient } from '../../src/http/http-client.ts';
import { requestBench } from '../support/request-bench.ts';

const PASSWORD = 'correct horse battery staple';

describe('Contract 8: limits', () => {
  const bench = requestBench();

  test('access token lifetime (expires_in): 1800 in every response', async () => {
    const { service } = bench();
    const credentials = await service.newClient();
    await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'operator' });
    const first = await service.form({ grant_type: 'client_credentials', ...credentials });
    const second = await service.form({
      grant_type: 'password',
      ...credentials,
      username: 'ann',
      password: PASSWORD,
    });
    const { refresh_token } = second.body;
    const third = await service.form({ grant_type: 'refresh_token', refresh_token });
    for (const { status, body, text } of [first, second, third]) {
      assert.equal(status, 200, text);
      assert.equal(body.expires_in, 1800);
    }
  });

  test('access token lifetime: after 1800 seconds a job can no longer be started with it', async () => {
    const { service, appId, api } = bench();
    const token = await service.tokenOf('operator');
    const request = { url: `${api.url}/echo`, method: 'GET' };
    const execute = () =>
      service.call('POST', '/api/v1/executeJob', token, {
        appId,
        operation: { opName: 'HTTPRequest', opParams: { request } },
      });
    service.clock.advance(1770);
    assert.equal((await execute()).status, 200);
    service.clock.advance(31);
    const answer = await execute();
    assert.equal(answer.status, 401);
    assert.deepEqual(answer.body, {
      result: { code: 'invalid_grant', message: 'Credentials or token is invalid or expired.' },
      status: 'error',
    });
  });
});

describe('Contract 8: limits of HTTPRequest', () => {
  const bench = requestBench();

  test('default batch size of the source table: 1000', async () => {
    const { fill, send } = bench();
    const records = Array.from({ length: 1001 }, (_, index) => ({ id: index }));
    await fill('limits', records);
    const sent = await send(
      { method: 'POST', bodyType: 'JSON -> stringify()', body: { script: 'return $ctx.data.length;' } },
      { sourceTable: { source: 'local', table: 'limits', batching: true } },
    );
    assert.deepEqual(
      sent.map(({ body }) => body.toString()),
      ['1000', '1'],
    );
  });

  for (const option of ['connectTimeout', 'readTimeout', 'writeTimeout'] as const) {
    test(`${option} default: 600 seconds`, async (t: TestContext) => {
      const { mock } = t.mock.method(HttpClient.prototype, 'receive');
      await bench().send();
      assert.equal(mock.callCount(), 1);
      assert.equal(mock.calls[0]?.arguments[1][`${option}Ms`], 600_000);
    });
  }
});
