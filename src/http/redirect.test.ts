import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test, type TestContext } from 'node:test';
import type { SendOptions } from './http-client.ts';
import type { Headers, OutgoingRequest } from './request.ts';
import * as support from './testing.ts';

const { bodyOf, echo, failure, get, httpClient, httpServer, sendOptions } = support;

interface Seen {
  method: string;
  url: string;
  headers: Record<string, string | undefined>;
  body: string;
}

const credentials = { headers: ['X-Api-Key'], parameters: ['api_key'] };
const secrets: Headers = [
  ['Authorization', 'Bearer s'],
  ['Cookie', 'session=s'],
  ['x-API-key', 's'],
  ['Host', 'virtual.test'],
  ['X-Other', 'stays'],
];

/** `/STATUS?to=URL` redirects there, everything else is echoed. */
async function server(t: TestContext, onRequest: (request: IncomingMessage) => void = () => undefined) {
  return httpServer(t, (request, response) => {
    onRequest(request);
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
    const to = searchParams.get('to');
    if (to === null) return echo(request, response);
    request.resume();
    response.writeHead(Number(pathname.slice(1)), { Location: to }).end('moved');
  });
}

async function follow(t: TestContext, request: OutgoingRequest, options: Partial<SendOptions> = {}) {
  const response = await httpClient(t).send(request, sendOptions({ credentials, ...options }));
  const text = await bodyOf(response.body);
  return { ...response, text, seen: text.startsWith('{') ? (JSON.parse(text) as Seen) : null };
}

const to = (url: string, status: number, target: string) =>
  `${url}/${status}?to=${encodeURIComponent(target)}`;

test('methods and bodies change as in browsers', async (t) => {
  const url = await server(t);
  const cases = [
    ['POST', 301, 'GET'],
    ['POST', 302, 'GET'],
    ['POST', 303, 'GET'],
    ['POST', 307, 'POST'],
    ['POST', 308, 'POST'],
    ['DELETE', 302, 'DELETE'],
    ['DELETE', 303, 'GET'],
    ['GET', 303, 'GET'],
  ] as const;
  for (const [method, status, expected] of cases) {
    const headers: Headers = [['Content-Type', 'text/plain'], ['X-Other', '1']]; // prettier-ignore
    const { seen, redirects } = await follow(t, {
      method,
      url: to(url, status, '/target?q=1'),
      headers,
      body: 'b',
    });
    const kept = expected === method;
    assert.deepEqual(
      [
        seen?.method,
        seen?.url,
        seen?.body,
        seen?.headers['content-type'],
        seen?.headers['x-other'],
        redirects,
      ],
      [expected, '/target?q=1', kept ? 'b' : '', kept ? 'text/plain' : undefined, '1', 1],
      `${method} ${status}`,
    );
  }
});

test('the same origin keeps the credentials', async (t) => {
  const url = await server(t);
  const { seen } = await follow(t, get(to(url, 302, '/target?api_key=s'), { headers: secrets }));
  assert.equal(seen?.url, '/target?api_key=s');
  assert.deepEqual(
    ['authorization', 'cookie', 'x-api-key', 'host', 'x-other'].map((name) => seen?.headers[name]),
    ['Bearer s', 'session=s', 's', 'virtual.test', 'stays'],
  );
});

test('another origin gets none of them, and neither does the way back', async (t) => {
  const other = await server(t);
  const url = await server(t);
  const target = `${other}/target?a=%2f&api_key=s&b=1+1&api%5Fkey=s`;
  const { seen } = await follow(t, get(to(url, 307, target), { headers: secrets }));
  assert.equal(seen?.url, '/target?a=%2f&b=1+1');
  assert.deepEqual(
    ['authorization', 'cookie', 'x-api-key', 'host', 'x-other'].map((name) => seen?.headers[name]),
    [undefined, undefined, undefined, new URL(other).host, 'stays'],
  );
  const back = await follow(t, get(to(url, 302, to(other, 302, `${url}/end`)), { headers: secrets }));
  assert.equal(back.seen?.headers['authorization'], undefined);
  assert.equal(back.redirects, 2);
});

test('an origin that the caller trusts gets them', async (t) => {
  const other = await server(t);
  const url = await server(t);
  const mayHaveCredentials = (target: URL) => target.origin === other;
  const request = get(to(url, 302, `${other}/target?api_key=s`), { headers: secrets });
  const { seen } = await follow(t, request, { mayHaveCredentials });
  assert.equal(seen?.url, '/target?api_key=s');
  assert.deepEqual([seen?.headers['authorization'], seen?.headers['x-api-key']], ['Bearer s', 's']);
});

test('user and password of the URL are Basic authorization for its origin alone', async (t) => {
  const other = await server(t);
  const url = await server(t);
  const withUser = url.replace('//', '//us%40er:p%C3%A4ss@');
  const basic = `Basic ${Buffer.from('us@er:päss').toString('base64')}`;
  assert.equal((await follow(t, get(`${withUser}/a`))).seen?.headers['authorization'], basic);
  assert.equal((await follow(t, get(to(withUser, 302, '/b')))).seen?.headers['authorization'], basic);
  assert.equal(
    (await follow(t, get(to(withUser, 302, `${other}/b`)))).seen?.headers['authorization'],
    undefined,
  );
});

test('beforeSend is asked at each hop and told what happened', async (t) => {
  const other = await server(t);
  const url = await server(t);
  const hops: unknown[] = [];
  await follow(t, get(to(url, 302, to(url, 302, to(other, 302, `${other}/end`)))), {
    beforeSend: (request, { redirects, credentialsDropped }) => {
      hops.push([new URL(request.url).origin, redirects, credentialsDropped]);
      return request;
    },
  });
  assert.deepEqual(hops, [[url, 0, false], [url, 1, false], [other, 2, true], [other, 3, true]]); // prettier-ignore
});

test('too many redirects, and none at all', async (t) => {
  let requests = 0;
  const url = await httpServer(t, (_request, response) => {
    requests++;
    response.writeHead(302, { Location: '/again' }).end('moved');
  });
  await assert.rejects(follow(t, get(url)), failure('redirects', /more than 10/));
  assert.equal(requests, 11);
  const kept = await follow(t, get(url), { redirects: 0 });
  assert.deepEqual([kept.statusCode, kept.text], [302, 'moved']);
});

test('redirects that lead nowhere', async (t) => {
  const url = await server(t);
  await assert.rejects(follow(t, get(to(url, 302, 'http://['))), failure('redirects'));
  await assert.rejects(follow(t, get(to(url, 302, 'file:///etc/passwd'))), failure('egress', /file:/));
  assert.equal((await follow(t, get(to(url, 304, '/x')))).statusCode, 304);
  assert.equal((await follow(t, get(to(url, 302, '')))).text, 'moved');
});

test('a Location in UTF-8, and the URL of the end', async (t) => {
  const url = await httpServer(t, (request, response) => {
    if (request.url === '/')
      response.socket?.end(Buffer.from('HTTP/1.1 302 Found\r\nLocation: /ä?ö\r\n\r\n'));
    else response.end(request.url);
  });
  const response = await follow(t, get(url));
  assert.deepEqual([response.text, response.url], ['/%C3%A4?%C3%B6', `${url}/%C3%A4?%C3%B6`]);
});

test('a retry after a redirect repeats the last hop alone', async (t) => {
  const methods: string[] = [];
  let answers = 0;
  const url = await httpServer(t, (request, response) => {
    methods.push(`${request.method} ${request.url}`);
    request.resume();
    if (request.url === '/start') response.writeHead(303, { Location: '/result' }).end();
    else response.writeHead(++answers === 1 ? 500 : 200).end();
  });
  const request: OutgoingRequest = { method: 'POST', url: `${url}/start`, headers: [], body: 'order' };
  const response = await follow(t, request, { retry: support.threeTries });
  assert.equal(response.statusCode, 200);
  assert.deepEqual(methods, ['POST /start', 'GET /result', 'GET /result']);
});

test('a redirect into an address that is never allowed', async (t) => {
  const url = await server(t);
  for (const target of [
    'http://169.254.169.254/latest',
    'http://[fe80::1]/',
    'http://2852039166/',
    'http://0/',
  ]) {
    await assert.rejects(follow(t, get(to(url, 302, target))), failure('egress', /never allowed/), target);
  }
});
