import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { test, type TestContext } from 'node:test';
import { readUtf8 } from './charset.ts';
import type { AttemptLog, SendOptions } from './http-client.ts';
import { defaultRetry, delayAfterStatus, parseRetryAfter } from './retry.ts';
import * as support from './testing.ts';

const { bodyOf, failure, get, httpClient, httpServer, post, rawServer, sendOptions, threeTries } = support;

/** Answers with one status after the other; the last one stays. */
async function server(t: TestContext, statuses: number[], headers: Record<string, string> = {}) {
  const seen: string[] = [];
  const listener: RequestListener = (request, response) => {
    request.on('data', (chunk: Buffer) => seen.push(chunk.toString()));
    request.on('end', () => {
      const status = statuses.length > 1 ? statuses.shift() : statuses[0];
      response.writeHead(status ?? 200, status === 200 ? {} : headers).end(`status ${status}`);
    });
  };
  return { url: await httpServer(t, listener), seen };
}

function watching(parts: Partial<SendOptions> = {}) {
  const attempts: AttemptLog[] = [];
  const options = sendOptions({
    retry: threeTries,
    onAttempt: (attempt) => attempts.push(attempt),
    ...parts,
  });
  return { options, attempts };
}

test('GET: 500 twice, then 200', async (t) => {
  const { url } = await server(t, [500, 503, 200]);
  const { options, attempts } = watching();
  const response = await httpClient(t).send(get(url), options);
  assert.deepEqual(
    [response.statusCode, response.tries, await bodyOf(response.body)],
    [200, 3, 'status 200'],
  );
  assert.deepEqual(attempts.map(({ statusCode, try: n }) => [n, statusCode]), [[1, 500], [2, 503], [3, 200]]); // prettier-ignore
  const [first, second, third] = attempts.map(({ waitMs }) => waitMs);
  assert.ok(first && first >= 2.5 && first <= 5, String(first));
  assert.ok(second && second >= 5 && second <= 10, String(second));
  assert.equal(third, null);
  assert.ok((attempts[0]?.answeredMs ?? -1) >= (attempts[0]?.sentMs ?? 0));
});

test('after the last try the answer is handed over as it is', async (t) => {
  const { url } = await server(t, [500]);
  const response = await httpClient(t).send(get(url), watching().options);
  assert.deepEqual(
    [response.statusCode, response.tries, await bodyOf(response.body)],
    [500, 3, 'status 500'],
  );
});

test('which answers are tried again', () => {
  const options = { ...threeTries, tries: 5 };
  const isTried = (method: string, status: number, retryAfter: number | null) =>
    delayAfterStatus(method, status, retryAfter, 1, options) !== null;
  for (const status of [408, 429, 500, 502, 503, 504, 599])
    assert.ok(isTried('GET', status, null), String(status));
  for (const status of [200, 204, 301, 400, 401, 403, 404, 409, 422]) {
    assert.ok(!isTried('GET', status, 1), String(status));
    assert.ok(!isTried('POST', status, 1), String(status));
  }
  for (const method of ['POST', 'PATCH', 'DELETE', 'PUT']) {
    assert.ok(isTried(method, 429, null));
    assert.ok(isTried(method, 503, 1));
    for (const status of [408, 500, 502, 503, 504])
      assert.ok(!isTried(method, status, null), `${method} ${status}`);
  }
  assert.equal(defaultRetry.tries, 5);
});

test('Retry-After in seconds and as a date', async (t) => {
  const { url } = await server(t, [429, 200], { 'Retry-After': '1' });
  const { options, attempts } = watching();
  const began = performance.now();
  assert.equal((await httpClient(t).send(post(url), options)).statusCode, 200);
  assert.ok(performance.now() - began >= 990);
  assert.equal(attempts[0]?.waitMs, 1000);

  const now = Date.parse('Fri, 01 Aug 2025 12:00:00 GMT');
  assert.equal(parseRetryAfter('Fri, 01 Aug 2025 12:00:07 GMT', undefined, now), 7000);
  assert.equal(parseRetryAfter('Fri, 01 Aug 2025 12:00:07 GMT', 'Fri, 01 Aug 2025 12:00:05 GMT', 0), 2000);
  assert.equal(parseRetryAfter('Fri, 01 Aug 2025 11:00:00 GMT', undefined, now), 0);
  assert.equal(parseRetryAfter('120', undefined, now), 120_000);
  for (const nonsense of [undefined, '', 'soon 5', '-1', '1.5'])
    assert.equal(parseRetryAfter(nonsense, undefined), null);
});

test('a date in Retry-After is waited for', async (t) => {
  const at = new Date(Math.ceil(Date.now() / 1000) * 1000 + 1000).toUTCString();
  const { url } = await server(t, [503, 200], { 'Retry-After': at });
  const { options, attempts } = watching();
  assert.equal((await httpClient(t).send(get(url), options)).statusCode, 200);
  const waitMs = attempts[0]?.waitMs ?? -1;
  assert.ok(waitMs >= 1000 && waitMs <= 2000, String(waitMs));
});

test('a Retry-After that is too long to wait for here is told to the caller', async (t) => {
  const { url } = await server(t, [429, 200], { 'Retry-After': '3600' });
  const response = await httpClient(t).send(get(url), watching().options);
  assert.deepEqual([response.statusCode, response.retryAfterMs, response.tries], [429, 3_600_000, 1]);
});

test('GET is tried again after a reset, POST is not', async (t) => {
  let connections = 0;
  const url = await rawServer(t, (socket) => {
    connections++;
    socket.once('data', () => {
      if (connections === 1) socket.resetAndDestroy();
      else socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    });
  });
  const client = httpClient(t);
  await assert.rejects(client.send(post(url), watching().options), failure('connection'));
  assert.equal(connections, 1);
  connections = 0;
  assert.equal((await client.send(get(url), watching().options)).tries, 2);
});

test('POST is tried again while nothing was sent', async (t) => {
  const port = await support.closedPort();
  const { options, attempts } = watching();
  await assert.rejects(
    httpClient(t).send(post(`http://127.0.0.1:${port}`), options),
    failure('connection', /REFUSED/),
  );
  assert.deepEqual(attempts.map(({ failure: error }) => (error as { sent?: boolean } | null)?.sent), [false, false, false]); // prettier-ignore
  assert.equal(attempts[2]?.waitMs, null);
});

test('each try sends the whole body anew', async (t) => {
  const { url, seen } = await server(t, [429, 429, 200]);
  let calls = 0;
  async function* body() {
    calls++;
    yield Buffer.from('rows');
  }
  assert.equal((await httpClient(t).send(post(url, body), watching().options)).statusCode, 200);
  assert.deepEqual([calls, seen], [3, ['rows', 'rows', 'rows']]);
});

test('beforeSend is asked before each try, and what it adds does not stay', async (t) => {
  const signatures: unknown[] = [];
  let answers = 0;
  const url = await httpServer(t, (request, response) => {
    signatures.push(request.headers['x-signature']);
    response.writeHead(++answers < 3 ? 500 : 200).end();
  });
  const { options } = watching({
    beforeSend: (request, hop) => ({
      ...request,
      headers: [...request.headers, ['X-Signature', `s${hop.try}`]],
    }),
  });
  await httpClient(t).send(get(url), options);
  assert.deepEqual(signatures, ['s1', 's2', 's3']);
});

test('receive reads again when the body of a GET broke off, and never that of a POST', async (t) => {
  let answers = 0;
  const url = await rawServer(t, (socket) => {
    socket.once('data', () => {
      socket.end(
        `HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n${++answers === 1 ? 'he' : 'hello'}`,
      );
    });
  });
  const client = httpClient(t);
  const { options, attempts } = watching();
  const text = await client.receive(get(url), options, async (response) =>
    (await readUtf8(response, 100)).toString(),
  );
  assert.deepEqual([Buffer.from(text).toString(), answers], ['hello', 2]);
  assert.deepEqual(attempts.map(({ statusCode, failure: error }) => [statusCode, error === null]), [[200, false], [200, true]]); // prettier-ignore
  answers = 0;
  await assert.rejects(
    client.receive(post(url), options, (response) => readUtf8(response, 100)),
    failure('truncated'),
  );
  assert.equal(answers, 1);
});

test('an error of the reader is its own, and the connection is freed', async (t) => {
  const url = await httpServer(t, (_request, response) => response.end('x'.repeat(1e6)));
  const broken = new Error('the disk is full');
  const client = httpClient(t);
  await assert.rejects(
    client.receive(get(url), watching().options, () => Promise.reject(broken)),
    broken,
  );
  assert.equal(await client.receive(get(url), watching().options, async ({ statusCode }) => statusCode), 200);
});

test('a retry does not outlast totalTimeout', async (t) => {
  const { url } = await server(t, [503, 200], { 'Retry-After': '2' });
  const began = performance.now();
  const { options } = watching({ totalTimeoutMs: 100 });
  await assert.rejects(httpClient(t).send(get(url), options), failure('total_timeout'));
  assert.ok(performance.now() - began < 1000);
});
