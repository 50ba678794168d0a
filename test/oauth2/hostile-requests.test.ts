import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { spawnService } from '../support/service-process.ts';
import { startTestService } from '../support/service.ts';

/** Names, and what the answer must be: a clear refusal, never a fault of ours. */
const hostile: Record<string, { body: string; status: number; says: RegExp }> = {
  'a body of 10 MB': { body: `grant_type=${'x'.repeat(10_000_000)}`, status: 413, says: /limit/ },
  'a password of 1 MB': {
    body: `grant_type=password&client_id=a&client_secret=b&username=c&password=${'x'.repeat(1_000_000)}`,
    status: 413,
    says: /limit/,
  },
  '1,000 parameters': {
    body: Array.from({ length: 1000 }, (_, index) => `p${index}=1`).join('&'),
    status: 400,
    says: /more than 50 parameters/,
  },
  'invalid percent-encoding': {
    body: 'grant_type=%zz',
    status: 400,
    says: /grant_type is not percent-encoded/,
  },
  'percent-encoding that is not UTF-8': {
    body: 'grant_type=%ff%fe',
    status: 400,
    says: /not percent-encoded UTF-8/,
  },
  'a NUL character': {
    body: 'grant_type=client_credentials&client_id=a%00b&client_secret=x',
    status: 400,
    says: /client_id contains a NUL/,
  },
  'a raw NUL character': { body: 'grant_type=a\0', status: 400, says: /NUL/ },
  'the same parameter twice': {
    body: 'grant_type=client_credentials&client_id=a&client_id=b&client_secret=c',
    status: 400,
    says: /client_id is there twice/,
  },
  'an unknown parameter twice': {
    body: 'a=1&a=2&grant_type=client_credentials',
    status: 400,
    says: /\ba is there twice/,
  },
  'no body': { body: '', status: 400, says: /grant_type is missing/ },
  'prototype games': {
    body: '__proto__=1&constructor=2&grant_type=constructor',
    status: 400,
    says: /grant_type is none of/,
  },
};

describe('Hostile requests to the token endpoint', () => {
  for (const [name, { body, status, says }] of Object.entries(hostile)) {
    test(`${name}: ${status}`, async (t) => {
      const service = await startTestService(t);
      const answer = await service.form(body);
      assert.equal(answer.status, status);
      assert.equal(
        answer.body.error,
        name === 'prototype games' ? 'unsupported_grant_type' : 'invalid_request',
      );
      assert.match(answer.body.error_description, says);
      const client = await service.newClient();
      assert.equal((await service.form({ grant_type: 'client_credentials', ...client })).status, 200);
    });
  }

  test('a sender that is still sending gets its 413, not a broken connection', async (t) => {
    const service = await spawnService(t); // in one process, reading and sending would take turns
    const body = `grant_type=${'x'.repeat(20_000_000)}`;
    for (let round = 0; round < 20; round += 1) assert.equal((await service.form(body)).status, 413);
  });

  test('none of them slows the event loop down: its lag stays under 50 ms', async (t) => {
    const service = await spawnService(t);
    await service.client();
    await service.eventLoopLagMs(); // forgets the start
    const lags: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(Object.values(hostile).map(({ body }) => service.form(body)));
      const wrong = {
        grant_type: 'client_credentials',
        client_id: 'nobody',
        client_secret: 'x'.repeat(20_000),
      };
      await Promise.all(Array.from({ length: 8 }, () => service.form(new URLSearchParams(wrong).toString())));
      lags.push(await service.eventLoopLagMs());
    }
    t.diagnostic(`longest delays of the event loop: ${lags.map((lag) => lag.toFixed(1)).join(', ')} ms`);
    // The best of the rounds: work that blocks does so each time, a busy machine does not.
    assert.ok(Math.min(...lags) < 50, `the event loop stood still for ${lags.join(', ')} ms`);
  });

  test('anything at all: an answer of the right shape, never a 5xx', async (t) => {
    const service = await startTestService(t, { settings: { addressFailureBurst: 100_000 } });
    const client = await service.newClient();
    const value = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('password', 'refresh_token', client.client_id),
    );
    const name = fc.oneof(
      fc.constantFrom(
        'grant_type',
        'client_id',
        'client_secret',
        'username',
        'password',
        'refresh_token',
        'scope',
      ),
      fc.string(),
    );
    const form = fc.array(fc.tuple(name, value)).map((pairs) => new URLSearchParams(pairs).toString());
    const body = fc.oneof(form, fc.string(), fc.string({ unit: 'binary' }));
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        const answer = await service.form(text);
        assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${answer.text}`);
        assert.deepEqual(Object.keys(answer.body).toSorted(), ['error', 'error_description']);
      }),
      { numRuns: 300 },
    );
  });

  test('what is not HTTP at all is refused in the same envelope', async (t) => {
    const service = await startTestService(t);
    const { port, hostname } = new URL(service.url);
    const send = async (text: string) => {
      const socket = connect(Number(port), hostname);
      socket.write(text);
      return (await buffer(socket)).toString();
    };
    const malformed = await send('NONSENSE\r\n\r\n');
    assert.match(malformed, /^HTTP\/1\.1 400 /);
    assert.match(malformed, /"code":"invalid_request"/);
    const endless = await send(`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(40_000)}\r\n\r\n`);
    assert.match(endless, /^HTTP\/1\.1 431 /);
    assert.match(endless, /"code":"header_too_large"/);
  });
});
