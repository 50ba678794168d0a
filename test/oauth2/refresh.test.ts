import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachDatabase } from '../support/databases.ts';
import { startTestService, type TestService } from '../support/service.ts';

interface Pair {
  access_token: string;
  refresh_token: string;
}

onEachDatabase('Decisions 2: refresh tokens', (newPlace) => {
  async function firstPair(service: TestService): Promise<Pair> {
    const { body } = await service.form({ grant_type: 'client_credentials', ...(await service.newClient()) });
    return body;
  }

  function refresh(service: TestService, { refresh_token }: Pair, more: Record<string, string> = {}) {
    return service.form({ grant_type: 'refresh_token', refresh_token, ...more });
  }

  async function isValid(service: TestService, { access_token }: Pair): Promise<boolean> {
    return (await service.call('GET', '/api/v1/applications', access_token)).status === 200;
  }

  test('racing 50 refreshes of one token: exactly one pair survives', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await firstPair(service);
    const answers = await Promise.all(Array.from({ length: 50 }, () => refresh(service, first)));
    const pairs = answers.filter(({ status }) => status === 200).map(({ body }) => body as Pair);
    assert.ok(pairs.length > 0);
    const valid = await Promise.all(pairs.map((pair) => isValid(service, pair)));
    assert.equal(valid.filter(Boolean).length, 1);

    const again: Pair[] = [];
    for (const pair of pairs) {
      const { status, body } = await refresh(service, pair);
      if (status === 200) again.push(body);
      else assert.equal(body.error, 'invalid_grant');
    }
    assert.equal(again.length, 1, 'exactly one of them can be refreshed');
    assert.ok(await isValid(service, again[0] as Pair));
  });

  test('racing with the successor: the family has one winner or none, never two', async (t) => {
    const service = await startTestService(t, { newPlace });
    for (let round = 0; round < 10; round += 1) {
      const first = await firstPair(service);
      const { body: second } = await refresh(service, first);
      const answers = await Promise.all([
        refresh(service, first),
        refresh(service, second),
        refresh(service, first),
      ]);
      const pairs = answers.filter(({ status }) => status === 200).map(({ body }) => body as Pair);
      const again = [];
      for (const pair of pairs) if ((await refresh(service, pair)).status === 200) again.push(pair);
      assert.ok(again.length <= 1, `${again.length} winners`);
    }
  });

  test('a lost response: within the grace the old token brings a new pair and revokes the unused successor', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await firstPair(service);
    const { body: lost } = await refresh(service, first);
    service.clock.advance(10);
    const retried = await refresh(service, first);
    assert.equal(retried.status, 200);
    assert.equal(await isValid(service, lost), false);
    assert.equal(await isValid(service, retried.body), true);
    assert.equal((await refresh(service, lost)).status, 400);
    assert.equal((await refresh(service, retried.body)).status, 200);
  });

  test('reuse after the grace revokes the whole family', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await firstPair(service);
    const { body: second } = await refresh(service, first);
    const { body: third } = await refresh(service, second);
    service.clock.advance(11);
    const reused = await refresh(service, first);
    assert.equal(reused.status, 400);
    assert.equal(reused.body.error, 'invalid_grant');
    for (const pair of [first, second, third]) {
      assert.equal(await isValid(service, pair), false);
      assert.equal((await refresh(service, pair)).status, 400);
    }
  });

  test('reuse within the grace, when the successor is used already, revokes the whole family', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await firstPair(service);
    const { body: second } = await refresh(service, first);
    const { body: third } = await refresh(service, second);
    assert.equal((await refresh(service, first)).status, 400);
    assert.equal(await isValid(service, third), false);
    assert.equal((await refresh(service, third)).status, 400);
  });

  test('a superseded pair that turns up after the grace was stolen or copied: the family ends', async (t) => {
    const service = await startTestService(t, { newPlace });
    const first = await firstPair(service);
    const { body: superseded } = await refresh(service, first);
    const { body: current } = await refresh(service, first);
    service.clock.advance(11);
    assert.equal((await refresh(service, superseded)).status, 400);
    assert.equal(await isValid(service, current), false);
  });

  test('the revocation of one family leaves the others alone', async (t) => {
    const service = await startTestService(t, { newPlace });
    const [first, other] = [await firstPair(service), await firstPair(service)];
    await refresh(service, first);
    service.clock.advance(11);
    await refresh(service, first);
    assert.equal(await isValid(service, other), true);
    assert.equal((await refresh(service, other)).status, 200);
  });

  test('client credentials sent all the same must be right and match', async (t) => {
    const service = await startTestService(t, { newPlace });
    const owner = await service.newClient();
    const stranger = await service.newClient();
    const { body: pair } = await service.form({ grant_type: 'client_credentials', ...owner });
    assert.equal(
      (await refresh(service, pair, { ...owner, client_secret: 'wrong' })).body.error,
      'invalid_client',
    );
    assert.equal((await refresh(service, pair, { ...stranger })).body.error, 'invalid_grant');
    assert.equal(
      (await refresh(service, pair, { client_id: stranger.client_id })).body.error,
      'invalid_grant',
    );
    assert.equal((await refresh(service, pair, { ...owner })).status, 200);
  });

  test('a user stays signed in for 14 days from the last use and 90 days in all', async (t) => {
    const service = await startTestService(t, { newPlace });
    const day = 86_400;
    const credentials = await service.newClient();
    await service.system.users.create({ username: 'ann', password: 'long enough', role: 'viewer' });
    const grant = { grant_type: 'password', ...credentials, username: 'ann', password: 'long enough' };
    let { body: pair } = await service.form(grant);
    for (let passed = 0; passed + 13 < 90; passed += 13) {
      service.clock.advance(13 * day);
      const answer = await refresh(service, pair);
      assert.equal(answer.status, 200, `after ${passed + 13} days`);
      pair = answer.body;
    }
    service.clock.advance(12 * day);
    assert.equal((await refresh(service, pair)).status, 400, 'after 90 days');

    const { body: idle } = await service.form(grant);
    service.clock.advance(14 * day);
    assert.equal((await refresh(service, idle)).status, 400, 'after 14 idle days');
  });

  test('expired tokens are swept, and only they', async (t) => {
    const service = await startTestService(t, { newPlace });
    const old = await firstPair(service);
    service.clock.advance(service.settings.clientCredentialsRefreshSeconds - 10);
    const recent = await firstPair(service);
    service.clock.advance(10);
    assert.equal(await service.system.tokens.sweep(), 1);
    assert.equal((await refresh(service, old)).status, 400);
    assert.equal(await isValid(service, recent), true);
    assert.equal(await service.system.tokens.sweep(), 0);
  });

  test('tokens are kept as hashes only', async (t) => {
    const service = await startTestService(t, { newPlace });
    const pair = await firstPair(service);
    const rows = JSON.stringify(
      await service.system.database.query.selectFrom('token').selectAll().execute(),
    );
    assert.ok(!rows.includes(pair.access_token.slice(4)) && !rows.includes(pair.refresh_token.slice(4)));
  });
});
