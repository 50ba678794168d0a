import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startTestService } from '../support/service.ts';

describe('Contract 5: authentication', () => {
  test('1. the service uses OAuth 2.0 bearer tokens: no other scheme is taken', async (t) => {
    const service = await startTestService(t);
    const { client_id, client_secret } = await service.newClient();
    const basic = Buffer.from(`${client_id}:${client_secret}`).toString('base64');
    const response = await fetch(`${service.url}/api/v1/applications`, {
      headers: { authorization: `Basic ${basic}` },
    });
    assert.equal(response.status, 401);
    assert.equal(response.headers.get('www-authenticate'), 'Bearer error="invalid_token"');
  });

  test('2. supported grants: an unknown one is unsupported_grant_type, listing them', async (t) => {
    const service = await startTestService(t);
    const { status, body } = await service.form({ grant_type: 'authorization_code', code: 'x' });
    assert.equal(status, 400);
    assert.equal(body.error, 'unsupported_grant_type');
    assert.match(body.error_description, /client_credentials, password, refresh_token/);
  });

  test('3. the token is sent on every API request: without one every endpoint answers 401', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('viewer');
    const { body: openapi } = await service.call('GET', '/api/v1/openapi.json', token);
    const publicPaths = /^\/(?:api\/v1\/oauth2|health)\//;
    let checked = 0;
    for (const [path, methods] of Object.entries<Record<string, unknown>>(openapi.paths)) {
      if (publicPaths.test(path)) continue;
      for (const method of Object.keys(methods)) {
        const answer = await service.call(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, 'x'), null);
        assert.equal(answer.status, 401, `${method} ${path}`);
        assert.equal(answer.headers.get('www-authenticate'), 'Bearer error="invalid_token"');
        checked += 1;
      }
    }
    assert.ok(checked >= 15, `only ${checked} endpoints were checked`);
  });

  test('3. the scheme is compared without case, and the header must hold a token', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('viewer');
    const call = async (authorization: string) =>
      (await fetch(`${service.url}/api/v1/applications`, { headers: { authorization } })).status;
    assert.equal(await call(`bearer ${token}`), 200);
    for (const wrong of ['Bearer', 'Bearer ', token, `Bearer ${token}x`, `Bearer ${token} ${token}`]) {
      assert.equal(await call(wrong), 401, wrong);
    }
  });

  test('4. an expired or invalid access token gets the error body of section 7', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('viewer');
    service.clock.advance(1800);
    for (const wrong of [token, 'nonsense', 'mra_AAAA']) {
      const answer = await service.call('GET', '/api/v1/applications', wrong);
      assert.equal(answer.status, 401);
      assert.deepEqual(answer.body, {
        status: 'error',
        result: { code: 'invalid_grant', message: 'Credentials or token is invalid or expired.' },
      });
    }
  });

  test('5. the refresh_token grant brings a new access_token and a new refresh_token', async (t) => {
    const service = await startTestService(t);
    const first = await service.form({ grant_type: 'client_credentials', ...(await service.newClient()) });
    service.clock.advance(1800);
    const second = await service.form({
      grant_type: 'refresh_token',
      refresh_token: first.body.refresh_token,
    });
    assert.equal(second.status, 200);
    assert.notEqual(second.body.refresh_token, first.body.refresh_token);
    assert.equal((await service.call('GET', '/api/v1/applications', second.body.access_token)).status, 200);
  });

  test('6. credentials come from a created client and from a user', async (t) => {
    const service = await startTestService(t);
    const administrator = await service.tokenOf('administrator');
    const created = await service.call('POST', '/api/v1/clients', administrator, { name: 'made by the API' });
    const user = { username: 'bob', password: 'a long password', role: 'viewer' };
    assert.equal((await service.call('POST', '/api/v1/users', administrator, user)).status, 201);
    const { client_id, client_secret } = created.body.result;
    const { username, password } = user;
    const answer = await service.form({
      grant_type: 'password',
      client_id,
      client_secret,
      username,
      password,
    });
    assert.equal(answer.status, 200, answer.text);
  });
});
