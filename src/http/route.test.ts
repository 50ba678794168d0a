import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import * as support from './testing.ts';

const {
  bodyOf,
  echo,
  failure,
  get,
  httpClient,
  httpServer,
  httpsServer,
  post,
  sendOptions,
  TEST_CERTIFICATE,
} = support;
const trusted = { ca: TEST_CERTIFICATE };

/** An HTTP proxy that takes the authorization `user:pass` and resolves every name to 127.0.0.1. */
async function proxyServer(t: TestContext) {
  const seen: string[] = [];
  const expected = `Basic ${Buffer.from('user:pa ss').toString('base64')}`;
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    const allowed = request.headers['proxy-authorization'] === expected;
    response.writeHead(allowed ? 200 : 407).end(`proxied for ${request.headers.host}`);
  });
  server.on('connect', (request, socket) => {
    seen.push(`CONNECT ${request.url}`);
    if (request.headers['proxy-authorization'] !== expected) {
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
      return;
    }
    const upstream = connect(Number(request.url?.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(upstream).pipe(socket);
    });
    upstream.on('error', () => socket.destroy());
    socket.on('error', () => upstream.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://user:pa%20ss@127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

test('a certificate must be trusted and bear the name', async (t) => {
  const url = await httpsServer(t, echo);
  const { port } = new URL(url);
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }];
  const client = httpClient(t, { allowPrivate: true }, { lookup });
  const retry = support.threeTries;
  const attempts: unknown[] = [];
  const untrusted = sendOptions({ retry, onAttempt: (attempt) => attempts.push(attempt) });
  await assert.rejects(client.send(get(url), untrusted), failure('tls', /certificate/));
  assert.equal(attempts.length, 1, 'a certificate does not become better by trying again');
  assert.equal((await client.send(get(url), sendOptions({ tls: trusted }))).statusCode, 200);
  assert.equal(
    (await client.send(get(url), sendOptions({ tls: { rejectUnauthorized: false } }))).statusCode,
    200,
  );
  const named = await client.send(get(`https://api.test:${port}/`), sendOptions({ tls: trusted }));
  assert.equal(named.statusCode, 200);
  const wrong = client.send(get(`https://other.test:${port}/`), sendOptions({ tls: trusted }));
  await assert.rejects(wrong, failure('tls', /other\.test/));
  const bad = client.send(get(url), sendOptions({ tls: { ca: 'no PEM', cert: 'x' } }));
  await assert.rejects(bad, failure('tls'));
});

test('the Host header decides neither which certificate is expected nor which connection is used', async (t) => {
  const ports = new Set<number | undefined>();
  const url = await httpsServer(t, (request, response) => {
    ports.add(request.socket.remotePort);
    echo(request, response);
  });
  const client = httpClient(t);
  const localhost = url.replace('127.0.0.1', 'localhost');
  for (const host of ['one.example.com', 'two.example.com']) {
    const request = get(localhost, { headers: [['Host', host]] });
    const response = await client.send(request, sendOptions({ tls: trusted }));
    assert.equal(
      (JSON.parse(await bodyOf(response.body)) as { headers: { host: string } }).headers.host,
      host,
    );
  }
  assert.equal(ports.size, 1);
});

test('a connection that breaks within the handshake is no matter of trust: it is tried again, also for POST', async (t) => {
  let connections = 0;
  const url = await support.rawServer(t, (socket) => {
    connections++;
    socket.once('data', () => socket.resetAndDestroy());
  });
  const options = sendOptions({ retry: support.threeTries });
  await assert.rejects(
    httpClient(t).send(post(url.replace('http:', 'https:')), options),
    failure('connection'),
  );
  assert.equal(connections, 3);
});

test('connections with other TLS options are not shared', async (t) => {
  const url = await httpsServer(t, echo);
  const client = httpClient(t);
  const open = await client.send(get(url), sendOptions({ tls: { rejectUnauthorized: false } }));
  await bodyOf(open.body);
  await assert.rejects(client.send(get(url), sendOptions()), failure('tls'));
});

test('plain HTTP to a TLS port and TLS to a plain one', async (t) => {
  const client = httpClient(t);
  const plain = await httpServer(t, echo);
  await assert.rejects(client.send(get(plain.replace('http:', 'https:')), sendOptions()), failure('tls'));
});

test('a proxy passes on: http as a request, https through a tunnel', async (t) => {
  const proxy = await proxyServer(t);
  const target = await httpsServer(t, echo);
  const { port } = new URL(target);
  const client = httpClient(t);
  const plain = await client.send(get('http://api.test/path?q=1'), sendOptions({ proxy: proxy.url }));
  assert.equal(await bodyOf(plain.body), 'proxied for api.test');
  for (const round of [1, 2]) {
    const tunnelled = await client.send(
      post(`https://api.test:${port}/x`),
      sendOptions({ proxy: proxy.url, tls: trusted }),
    );
    const text = await bodyOf(tunnelled.body);
    assert.match(text, /"url":"\/x"/, `round ${round}`);
    assert.doesNotMatch(text, /proxy-authorization/i);
  }
  assert.deepEqual(proxy.seen, ['GET http://api.test/path?q=1', `CONNECT api.test:${port}`]);
});

test('a proxy that refuses, and one that is not there', async (t) => {
  const proxy = (await proxyServer(t)).url.replace('user:pa%20ss@', '');
  const client = httpClient(t);
  await assert.rejects(
    client.send(get('https://api.test/'), sendOptions({ proxy })),
    failure('proxy', /407/),
  );
  const gone = `http://127.0.0.1:${await support.closedPort()}`;
  await assert.rejects(
    client.send(get('https://api.test/'), sendOptions({ proxy: gone })),
    failure('connection'),
  );
});

test('the policy holds behind a proxy and for the proxy itself', async (t) => {
  const proxy = await proxyServer(t);
  const open = httpClient(t);
  for (const url of ['http://169.254.169.254/', 'https://169.254.169.254/']) {
    await assert.rejects(open.send(get(url), sendOptions({ proxy: proxy.url })), failure('egress', /never/));
  }
  const lookup = async () => [{ address: '169.254.169.254', family: 4 }];
  const rebinding = httpClient(t, { allowPrivate: true }, { lookup });
  await assert.rejects(
    rebinding.send(get('https://a.test/'), sendOptions({ proxy: proxy.url })),
    failure('egress'),
  );
  const strict = httpClient(
    t,
    { allowPrivate: false },
    { lookup: async () => [{ address: '8.8.8.8', family: 4 }] },
  );
  await assert.rejects(
    strict.send(get('https://a.test/'), sendOptions({ proxy: proxy.url })),
    failure('egress', /loopback/),
  );
  assert.deepEqual(proxy.seen, []);
});
