import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachDatabase } from '../support/databases.ts';
import { startTestService } from '../support/service.ts';

const TEXT = 'Credentials or token is invalid or expired.';

onEachDatabase('Contract 7: errors', (newPlace) => {
  test('API request with an expired or invalid access token: {result: {code, message}, status}', async (t) => {
    const service = await startTestService(t, { newPlace });
    const token = await service.tokenOf('editor');
    service.clock.advance(1800);
    for (const wrong of [token, 'invalid', null]) {
      const { status, body } = await service.call('POST', '/api/v1/executeJob', wrong, { appId: 'a' });
      assert.equal(status, 401);
      assert.deepEqual(body, { result: { code: 'invalid_grant', message: TEXT }, status: 'error' });
    }
  });

  test('token endpoint called with an expired refresh token: {error_description, error}', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await service.form({ grant_type: 'client_credentials', ...(await service.newClient()) });
    service.clock.advance(service.settings.clientCredentialsRefreshSeconds);
    for (const refresh_token of [first.body.refresh_token, 'invalid']) {
      const { status, body } = await service.form({ grant_type: 'refresh_token', refresh_token });
      assert.equal(status, 400);
      assert.deepEqual(body, { error_description: TEXT, error: 'invalid_grant' });
    }
  });
});
