import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { startTestService } from '../support/service.ts';

async function tokenResponse(t: TestContext) {
  const service = await startTestService(t);
  const credentials = await service.newClient();
  const { body } = await service.form({ grant_type: 'client_credentials', ...credentials });
  return { service, body };
}

describe('Contract 2.1: token response', () => {
  test('access_token: a string, the bearer token for API calls', async (t) => {
    const { service, body } = await tokenResponse(t);
    assert.equal(typeof body.access_token, 'string');
    assert.equal((await service.call('GET', '/api/v1/applications', body.access_token)).status, 200);
  });

  test('refresh_token: a string, used to obtain a new access token', async (t) => {
    const { service, body } = await tokenResponse(t);
    assert.equal(typeof body.refresh_token, 'string');
    const refreshed = await service.form({ grant_type: 'refresh_token', refresh_token: body.refresh_token });
    assert.equal(refreshed.status, 200);
    assert.notEqual(refreshed.body.access_token, body.access_token);
  });

  test('token_type: always Bearer', async (t) => {
    const { service, body } = await tokenResponse(t);
    assert.equal(body.token_type, 'Bearer');
    const refreshed = await service.form({ grant_type: 'refresh_token', refresh_token: body.refresh_token });
    assert.equal(refreshed.body.token_type, 'Bearer');
  });

  test('expires_in: the integer 1800, in every response, and the truth', async (t) => {
    const { service, body } = await tokenResponse(t);
    assert.equal(body.expires_in, 1800);
    service.clock.advance(1799);
    assert.equal((await service.call('GET', '/api/v1/applications', body.access_token)).status, 200);
    service.clock.advance(1);
    assert.equal((await service.call('GET', '/api/v1/applications', body.access_token)).status, 401);
    const refreshed = await service.form({ grant_type: 'refresh_token', refresh_token: body.refresh_token });
    assert.equal(refreshed.body.expires_in, 1800);
  });

  test('the response has these four fields and no other', async (t) => {
    const { body } = await tokenResponse(t);
    assert.deepEqual(Object.keys(body).toSorted(), [
      'access_token',
      'expires_in',
      'refresh_token',
      'token_type',
    ]);
  });
});
