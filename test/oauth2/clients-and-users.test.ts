import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachDatabase } from '../support/databases.ts';
import { startTestService, type TestService } from '../support/service.ts';

const PASSWORD = 'correct horse battery staple';

function clientCredentials(service: TestService, client: { client_id: string; client_secret: string }) {
  return service.form({ grant_type: 'client_credentials', ...client });
}

onEachDatabase('Decisions 2: clients and users', (newPlace) => {
  test('a wrong secret and an unknown client are 401 invalid_client, the same answer', async (t) => {
    const service = await startTestService(t, { newPlace });
    const { client_id } = await service.newClient();
    const wrong = await clientCredentials(service, { client_id, client_secret: 'wrong' });
    const unknown = await clientCredentials(service, { client_id: 'nobody', client_secret: 'wrong' });
    assert.equal(wrong.status, 401);
    assert.equal(wrong.body.error, 'invalid_client');
    assert.deepEqual(unknown.body, wrong.body);
    assert.equal(wrong.headers.get('www-authenticate'), null, 'no challenge where the form was used');
  });

  test('a wrong password, an unknown and a disabled user are 400 invalid_grant with the contract text', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
    await service.system.users.create({ username: 'off', password: PASSWORD, role: 'viewer' });
    await service.system.users.change('off', { disabled: true });
    for (const [username, password] of [
      ['ann', 'wrong password'],
      ['nobody', PASSWORD],
      ['off', PASSWORD],
    ]) {
      const answer = await service.form({ grant_type: 'password', ...client, username, password } as Record<
        string,
        string
      >);
      assert.equal(answer.status, 400);
      const error_description = 'Credentials or token is invalid or expired.';
      assert.deepEqual(answer.body, { error: 'invalid_grant', error_description });
    }
  });

  test('a client that is restricted to grants: unauthorized_client for the others', async (t) => {
    const service = await startTestService(t, { newPlace });
    await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
    const client = await service.newClient({ grants: ['client_credentials'] });
    const first = await clientCredentials(service, client);
    assert.equal(first.status, 200);
    const password = { grant_type: 'password', ...client, username: 'ann', password: PASSWORD };
    const refresh = { grant_type: 'refresh_token', refresh_token: first.body.refresh_token };
    for (const request of [password, refresh]) {
      const { status, body } = await service.form(request);
      assert.equal(status, 400);
      assert.equal(body.error, 'unauthorized_client');
      assert.ok(body.error_description.includes(request.grant_type));
    }
  });

  test('a client that is restricted to applications may not call the others, and does not see them', async (t) => {
    const service = await startTestService(t, { newPlace });
    await service.system.applications.create({ appId: 'mine' });
    await service.system.applications.create({ appId: 'theirs' });
    const token = await service.tokenOf('editor', { applications: ['mine'] });
    const job = (appId: string) => ({ appId, operation: { opName: 'None' } });
    const run = async (appId: string) =>
      (await service.call('POST', '/api/v1/executeJob', token, job(appId))).body.result;
    assert.equal((await run('mine')).code, 'unknown_operation');
    assert.equal((await run('theirs')).code, 'forbidden');
    assert.equal((await run('missing')).code, 'forbidden', 'whether it exists is not told');
    assert.equal((await service.call('GET', '/api/v1/applications/theirs', token)).status, 403);
    const list = await service.call('GET', '/api/v1/applications', token);
    assert.deepEqual(
      list.body.result.items.map(({ appId }: { appId: string }) => appId),
      ['mine'],
    );
  });

  test('two live secrets: rotation keeps the newest of the old ones', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await service.newClient();
    const rotate = async () => {
      service.clock.advance(1);
      return (await service.system.clients.rotateSecret(first.client_id)).client_secret;
    };
    const works = async (client_secret: string) =>
      (await clientCredentials(service, { client_id: first.client_id, client_secret })).status === 200;
    const second = await rotate();
    assert.deepEqual([await works(first.client_secret), await works(second)], [true, true]);
    const third = await rotate();
    assert.deepEqual(
      [await works(first.client_secret), await works(second), await works(third)],
      [false, true, true],
    );
  });

  test('a revoked secret is dead at once, although it was remembered as right', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    assert.equal((await clientCredentials(service, client)).status, 200);
    const [secret] = (await service.system.clients.get(client.client_id)).secrets;
    await service.system.clients.revokeSecret(client.client_id, secret?.id ?? '');
    assert.equal((await clientCredentials(service, client)).status, 401);
  });

  test('a revoked client: its secret and all its tokens are dead', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    const { body } = await clientCredentials(service, client);
    await service.system.clients.revoke(client.client_id);
    assert.equal((await clientCredentials(service, client)).status, 401);
    assert.equal((await service.call('GET', '/api/v1/applications', body.access_token)).status, 401);
    const refreshed = await service.form({ grant_type: 'refresh_token', refresh_token: body.refresh_token });
    assert.equal(refreshed.body.error, 'invalid_grant');
  });

  test('a disabled user: its tokens are dead until it is enabled; a new password ends them for good', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
    const grant = { grant_type: 'password', ...client, username: 'ann', password: PASSWORD };
    const { body } = await service.form(grant);
    const status = async () => (await service.call('GET', '/api/v1/applications', body.access_token)).status;
    await service.system.users.change('ann', { disabled: true });
    assert.equal(await status(), 401);
    await service.system.users.change('ann', { disabled: false });
    assert.equal(await status(), 200);
    await service.system.users.setPassword('ann', 'another password');
    assert.equal(await status(), 401);
    assert.equal((await service.form(grant)).status, 400);
    assert.equal((await service.form({ ...grant, password: 'another password' })).status, 200);
  });

  test('secrets and passwords are kept as argon2id only', async (t) => {
    const service = await startTestService(t, { newPlace });
    await service.newClient();
    await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
    const { query } = service.system.database;
    const secrets = await query.selectFrom('client_secret').select('argon2').execute();
    const users = await query.selectFrom('user').select('argon2').execute();
    for (const { argon2 } of [...secrets, ...users]) assert.match(argon2, /^\$argon2id\$/);
  });

  test('HTTP Basic instead of the form: percent-encoded as RFC 6749 says, or not, as curl does', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client_id = 'client:with+odd %41';
    const client_secret = 'sécret+with%25&=: odd';
    await service.system.clients.create(
      { name: 'odd', role: 'viewer', grants: ['client_credentials'], applications: null },
      { clientId: client_id, clientSecret: client_secret },
    );
    const plain = await service.newClient();
    const basic = (id: string, secret: string) => ({
      headers: { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` },
    });
    const grant = { grant_type: 'client_credentials' };
    const encoded = basic(encodeURIComponent(client_id), encodeURIComponent(client_secret));
    assert.equal((await service.form(grant, encoded)).status, 200);
    assert.equal((await service.form(grant, basic(plain.client_id, plain.client_secret))).status, 200);

    const wrong = await service.form(grant, basic(plain.client_id, 'wrong'));
    assert.equal(wrong.status, 401);
    assert.match(wrong.headers.get('www-authenticate') ?? '', /^Basic realm="millrace"/);
    const malformed = await service.form(grant, { headers: { authorization: 'Basic !!!' } });
    assert.equal(malformed.status, 401);
    assert.equal(malformed.body.error, 'invalid_client');
  });

  test('one mechanism a request: credentials in form and header are invalid_request', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    const authorization = `Basic ${Buffer.from(`${client.client_id}:${client.client_secret}`).toString('base64')}`;
    const answer = await service.form(
      { grant_type: 'client_credentials', ...client },
      { headers: { authorization } },
    );
    assert.equal(answer.status, 400);
    assert.equal(answer.body.error, 'invalid_request');
  });

  test('every answer of the token endpoints has Cache-Control: no-store and Pragma: no-cache', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    const answers = [
      await clientCredentials(service, client),
      await service.form({ grant_type: 'nonsense' }),
      await service.form('%zz'),
      await service.form({ token: 'x', ...client }, { endpoint: 'introspect' }),
      await service.form({ token: 'x', ...client }, { endpoint: 'revoke' }),
      await service.form({}, { endpoint: 'revoke' }),
      await service.call('GET', '/api/v1/oauth2/token', null),
    ];
    for (const { headers, status } of answers) {
      assert.equal(headers.get('cache-control'), 'no-store', String(status));
      assert.equal(headers.get('pragma'), 'no-cache');
    }
  });

  test('revoke (RFC 7009): a refresh token takes its family along, an access token goes alone', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    const revoke = (token: string, by = client) => service.form({ token, ...by }, { endpoint: 'revoke' });
    const works = async (token: string) =>
      (await service.call('GET', '/api/v1/applications', token)).status === 200;

    const { body: one } = await clientCredentials(service, client);
    assert.equal((await revoke(one.access_token)).status, 200);
    assert.equal(await works(one.access_token), false);
    const { body: refreshed } = await service.form({
      grant_type: 'refresh_token',
      refresh_token: one.refresh_token,
    });
    assert.equal(await works(refreshed.access_token), true);
    assert.equal((await revoke(refreshed.refresh_token)).status, 200);
    assert.equal(await works(refreshed.access_token), false);

    const { body: other } = await clientCredentials(service, client);
    assert.equal((await revoke('unknown')).status, 200, 'an unknown token is no error');
    assert.equal((await revoke(other.refresh_token, await service.newClient())).status, 200);
    assert.equal(await works(other.access_token), true, 'nobody revokes the tokens of others');
    assert.equal((await service.form({ token: other.access_token }, { endpoint: 'revoke' })).status, 400);
  });

  test('introspect (RFC 7662): what is valid, and of others only that it is not active', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    const ask = async (token: string, by = client) =>
      (await service.form({ token, ...by }, { endpoint: 'introspect' })).body;
    await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
    const grant = { grant_type: 'password', ...client, username: 'ann', password: PASSWORD };
    const { body: pair } = await service.form(grant);
    const iat = Math.floor(service.clock.time / 1000);
    const known = { active: true, client_id: client.client_id, username: 'ann', sub: 'ann', iat };
    assert.deepEqual(await ask(pair.access_token), { ...known, token_type: 'Bearer', exp: iat + 1800 });
    const refresh = await ask(pair.refresh_token);
    assert.deepEqual(refresh, { ...known, token_type: 'refresh_token', exp: iat + 14 * 86_400 });
    assert.deepEqual(await ask(pair.access_token, await service.newClient()), { active: false });
    service.clock.advance(1800);
    assert.deepEqual(await ask(pair.access_token), { active: false });
    await service.form({ grant_type: 'refresh_token', refresh_token: pair.refresh_token });
    assert.deepEqual(await ask(pair.refresh_token), { active: false }, 'a spent one');
  });

  test('the bootstrap client of containers is an administrator, made once', async (t) => {
    const place = await newPlace();
    t.after(() => place.remove());
    const settings = { bootstrapClientId: 'first', bootstrapClientSecret: 'a secret from outside' };
    for (let start = 0; start < 2; start += 1) {
      await t.test(`start ${start + 1}`, async (inner) => {
        const service = await startTestService(inner, { place, settings });
        const { client_id, client_secret } = { client_id: 'first', client_secret: 'a secret from outside' };
        const { body } = await clientCredentials(service, { client_id, client_secret });
        const list = await service.call('GET', '/api/v1/clients', body.access_token);
        assert.deepEqual(
          list.body.result.items.map((client: { client_id: string }) => client.client_id),
          ['first'],
        );
      });
    }
  });
});
