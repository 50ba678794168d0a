import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { onEachDatabase, type Place } from '../support/databases.ts';
import { startTestService, type TestService } from '../support/service.ts';

const PASSWORD = 'correct horse battery staple';
const PATH = '/api/v1/applications';
/** What the documentation promises for several nodes. */
const SECONDS_ON_OTHER_NODES = 5;

onEachDatabase('A token that was verified a moment ago', (newPlace) => {
  async function twoNodes(t: TestContext): Promise<[TestService, TestService]> {
    const place: Place = await newPlace();
    t.after(() => place.remove());
    return [await startTestService(t, { place }), await startTestService(t, { place })];
  }

  async function tokensOf(service: TestService, fields: Record<string, string>) {
    const { status, body } = await service.form(fields);
    assert.equal(status, 200);
    return { access: body.access_token as string, refresh: body.refresh_token as string };
  }

  /** And remembered: however slow the machine is, what follows finds it so. */
  async function isTaken(service: TestService, token: string): Promise<void> {
    do {
      assert.equal((await service.call('GET', PATH, token)).status, 200);
    } while (!service.system.bearerTokens.verifiedLately(token));
  }

  async function isRefused(service: TestService, token: string): Promise<void> {
    assert.equal((await service.call('GET', PATH, token)).status, 401);
  }

  test('ends at once by revocation: the access token, or the refresh token with its family', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    const grant = { grant_type: 'client_credentials', ...client };
    for (const kind of ['access', 'refresh'] as const) {
      const tokens = await tokensOf(service, grant);
      await isTaken(service, tokens.access);
      await service.form({ token: tokens[kind], ...client }, { endpoint: 'revoke' });
      await isRefused(service, tokens.access);
    }
  });

  test('ends at once when a spent refresh token comes again', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await tokensOf(service, {
      grant_type: 'client_credentials',
      ...(await service.newClient()),
    });
    const refresh = { grant_type: 'refresh_token', refresh_token: first.refresh };
    const lost = await tokensOf(service, refresh);
    await isTaken(service, lost.access);
    const second = await tokensOf(service, refresh);
    await isRefused(service, lost.access);
    await isTaken(service, second.access);
    service.clock.advance(60);
    assert.equal((await service.form(refresh)).status, 400);
    await isRefused(service, second.access);
    await isRefused(service, first.access);
  });

  test('ends at once with its client, and when it expires', async (t) => {
    const service = await startTestService(t, { newPlace });
    const client = await service.newClient();
    const grant = { grant_type: 'client_credentials', ...client };
    const { access } = await tokensOf(service, grant);
    await isTaken(service, access);
    service.clock.advance(1800);
    await isRefused(service, access);
    const later = await tokensOf(service, grant);
    await isTaken(service, later.access);
    await service.system.clients.revoke(client.client_id);
    await isRefused(service, later.access);
  });

  test('ends at once when its user is disabled or gets another password', async (t) => {
    const service = await startTestService(t, { newPlace });
    const { users } = service.system;
    const client = await service.newClient();
    await users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
    const grant = { grant_type: 'password', ...client, username: 'ann', password: PASSWORD };
    const { access } = await tokensOf(service, grant);
    await isTaken(service, access);
    await users.change('ann', { disabled: true });
    await isRefused(service, access);
    await users.change('ann', { disabled: false });
    await isTaken(service, access);
    await users.setPassword('ann', `${PASSWORD} again`);
    await isRefused(service, access);
  });

  test('has at once the role and the applications that its client or user is given', async (t) => {
    const service = await startTestService(t, { newPlace });
    const { clients, users } = service.system;
    const client = await service.newClient({ role: 'editor' });
    const { access } = await tokensOf(service, { grant_type: 'client_credentials', ...client });
    const makeApplication = async (token: string, appId: string) =>
      (await service.call('POST', PATH, token, { appId, name: appId })).status;
    await isTaken(service, access);
    await clients.change(client.client_id, { role: 'viewer' });
    assert.equal(await makeApplication(access, 'a'), 403);
    await clients.change(client.client_id, { role: 'administrator' });
    assert.equal(await makeApplication(access, 'a'), 201);
    await clients.change(client.client_id, { applications: ['b'] });
    assert.equal((await service.call('GET', `${PATH}/a`, access)).status, 403);

    const anyone = await service.newClient();
    await users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
    const ann = await tokensOf(service, {
      grant_type: 'password',
      ...anyone,
      username: 'ann',
      password: PASSWORD,
    });
    assert.equal(await makeApplication(ann.access, 'c'), 403);
    await users.change('ann', { role: 'administrator' });
    assert.equal(await makeApplication(ann.access, 'c'), 201);
  });

  test('is not remembered by a look that began before its revocation', async (t) => {
    const service = await startTestService(t, { newPlace });
    const { bearerTokens, tokens } = service.system;
    const { client_id } = await service.newClient();
    for (let round = 0; round < 50; round += 1) {
      const { accessToken } = await tokens.issue(client_id, null);
      await Promise.all([
        bearerTokens.principal(accessToken),
        tokens.revoke(accessToken, client_id),
        bearerTokens.principal(accessToken),
      ]);
      assert.equal(bearerTokens.verifiedLately(accessToken), null);
      assert.equal(await bearerTokens.principal(accessToken), null);
    }
  });

  test('is refused by the other nodes, too, a few seconds after its revocation', async (t) => {
    const [here, there] = await twoNodes(t);
    const client = await here.newClient();
    const { access } = await tokensOf(here, { grant_type: 'client_credentials', ...client });
    await isTaken(here, access);
    await isTaken(there, access);
    const since = performance.now();
    await here.form({ token: access, ...client }, { endpoint: 'revoke' });
    await isRefused(here, access);
    while ((await there.call('GET', PATH, access)).status !== 401) {
      const seconds = (performance.now() - since) / 1000;
      assert.ok(seconds < SECONDS_ON_OTHER_NODES, `still taken after ${seconds} s`);
    }
  });
});
