import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { HttpClient } from '../../src/http/http-client.ts';
import type { Answer } from '../support/service.ts';
import { badRequest, requestBench } from '../support/request-bench.ts';

const timeouts = ['connectTimeout', 'readTimeout', 'writeTimeout'] as const;

/** Far longer than a timeout of these tests, far shorter than the defaults. */
const PATIENCE_MS = 30_000;

/** A server that takes connections and says nothing: no TLS handshake with it ever ends. */
async function silentServer(t: TestContext): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** The timeouts that reach the HTTP client, in milliseconds. */
function watchTimeouts(t: TestContext): () => (number | undefined)[] {
  const { mock } = t.mock.method(HttpClient.prototype, 'receive');
  return () => {
    const options = mock.calls.at(-1)?.arguments[1];
    return [options?.connectTimeoutMs, options?.readTimeoutMs, options?.writeTimeoutMs];
  };
}

function assertTimedOut(answer: Answer, message: RegExp): void {
  assert.equal(answer.status, 504, answer.text);
  assert.equal(answer.body.status, 'error');
  assert.equal(answer.body.result.code, 'http_timeout');
  assert.match(answer.body.result.message, message);
  assert.match(answer.body.result.jobId, /./);
}

describe('Contract 2.3: options (all values are strings holding seconds)', () => {
  const bench = requestBench();

  for (const [index, option] of timeouts.entries()) {
    test(`${option}: a string, default 600`, async (t) => {
      const { send } = bench();
      const seen = watchTimeouts(t);
      await send({ options: {} });
      assert.equal(seen()[index], 600_000);
      await send({ options: { [option]: '2.5' } });
      assert.deepEqual(
        seen(),
        timeouts.map((name) => (name === option ? 2_500 : 600_000)),
      );
    });

    test(`${option}: a number is taken, too`, async (t) => {
      const seen = watchTimeouts(t);
      await bench().send({ options: { [option]: 12 } });
      assert.equal(seen()[index], 12_000);
    });

    test(`${option}: what is no number of seconds above 0 is refused`, async () => {
      const { refuse } = bench();
      for (const value of ['0', '0.0', '-1', '', ' 5', '5 s', '1e3', 'ten', 'Infinity', 0, -1]) {
        const wrong = badRequest(
          `request.options.${option}`,
          /a number of seconds greater than 0, such as "600"/,
        );
        await refuse(wrong, { options: { [option]: value } });
      }
      for (const value of [true, null, {}, ['5']]) {
        const wrong = badRequest(`request.options.${option}`, /expected string or number/);
        await refuse(wrong, { options: { [option]: value } });
      }
    });
  }

  test('connectTimeout: connect timeout in seconds', async (t) => {
    const { run } = bench();
    const url = await silentServer(t);
    const start = performance.now();
    const options = { connectTimeout: '0.2', retry: false };
    assertTimedOut(await run({ request: { url, method: 'GET', options } }), /0\.2 s/);
    assert.ok(performance.now() - start < PATIENCE_MS);
  });

  test('readTimeout: read timeout in seconds, while waiting for the headers', async () => {
    const { run, api } = bench();
    const options = { readTimeout: '0.2', retry: false };
    const url = `${api.url}/slow-headers/echo?ms=${PATIENCE_MS}`;
    assertTimedOut(await run({ request: { url, method: 'GET', options } }), /0\.2 s/);
  });

  test('readTimeout: read timeout in seconds, while waiting for the body', async () => {
    const { run, api } = bench();
    const options = { readTimeout: '0.2', retry: false };
    const url = `${api.url}/slow-body?ms=${PATIENCE_MS}`;
    assertTimedOut(await run({ request: { url, method: 'GET', options } }), /0\.2 s/);
    const target = { action: 'save to file', table: 'slow' };
    assertTimedOut(await run({ request: { url, method: 'GET', options }, target }), /0\.2 s/);
    assert.equal(await bench().file('slow'), null);
  });

  test('readTimeout: the longest silence, not the whole time', async () => {
    const { sendOne, api } = bench();
    api.answer('GET /trickle', async ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      for (const part of ['[', '1', ',', '2', ',', '3', ']']) {
        response.write(part);
        await delay(300);
      }
      response.end();
    });
    const { status } = await sendOne({ url: '/trickle', options: { readTimeout: '1.5', retry: false } });
    assert.equal(status, 200);
  });

  test('writeTimeout: write timeout in seconds', async () => {
    const { run, send, api } = bench();
    // More than the socket buffers of both sides hold.
    await send({ url: '/files/40000000' }, { target: { action: 'save to file', table: 'large.bin' } });
    const answer = await run({
      request: {
        url: `${api.url}/slow-read?ms=${PATIENCE_MS}`,
        method: 'POST',
        bodyType: 'JSON -> transmitSourceTable()',
        body: '{"sourceName": "files", "tableName": "large.bin"}',
        options: { writeTimeout: '0.3', retry: false },
      },
    });
    assertTimedOut(answer, /0\.3 s/);
  });

  test('a request that timed out is tried again where that is safe', async () => {
    const { run, api } = bench();
    let tries = 0;
    api.answer('GET /late-once', async (exchange) => {
      tries += 1;
      if (tries === 1) await once(exchange.response, 'close');
      else exchange.json(200, {});
    });
    const request = { url: `${api.url}/late-once`, method: 'GET', options: { readTimeout: '0.3' } };
    const answer = await run({ request });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(tries, 2);
  });

  test('an unknown option is refused, with the nearest name', async () => {
    const { refuse } = bench();
    for (const [typo, meant] of [
      ['conectTimeout', 'connectTimeout'],
      ['readtimeout', 'readTimeout'],
      ['writeTimeouts', 'writeTimeout'],
    ] as const) {
      const unknown = badRequest(`request.options.${typo}`, new RegExp(`Did you mean "${meant}"\\?`));
      await refuse(unknown, { options: { [typo]: '5' } });
    }
    await refuse(badRequest('request.options.retry.trys', /Did you mean "tries"\?/), {
      options: { retry: { trys: 3 } },
    });
  });
});
