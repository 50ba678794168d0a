import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { readUtf8 } from './charset.ts';
import type { HttpClient, SendOptions } from './http-client.ts';
import type { OutgoingRequest } from './request.ts';
import * as support from './testing.ts';

const { bodyOf, echo, failure, get, httpClient, httpServer, post, rawAnswer, rawServer, sendOptions } =
  support;

async function fetched(client: HttpClient, request: OutgoingRequest, options: Partial<SendOptions> = {}) {
  const response = await client.send(request, sendOptions(options));
  return { ...response, text: Buffer.from(await readUtf8(response, 1e9)).toString() };
}

interface Seen {
  method: string;
  url: string;
  rawHeaders: string[];
  headers: Record<string, string>;
  body: string;
}
const seen = (text: string) => JSON.parse(text) as Seen;

test('headers go out as they are written, in their order', async (t) => {
  const url = await httpServer(t, echo);
  const headers: [string, string][] = [
    ['X-ONE', 'a b'],
    ['x-Two', '1'],
    ['X-Two', '2'],
    ['Host', 'api.example.com'],
    ['X-Latin', 'é'],
  ];
  const { text } = await fetched(httpClient(t), get(`${url}/a%2fb?x=%27'&y=1+2%20#part`, { headers }));
  const request = seen(text);
  assert.equal(request.url, '/a%2fb?x=%27%27&y=1+2%20');
  assert.equal(request.headers['host'], 'api.example.com');
  const own = request.rawHeaders.join('|');
  assert.match(own, /X-ONE\|a b\|x-Two\|1\|X-Two\|2\|X-Latin\|é/);
  assert.equal(request.headers['accept-encoding'], 'gzip, deflate, br, zstd');
});

test('GET and DELETE may carry a body, an empty POST says so', async (t) => {
  const url = await httpServer(t, echo);
  const client = httpClient(t);
  for (const method of ['GET', 'DELETE', 'POST', 'PUT', 'PATCH']) {
    const { text } = await fetched(client, { method, url, headers: [], body: 'häuser' });
    assert.deepEqual(
      [seen(text).method, seen(text).body, seen(text).headers['content-length']],
      [method, 'häuser', '7'],
    );
  }
  const empty = seen((await fetched(client, post(url, ''))).text);
  assert.equal(empty.headers['content-length'], '0');
  const none = seen((await fetched(client, get(url))).text);
  assert.equal(none.headers['content-length'], undefined);
  assert.equal(none.headers['transfer-encoding'], undefined);
});

test('a large body goes out in slices with its length, a stream in chunks', async (t) => {
  const url = await httpServer(t, echo);
  const client = httpClient(t);
  const large = 'x'.repeat(300_000);
  const whole = seen((await fetched(client, post(url, large))).text);
  assert.equal(whole.body.length, 300_000);
  assert.equal(whole.headers['content-length'], '300000');
  async function* stream() {
    yield Buffer.from('one ');
    yield Buffer.from('');
    yield Buffer.from('two');
  }
  const chunked = seen((await fetched(client, post(url, stream))).text);
  assert.deepEqual([chunked.body, chunked.headers['transfer-encoding']], ['one two', 'chunked']);
  const asked = { ...post(url, 'abc'), headers: [['Transfer-Encoding', 'chunked']] as [string, string][] };
  assert.equal(seen((await fetched(client, asked)).text).headers['transfer-encoding'], 'chunked');
  const sized = { ...post(url, stream), headers: [['Content-Length', '7']] as [string, string][] };
  const sent = seen((await fetched(client, sized)).text);
  assert.deepEqual(
    [sent.body, sent.headers['content-length'], sent.headers['transfer-encoding']],
    ['one two', '7', undefined],
  );
});

test('a stream that does not keep its Content-Length, or fails, is an error', async (t) => {
  const url = await httpServer(t, echo);
  const client = httpClient(t);
  async function* stream() {
    yield Buffer.from('too long');
  }
  for (const length of ['3', '20']) {
    const wrong = { ...post(url, stream), headers: [['Content-Length', length]] as [string, string][] };
    await assert.rejects(client.send(wrong, sendOptions()), failure('invalid_header', /Content-Length/));
  }
  const broken = new Error('the table is gone');
  async function* failing() {
    yield Buffer.from('one');
    throw broken;
  }
  await assert.rejects(client.send(post(url, failing), sendOptions({ retry: support.threeTries })), broken);
});

test('what the answer holds', async (t) => {
  const url = await httpServer(t, (_request, response) => {
    response.writeHead(
      201,
      'Made it',
      [
        ['X-Many', 'a'],
        ['X-Many', 'b'],
        ['Set-Cookie', 'a=1'],
        ['__proto__', 'x'],
      ].flat(),
    );
    response.end('done');
  });
  const { statusCode, statusMessage, headers, text, tries } = await fetched(httpClient(t), get(url));
  assert.deepEqual([statusCode, statusMessage, text, tries], [201, 'Made it', 'done', 1]);
  assert.equal(headers['x-many'], 'a, b');
  assert.deepEqual(headers['set-cookie'], ['a=1']);
});

test('HEAD, 204, 304 and empty bodies', async (t) => {
  const url = await httpServer(t, (request, response) => {
    const status = Number(request.url?.slice(1));
    response.writeHead(status, status === 200 ? { 'Content-Encoding': 'gzip' } : {});
    response.end();
  });
  const client = httpClient(t);
  for (const [method, status] of [
    ['HEAD', 200],
    ['GET', 200],
    ['GET', 204],
    ['POST', 204],
    ['GET', 304],
  ] as const) {
    const response = await fetched(client, { method, url: `${url}/${status}`, headers: [], body: null });
    assert.deepEqual([response.statusCode, response.text], [status, '']);
  }
});

test('interim answers are passed over, however they are cut', async (t) => {
  const interim =
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\nX: y\r\n\r\n';
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  const client = httpClient(t);
  const whole = await rawAnswer(t, interim + answer);
  assert.equal((await fetched(client, post(whole))).text, 'ok');
  const bytewise = await rawServer(t, (socket) => {
    socket.setNoDelay(true);
    socket.on('data', () => {
      const bytes = [...(interim + answer)];
      const next = () => {
        const byte = bytes.shift();
        if (byte !== undefined) socket.write(byte, () => setImmediate(next));
      };
      next();
    });
  });
  for (const round of [1, 2])
    assert.equal((await fetched(client, post(bytewise))).text, 'ok', `round ${round}`);
});

test('connections are kept and used again, also for answers that nobody read', async (t) => {
  const ports = new Set<number | undefined>();
  const url = await httpServer(t, (request, response) => {
    ports.add(request.socket.remotePort);
    request.resume();
    response.end('x'.repeat(1000));
  });
  const client = httpClient(t);
  for (let n = 0; n < 5; n++)
    await fetched(client, n % 2 ? post(url) : get(url, { headers: [['Host', `h${n}`]] }));
  const response = await client.send(get(url), sendOptions());
  await response.discard();
  await fetched(client, get(url));
  assert.equal(ports.size, 1);
  await Promise.all([1, 2, 3].map(() => fetched(client, get(url))));
  assert.ok(ports.size <= 3);
});

test('a kept connection that the server has closed is replaced, also for POST', async (t) => {
  let closed = Promise.withResolvers<void>();
  const url = await httpServer(t, (_request, response) => {
    closed = Promise.withResolvers();
    response.req.socket.once('close', () => closed.resolve());
    response.end('ok');
    setTimeout(() => response.req.socket.end(), 5);
  });
  const client = httpClient(t);
  for (let n = 0; n < 5; n++) {
    assert.equal((await fetched(client, post(url))).text, 'ok');
    await closed.promise;
  }
});

test('silence before the headers, and within the body', async (t) => {
  const client = httpClient(t);
  const silent = await rawServer(t, (socket) => socket.resume());
  const began = performance.now();
  await assert.rejects(
    client.send(get(silent), sendOptions({ readTimeoutMs: 100 })),
    failure('read_timeout', /0\.1 s/),
  );
  assert.ok(performance.now() - began < 1000);
  const stuck = await rawAnswer(t, 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello');
  const response = await client.send(get(stuck), sendOptions({ readTimeoutMs: 100 }));
  await assert.rejects(bodyOf(response.body), failure('read_timeout'));
});

test('a slow answer without a silence passes, and a slow reader is no silence of the server', async (t) => {
  const url = await httpServer(t, (_request, response) => {
    let n = 0;
    const timer = setInterval(() => {
      response.write('x');
      if (++n === 10) {
        clearInterval(timer);
        response.end();
      }
    }, 30);
  });
  const client = httpClient(t);
  assert.equal((await fetched(client, get(url), { readTimeoutMs: 150 })).text, 'x'.repeat(10));

  const large = await httpServer(t, (_request, response) => response.end(Buffer.alloc(8e6)));
  const response = await client.send(get(large), sendOptions({ readTimeoutMs: 100 }));
  await new Promise((resolve) => setTimeout(resolve, 250));
  assert.equal((await bodyOf(response.body)).length, 8e6);
});

test('a server that takes no more of the body, and a source that takes its time', async (t) => {
  const client = httpClient(t);
  const stuck = await rawServer(t, (socket) => socket.pause());
  const options = sendOptions({ writeTimeoutMs: 150, readTimeoutMs: 5000 });
  await assert.rejects(client.send(post(stuck, Buffer.alloc(64e6)), options), failure('write_timeout'));
  const closed = Promise.withResolvers<void>();
  async function* endless() {
    try {
      for (;;) yield Buffer.alloc(1e6);
    } finally {
      closed.resolve();
    }
  }
  await assert.rejects(client.send(post(stuck, endless), options), failure('write_timeout'));
  await closed.promise;

  const url = await httpServer(t, echo);
  async function* slow() {
    yield Buffer.from('a');
    await new Promise((resolve) => setTimeout(resolve, 250));
    yield Buffer.from('b');
  }
  const response = await fetched(client, post(url, slow), { writeTimeoutMs: 100 });
  assert.equal(seen(response.text).body, 'ab');
});

test('no connection in time: a handshake without an answer, a full backlog', async (t) => {
  const client = httpClient(t);
  const silent = await rawServer(t, (socket) => socket.resume());
  const secure = silent.replace('http:', 'https:');
  const options = sendOptions({ connectTimeoutMs: 150 });
  await assert.rejects(client.send(get(secure), options), failure('connect_timeout', /0\.15 s/));

  // Nothing is accepted while the loop of the server's process stands; the backlog of 1 is soon full.
  const { spawn } = await import('node:child_process');
  const program = `const s = require('net').createServer().listen({port: 0, host: '127.0.0.1', backlog: 1}, () => {
    require('fs').writeSync(1, s.address().port + '\\n'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const full = `http://127.0.0.1:${line.toString().trim()}`;
  const results = await Promise.allSettled(
    [1, 2, 3, 4, 5].map(() =>
      client.send(post(full), sendOptions({ connectTimeoutMs: 200, readTimeoutMs: 400 })),
    ),
  );
  const kinds = results.map((result) =>
    result.status === 'rejected' ? (result.reason as { kind: string }).kind : '',
  );
  assert.ok(kinds.includes('connect_timeout'), kinds.join());
});

test('connections that are refused, reset, or end too early', async (t) => {
  const client = httpClient(t);
  const refused = `http://127.0.0.1:${await support.closedPort()}`;
  await assert.rejects(client.send(get(refused), sendOptions()), failure('connection', /ECONNREFUSED/));
  const reset = await rawServer(t, (socket) => socket.once('data', () => socket.resetAndDestroy()));
  await assert.rejects(client.send(get(reset), sendOptions()), failure('connection'));
  const ended = await rawAnswer(t, 'HTTP/1.1 200 O', (socket) => socket.end());
  await assert.rejects(client.send(get(ended), sendOptions()), failure('connection'));
  const garbage = await rawAnswer(t, 'SSH-2.0-OpenSSH_9.7\r\n');
  await assert.rejects(client.send(get(garbage), sendOptions()), failure('protocol'));
});

test('an answer that is cut short is an error, however it is framed', async (t) => {
  const client = httpClient(t);
  const end = (socket: Socket) => socket.end();
  const reset = (socket: Socket) => void setTimeout(() => socket.resetAndDestroy(), 20);
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
  const cases: [string, string, (socket: Socket) => void][] = [
    ['length', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello', end],
    ['length, closing', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\nhello', end],
    ['length, reset', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello', reset],
    ['chunks', `${chunked}5\r\nhello\r\n`, end],
    [
      'chunks, closing',
      `HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`,
      end,
    ],
    ['within a chunk', `${chunked}a\r\nhello`, end],
    ['before the last line', `${chunked}5\r\nhello\r\n0\r\n`, end],
    ['chunks, reset', `${chunked}5\r\nhello\r\n`, reset],
    ['until close, reset', 'HTTP/1.0 200 OK\r\n\r\nhello', reset],
    ['until close, HTTP/1.1, reset', 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello', reset],
  ];
  for (const [name, bytes, then] of cases) {
    const response = await client.send(get(await rawAnswer(t, bytes, then)), sendOptions());
    await assert.rejects(bodyOf(response.body), failure('truncated'), name);
  }
  const whole = await rawAnswer(t, 'HTTP/1.0 200 OK\r\n\r\nhello', end);
  assert.equal((await fetched(client, get(whole))).text, 'hello');
});

test('an answer before the body was sent', async (t) => {
  const url = await httpServer(t, (_request, response) => {
    response.writeHead(413, { Connection: 'close' }).end('too much');
  });
  const client = httpClient(t);
  async function* slow() {
    for (let n = 0; n < 100; n++) {
      yield Buffer.alloc(1000);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  const response = await fetched(client, post(url, slow));
  assert.deepEqual([response.statusCode, response.text], [413, 'too much']);
});

test('the signal ends it at each stage, with its own reason', async (t) => {
  const client = httpClient(t);
  const reason = new Error('the job was cancelled');
  const aborting = (milliseconds: number) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), milliseconds);
    return controller.signal;
  };
  const silent = await rawServer(t, (socket) => socket.resume());
  const stuck = await rawServer(t, (socket) => socket.pause());
  const half = await rawAnswer(t, 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello');
  const refused = `http://127.0.0.1:${await support.closedPort()}`;
  const never = httpClient(t, { allowPrivate: true }, { lookup: () => new Promise(() => undefined) });

  await assert.rejects(client.send(get(silent), sendOptions({ signal: AbortSignal.abort(reason) })), reason);
  await assert.rejects(
    never.send(get('http://a.test'), sendOptions({ signal: aborting(30) })),
    reason,
    'lookup',
  );
  const secure = silent.replace('http:', 'https:');
  await assert.rejects(client.send(get(secure), sendOptions({ signal: aborting(30) })), reason, 'handshake');
  await assert.rejects(client.send(get(silent), sendOptions({ signal: aborting(30) })), reason, 'headers');
  const large = post(stuck, Buffer.alloc(64e6));
  await assert.rejects(client.send(large, sendOptions({ signal: aborting(60) })), reason, 'sending');
  const slowRetry = { tries: 5, firstDelayMs: 5000, longestDelayMs: 5000, longestRetryAfterMs: 5000 };
  const waiting = sendOptions({ signal: aborting(50), retry: slowRetry });
  await assert.rejects(client.send(get(refused), waiting), reason, 'between two tries');
  const response = await client.send(get(half), sendOptions({ signal: aborting(30) }));
  await assert.rejects(bodyOf(response.body), reason, 'body');
});

test('totalTimeout covers all of it', async (t) => {
  const client = httpClient(t);
  const url = await httpServer(t, (request, response) => {
    if (request.url === '/500') response.writeHead(500).end();
    else response.write('first');
  });
  const options = (path: string) => ({
    request: get(url + path),
    options: sendOptions({
      totalTimeoutMs: 120,
      retry: { ...support.threeTries, firstDelayMs: 1000, longestDelayMs: 1000 },
    }),
  });
  const retried = options('/500');
  await assert.rejects(client.send(retried.request, retried.options), failure('total_timeout'));
  const reading = options('/');
  const response = await client.send(reading.request, reading.options);
  await assert.rejects(bodyOf(response.body), failure('total_timeout'));
});

test('close breaks off what is under way', async (t) => {
  const client = httpClient(t);
  const silent = await rawServer(t, (socket) => socket.resume());
  const sending = client.send(get(silent), sendOptions());
  const rejected = assert.rejects(sending, failure('closed'));
  await new Promise((resolve) => setTimeout(resolve, 30));
  await client.close();
  await rejected;
  await assert.rejects(client.send(get(silent), sendOptions()), failure('closed'));
});

test('a body that is left early frees the connection', async (t) => {
  const closed = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.resume().on('close', () => closed.resolve());
    socket.on('error', () => undefined);
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nhello');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const response = await httpClient(t).send(get(url), sendOptions());
  for await (const chunk of response.body) {
    assert.ok(chunk.byteLength > 0);
    break;
  }
  await closed.promise;
});
