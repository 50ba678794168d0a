import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startTestService, type Answer, type TestService } from '../support/service.ts';

const PASSWORD = 'correct horse battery staple';

async function repeat(times: number, attempt: () => Promise<Answer>): Promise<number[]> {
  const statuses: number[] = [];
  for (let time = 0; time < times; time += 1) statuses.push((await attempt()).status);
  return statuses;
}

function withSecret(service: TestService, client: { client_id: string }, client_secret: string) {
  return service.form({ grant_type: 'client_credentials', ...client, client_secret });
}

describe('Decisions 2: failed attempts are throttled', () => {
  test('for a client: wrong secrets become 429 with Retry-After, right ones go through all the time', async (t) => {
    const service = await startTestService(t);
    const client = await service.newClient();
    const statuses = await repeat(12, () => withSecret(service, client, 'wrong'));
    assert.deepEqual(statuses, [...Array<number>(10).fill(401), 429, 429]);
    const refused = await withSecret(service, client, 'wrong');
    assert.equal(refused.body.error, 'too_many_requests');
    assert.equal(refused.headers.get('retry-after'), '6');
    assert.equal((await withSecret(service, client, client.client_secret)).status, 200);

    service.clock.advance(6);
    assert.deepEqual(await repeat(2, () => withSecret(service, client, 'wrong')), [401, 429]);
  });

  test('right secrets go through in the middle of a flood of wrong ones', async (t) => {
    const service = await startTestService(t);
    const client = await service.newClient();
    const flood = Array.from({ length: 60 }, () => withSecret(service, client, 'wrong'));
    const right = Array.from({ length: 5 }, () => withSecret(service, client, client.client_secret));
    assert.deepEqual(
      (await Promise.all(right)).map(({ status }) => status),
      Array<number>(5).fill(200),
    );
    const statuses = (await Promise.all(flood)).map(({ status }) => status);
    assert.ok(statuses.includes(429) && statuses.every((status) => status === 401 || status === 429));
  });

  test('one client that fails does not slow another down', async (t) => {
    const service = await startTestService(t);
    const [failing, other] = [await service.newClient(), await service.newClient()];
    await repeat(15, () => withSecret(service, failing, 'wrong'));
    assert.equal((await withSecret(service, other, 'wrong')).status, 401);
  });

  test('for an address: whoever tries many names is throttled, too', async (t) => {
    const service = await startTestService(t, { settings: { addressFailureBurst: 20 } });
    let name = 0;
    const statuses = await repeat(25, () =>
      withSecret(service, { client_id: `guess-${(name += 1)}` }, 'wrong'),
    );
    assert.deepEqual(statuses, [...Array<number>(20).fill(401), ...Array<number>(5).fill(429)]);
    const client = await service.newClient();
    assert.equal((await withSecret(service, client, client.client_secret)).status, 200);
  });

  test('for an address behind a trusted proxy: the address that the proxy names', async (t) => {
    const settings = { addressFailureBurst: 5, trustedProxies: ['127.0.0.1'] };
    const service = await startTestService(t, { settings });
    let name = 0;
    const from = (address: string) => () =>
      service.form(
        { grant_type: 'client_credentials', client_id: `guess-${(name += 1)}`, client_secret: 'x' },
        { headers: { 'x-forwarded-for': address } },
      );
    assert.deepEqual(await repeat(6, from('203.0.113.7')), [401, 401, 401, 401, 401, 429]);
    assert.deepEqual(await repeat(1, from('203.0.113.8')), [401]);
    assert.deepEqual(await repeat(5, from('2001:db8::1')), Array<number>(5).fill(401));
    assert.deepEqual(
      await repeat(1, from('2001:db8:0:0:ffff::2')),
      [429],
      'the same network of 2^64 addresses',
    );
  });

  test('for a user: wrong passwords become 429, the right one goes through, until the lock', async (t) => {
    const settings = { addressFailureBurst: 10_000, userLockBurst: 30 };
    const service = await startTestService(t, { settings });
    const client = await service.newClient();
    for (const username of ['ann', 'eve']) {
      await service.system.users.create({ username, password: PASSWORD, role: 'viewer' });
    }
    const attempt = (username: string, password: string) =>
      service.form({ grant_type: 'password', ...client, username, password });
    const statuses = await repeat(12, () => attempt('ann', 'wrong password'));
    assert.deepEqual(statuses, [...Array<number>(10).fill(400), 429, 429]);
    assert.equal((await attempt('ann', PASSWORD)).status, 200);

    await repeat(30, () => attempt('eve', 'wrong password'));
    const locked = await attempt('eve', PASSWORD);
    assert.equal(
      locked.status,
      429,
      'a password could be guessed in time, so over the lock none is looked at',
    );
    assert.ok(Number(locked.headers.get('retry-after')) > 0);
    service.clock.advance(Number(locked.headers.get('retry-after')));
    assert.equal((await attempt('eve', PASSWORD)).status, 200);
  });
});
