import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachDatabase } from '../support/databases.ts';
import { startTestService, type Credentials, type TestService } from '../support/service.ts';

const PASSWORD = 'correct horse battery staple';

onEachDatabase('Contract 4.1: POST /api/v1/oauth2/token', (newPlace) => {
  /** The full request of each grant, by name. */
  async function requests(service: TestService): Promise<Record<string, Record<string, string>>> {
    const credentials: Credentials = await service.newClient();
    await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'operator' });
    const first = await service.form({ grant_type: 'client_credentials', ...credentials });
    return {
      client_credentials: { grant_type: 'client_credentials', ...credentials },
      password: { grant_type: 'password', ...credentials, username: 'ann', password: PASSWORD },
      refresh_token: { grant_type: 'refresh_token', refresh_token: first.body.refresh_token },
    };
  }

  for (const grant of ['client_credentials', 'password', 'refresh_token']) {
    test(`${grant}: its fields bring a token`, async (t) => {
      const service = await startTestService(t, { newPlace });
      const request = (await requests(service))[grant] ?? {};
      const answer = await service.form(request);
      assert.equal(answer.status, 200, answer.text);
      assert.equal((await service.call('GET', '/api/v1/applications', answer.body.access_token)).status, 200);
    });

    test(`${grant}: each of its fields is required, and named when it is missing or empty`, async (t) => {
      const service = await startTestService(t, { newPlace });
      const request = (await requests(service))[grant] ?? {};
      for (const field of Object.keys(request)) {
        const { [field]: _, ...without } = request;
        for (const incomplete of [without, { ...without, [field]: '' }]) {
          const { status, body } = await service.form(incomplete);
          assert.equal(status, 400);
          assert.equal(body.error, 'invalid_request');
          assert.match(body.error_description, new RegExp(`\\b${field}\\b`));
        }
      }
    });
  }

  test('refresh_token: client credentials are not sent', async (t) => {
    const service = await startTestService(t, { newPlace });
    const { refresh_token: request = {} } = await requests(service);
    assert.deepEqual(Object.keys(request), ['grant_type', 'refresh_token']);
    assert.equal((await service.form(request)).status, 200);
  });

  test('every grant type returns a new access_token and a new refresh_token', async (t) => {
    const service = await startTestService(t, { newPlace });
    const seen = new Set<string>();
    for (const request of Object.values(await requests(service))) {
      const { body } = await service.form(request);
      seen.add(body.access_token).add(body.refresh_token);
    }
    assert.equal(seen.size, 6);
  });

  test('the body format is application/x-www-form-urlencoded; another is invalid_request', async (t) => {
    const service = await startTestService(t, { newPlace });
    const credentials = await service.newClient();
    const body = JSON.stringify({ grant_type: 'client_credentials', ...credentials });
    for (const type of [
      'application/json',
      'text/plain',
      'application/xml',
      'multipart/form-data; boundary=x',
    ]) {
      const answer = await service.form(body, { headers: { 'content-type': type } });
      assert.equal(answer.status, 400, type);
      assert.equal(answer.body.error, 'invalid_request');
      assert.match(answer.body.error_description, /form-urlencoded|application\/json/);
    }
  });

  test('a charset beside the body format changes nothing', async (t) => {
    const service = await startTestService(t, { newPlace });
    const { password: request = {} } = await requests(service);
    const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' };
    assert.equal((await service.form(request, { headers })).status, 200);
  });

  test('the password grant acts with the role of the user', async (t) => {
    const service = await startTestService(t, { newPlace });
    const { password: request = {} } = await requests(service);
    const { body } = await service.form(request);
    const refused = await service.call('POST', '/api/v1/applications', body.access_token, { appId: 'a' });
    assert.equal(refused.status, 403);
  });
});
