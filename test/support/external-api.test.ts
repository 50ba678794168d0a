import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Sha256 } from '@aws-crypto/sha256-js';
import { SignatureV4 } from '@smithy/signature-v4';
import { request } from 'undici';
import { BIG_NUMBERS, fileChecksum, makeOrder, startExternalApi, type Order } from './external-api.ts';

interface OrdersPage {
  items: Order[];
  next?: string | null;
  next_cursor?: string | null;
  pages?: number;
  total?: number;
}

async function json<T = Record<string, unknown>>(answer: Promise<Response>): Promise<T> {
  return (await (await answer).json()) as T;
}

const status = async (answer: Promise<Response>) => {
  const response = await answer;
  await response.arrayBuffer();
  return response.status;
};

const ids = (orders: { id: number }[]) => orders.map(({ id }) => id);
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

/** Follows one way of paging to its end. */
async function collect(start: string, next: (page: OrdersPage, response: Response) => string | null) {
  const all: Order[] = [];
  for (let url: string | null = start; url !== null;) {
    const response: Response = await fetch(url);
    assert.equal(response.status, 200);
    const page = (await response.json()) as OrdersPage;
    all.push(...(Array.isArray(page) ? (page as Order[]) : page.items));
    url = next(page, response);
  }
  return all;
}

describe('External API: reading', () => {
  test('every way of paging gives all orders once and in order', async (t) => {
    const api = await startExternalApi(t, { orders: 250 });
    const ways: Record<string, (page: OrdersPage, response: Response) => string | null> = {
      'by-cursor': ({ next_cursor }) =>
        next_cursor ? `${api.url}/orders/by-cursor?size=100&cursor=${next_cursor}` : null,
      'by-next': ({ next }) => next ?? null,
      'by-link': (_, { headers }) => /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1] ?? null,
    };
    for (const [way, next] of Object.entries(ways)) {
      assert.deepEqual(ids(await collect(`${api.url}/orders/${way}?size=100`, next)), upTo(250), way);
      assert.equal(api.requestsTo(`/orders/${way}`).length, 3, way);
    }
    const relative = await collect(`${api.url}/orders/by-next?form=relative&size=100`, ({ next }) => {
      assert.ok(!next || next.startsWith('/orders/by-next?'));
      return next ? api.url + next : null;
    });
    assert.deepEqual(ids(relative), upTo(250));
  });

  test('pages by number, by offset, and until an empty one', async (t) => {
    const api = await startExternalApi(t, { orders: 250 });
    const last = await json<OrdersPage>(fetch(`${api.url}/orders/by-page?page=3&size=100`));
    assert.deepEqual([last.items.length, last.pages, last.total], [50, 3, 250]);
    const { data } = await json<{ data: Order[] }>(fetch(`${api.url}/orders/by-offset?offset=245&limit=100`));
    assert.deepEqual(ids(data), [246, 247, 248, 249, 250]);
    assert.equal((await json<Order[]>(fetch(`${api.url}/orders/until-empty?page=3`))).length, 50);
    assert.deepEqual(await json(fetch(`${api.url}/orders/until-empty?page=4`)), []);
    assert.equal(await status(fetch(`${api.url}/orders/by-page?page=0`)), 400);
  });

  test('an order: amount with two digits, time with a zone, nested parts, always the same', async (t) => {
    const api = await startExternalApi(t);
    const text = await (await fetch(`${api.url}/orders/10`)).text();
    assert.match(text, /"amount":791\.90,/);
    const order = JSON.parse(text) as Order;
    assert.deepEqual(order, makeOrder(10, 50));
    assert.match(order.created_at, /^2025-01-01T\d\d:\d\d:00\+02:00$/);
    assert.equal(new Date(order.created_at).toISOString(), '2025-01-01T02:30:00.000Z');
    assert.deepEqual(Object.keys(order.customer), ['name', 'city']);
    assert.equal(order.lines.length, 2);
  });

  test('master and detail', async (t) => {
    const api = await startExternalApi(t, { orders: 100, customers: 10 });
    assert.equal((await json<OrdersPage>(fetch(`${api.url}/customers`))).total, 10);
    const { items } = await json<OrdersPage>(fetch(`${api.url}/customers/3/orders`));
    assert.deepEqual(ids(items), [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]);
    assert.equal(await status(fetch(`${api.url}/customers/11/orders`)), 404);
  });

  test('the same page for ever', async (t) => {
    const api = await startExternalApi(t);
    const first = await json<OrdersPage>(fetch(`${api.url}/repeat`));
    assert.equal(first.next, `${api.url}/repeat`);
    assert.deepEqual(await json(fetch(first.next ?? '')), first);
  });

  test('huge: ids and ends are right', async (t) => {
    const api = await startExternalApi(t);
    type Huge = OrdersPage & { items: Record<string, unknown>[] };
    const text = await (await fetch(`${api.url}/huge?records=2500&size=1000&page=2`)).text();
    assert.ok(text.length > 270_000 && text.length < 340_000, `${text.length}`);
    const page = JSON.parse(text) as Huge;
    assert.deepEqual([page.items[0]?.id, page.items[999]?.id, page.items.length], [1001, 2000, 1000]);
    assert.equal(Object.keys(page.items[0] ?? {}).length, 10);
    const last = await json<Huge>(fetch(api.url + page.next));
    assert.deepEqual([last.items.at(-1)?.id, last.items.length, last.next], [2500, 500, null]);
    assert.deepEqual((await json<Huge>(fetch(`${api.url}/huge?records=0`))).items, []);
  });
});

describe('External API: writing', () => {
  const send = (method: string, url: string, body?: unknown) =>
    fetch(url, { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } });

  test('creates, changes and deletes orders', async (t) => {
    const api = await startExternalApi(t, { orders: 3 });
    const created = await send('POST', `${api.url}/orders`, { amount: '12.50', status: 'paid' });
    assert.equal(created.status, 201);
    assert.equal(created.headers.get('location'), `${api.url}/orders/4`);
    assert.match(await created.text(), /"id":4,.*"amount":12\.50/);
    assert.equal((await json(send('PATCH', `${api.url}/orders/4`, { status: 'new' })))['status'], 'new');
    assert.equal(await status(send('DELETE', `${api.url}/orders/4`)), 204);
    assert.equal(await status(send('DELETE', `${api.url}/orders/4`)), 404);
    assert.equal(await status(send('POST', `${api.url}/orders`, { amount: -1 })), 422);
    assert.equal(api.requests[0]?.body.toString(), '{"amount":"12.50","status":"paid"}');
  });

  test('batches: a result for each record, or refused as a whole', async (t) => {
    const api = await startExternalApi(t, { orders: 3 });
    const batch = [{ amount: 1 }, { amount: 'x' }, { status: 'lost' }];
    const { results } = await json<{ results: object[] }>(send('POST', `${api.url}/orders/bulk`, batch));
    assert.deepEqual(
      results.map((result) => ('id' in result ? result.id : 'bad')),
      [4, 'bad', 'bad'],
    );
    const refused = await send('POST', `${api.url}/orders/bulk?refuse=batch`, batch);
    assert.equal(refused.status, 422);
    assert.match(await refused.text(), /2 of 3 orders are bad/);
    assert.equal(api.orders.all().length, 4);
  });

  test('uploads: multipart is taken apart, raw bodies are recorded', async (t) => {
    const api = await startExternalApi(t);
    const form = new FormData();
    form.set('title', 'Grüße');
    form.set('file', new Blob(['a,b\r\n1,2\r\n'], { type: 'text/csv' }), 'rows.csv');
    const { parts } = await json<{ parts: Record<string, unknown>[] }>(
      fetch(`${api.url}/upload`, { method: 'POST', body: form }),
    );
    assert.deepEqual(
      parts.map(({ name, filename, bytes }) => [name, filename, bytes]),
      [
        ['title', undefined, 7],
        ['file', 'rows.csv', 10],
      ],
    );
    assert.equal(
      (parts[1] as { headers: Record<string, string> } | undefined)?.headers['content-type'],
      'text/csv',
    );
    const raw = new Uint8Array([0, 255, 13, 10]);
    assert.equal((await json(fetch(`${api.url}/upload`, { method: 'POST', body: raw })))['bytes'], 4);
    assert.deepEqual(new Uint8Array(api.requests[1]?.body ?? []), raw);
  });

  test('files of any size with their checksum', async (t) => {
    const api = await startExternalApi(t);
    const response = await fetch(`${api.url}/files/300001`);
    const bytes = new Uint8Array(await response.arrayBuffer());
    assert.equal(bytes.length, 300_001);
    const checksum = createHash('sha256').update(bytes).digest('hex');
    assert.equal(response.headers.get('x-checksum-sha256'), checksum);
    assert.equal(await fileChecksum(300_001), checksum);
    await assert.rejects(async () => (await fetch(`${api.url}/files/300001?cut=70000`)).arrayBuffer());
  });
});

describe('External API: who may', () => {
  test('basic, bearer and keys in three places; the rest of the path is any other', async (t) => {
    const api = await startExternalApi(t);
    const { username, password, bearer, apiKey } = api.credentials;
    const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    const ways: [string, Record<string, string>][] = [
      ['/basic/orders/1', { authorization: basic }],
      ['/bearer/orders/1', { authorization: `Bearer ${bearer}` }],
      ['/key/header/orders/1', { 'x-api-key': apiKey }],
      ['/key/cookie/orders/1', { cookie: `a=b; api_key=${apiKey}` }],
      [`/key/query/orders/1?api_key=${apiKey}`, {}],
      [`/key/orders/1?api_key=${apiKey}`, {}],
    ];
    for (const [path, headers] of ways) {
      assert.equal(await status(fetch(api.url + path, { headers })), 200, path);
      assert.equal(await status(fetch(`${api.url}${path.split('?')[0]}`)), 401, path);
    }
    assert.equal(
      await status(fetch(`${api.url}/key/query/orders/1`, { headers: { 'x-api-key': apiKey } })),
      401,
    );
    const page = await json<OrdersPage>(
      fetch(`${api.url}/basic/orders/by-next`, { headers: { authorization: basic } }),
    );
    assert.equal(page.next, `${api.url}/basic/orders/by-next?page=2`);
  });

  test('OAuth: three grants, expiry, rotation and counts', async (t) => {
    const api = await startExternalApi(t);
    const { clientId, clientSecret, username, password } = api.credentials;
    const client = { client_id: clientId, client_secret: clientSecret };
    const token = (form: Record<string, string>, headers = {}) =>
      fetch(`${api.url}/oauth/token`, { method: 'POST', body: new URLSearchParams(form), headers });
    const orders = (access: unknown) =>
      status(fetch(`${api.url}/oauth/orders/1`, { headers: { authorization: `Bearer ${String(access)}` } }));

    const basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`;
    const first = await json(token({ grant_type: 'client_credentials' }, { authorization: basic }));
    assert.equal(first['expires_in'], 3600);
    assert.equal(first['refresh_token'], undefined);
    assert.equal(await orders(first['access_token']), 200);
    assert.equal(await orders('other'), 401);
    api.oauth.revokeAccessTokens();
    assert.equal(await orders(first['access_token']), 401);

    api.oauth.expiresInSeconds = 0;
    const second = await json(token({ ...client, grant_type: 'password', username, password }));
    assert.equal(await orders(second['access_token']), 401);
    const refresh = {
      ...client,
      grant_type: 'refresh_token',
      refresh_token: String(second['refresh_token']),
    };
    const third = await json(token(refresh));
    assert.notEqual(third['refresh_token'], second['refresh_token']);
    const reused = await token(refresh);
    assert.deepEqual([reused.status, (await json(Promise.resolve(reused)))['error']], [400, 'invalid_grant']);
    assert.equal(
      await status(token({ ...client, client_secret: 'x', grant_type: 'client_credentials' })),
      401,
    );
    assert.deepEqual(api.oauth.counts, {
      client_credentials: 1,
      password: 1,
      refresh_token: 1,
      failed: 2,
      refused_reuse: 1,
    });
  });

  test('signatures of version 4 are computed again', async (t) => {
    const api = await startExternalApi(t);
    const { accessKeyId, secretAccessKey } = api.credentials;
    const url = new URL(`${api.url}/signed/echo?b=2&a=x%20y&a=%2F`);
    const signer = new SignatureV4({
      region: 'eu-central-1',
      service: 'execute-api',
      credentials: { accessKeyId, secretAccessKey },
      sha256: Sha256,
    });
    const body = '{"a":"ä"}';
    const { headers } = await signer.sign({
      method: 'POST',
      protocol: 'http:',
      hostname: '127.0.0.1',
      path: url.pathname,
      query: { b: '2', a: ['x y', '/'] },
      headers: { host: url.host, 'content-type': 'application/json' },
      body,
    });
    const post = (sent: string, target = url.href) => fetch(target, { method: 'POST', headers, body: sent });
    const answer = await post(body);
    assert.equal(answer.status, 200, await answer.clone().text());
    assert.equal(await status(post('{"a":"b"}')), 403);
    assert.equal(await status(post(body, url.href.replace('b=2', 'b=3'))), 403);
    assert.equal(await status(fetch(url)), 403);
  });
});

describe('External API: misbehaviour', () => {
  test('statuses, flaky answers and rate limits', async (t) => {
    const api = await startExternalApi(t);
    const busy = await fetch(`${api.url}/status/503?retry-after=7`);
    assert.deepEqual([busy.status, busy.headers.get('retry-after')], [503, '7']);
    const seen = [];
    for (let n = 0; n < 4; n += 1) seen.push(await status(fetch(`${api.url}/flaky/orders/1?fails=2`)));
    assert.deepEqual(seen, [500, 500, 200, 200]);
    assert.equal(await status(fetch(`${api.url}/rate-limited/orders/1?window=600`)), 200);
    const limited = await fetch(`${api.url}/rate-limited?window=600`);
    assert.equal(limited.status, 429);
    assert.equal(limited.headers.get('ratelimit-remaining'), '0');
    assert.match(limited.headers.get('retry-after') ?? '', /^(599|600)$/);
  });

  test('broken connections are errors of the client', async (t) => {
    const api = await startExternalApi(t);
    for (const path of ['/reset', '/reset?in=body', '/truncated-chunks', '/short-length']) {
      await assert.rejects(async () => (await fetch(api.url + path)).arrayBuffer(), TypeError, path);
    }
  });

  test('half a gzip comes with a right length and a right end', async (t) => {
    const api = await startExternalApi(t);
    const { statusCode, headers, body } = await request(`${api.url}/half-gzip`);
    const bytes = Buffer.from(await body.arrayBuffer());
    assert.deepEqual([statusCode, headers['content-length']], [200, String(bytes.length)]);
    assert.throws(() => gunzipSync(bytes), /unexpected end of file/);
  });

  test('slow answers', async (t) => {
    const api = await startExternalApi(t);
    for (const path of ['/slow-headers?ms=60', '/slow-body?ms=60', '/latency/orders/1?ms=60']) {
      const begin = performance.now();
      assert.equal(await status(fetch(api.url + path)), 200);
      assert.ok(performance.now() - begin >= 55, path);
    }
    const body = new Uint8Array(1024);
    const read = await json(fetch(`${api.url}/slow-read?ms=60`, { method: 'POST', body }));
    assert.deepEqual(read, { bytes: 1024 });
    assert.ok((api.requests.at(-1)?.atMs ?? 0) <= performance.now() - 55);
  });

  test('codings, encodings and odd JSON', async (t) => {
    const api = await startExternalApi(t);
    for (const encoding of ['gzip', 'deflate', 'br', 'zstd']) {
      const page = await json<OrdersPage>(fetch(`${api.url}/gzip?encoding=${encoding}`));
      assert.equal(page.items.length, 200, encoding);
    }
    const bomb = await fetch(`${api.url}/gzip-bomb?bytes=${64 * 1024 * 1024}`);
    assert.equal((await bomb.arrayBuffer()).byteLength, 64 * 1024 * 1024 + 4);
    const bytes = async (path: string) => Buffer.from(await (await fetch(api.url + path)).arrayBuffer());
    assert.match((await bytes('/latin1')).toString('latin1'), /Müller/);
    const windows = await bytes('/latin1?charset=windows-1252');
    assert.match(new TextDecoder('windows-1252').decode(windows), /50 €/);
    assert.deepEqual([...(await bytes('/bom')).subarray(0, 3)], [0xef, 0xbb, 0xbf]);
    assert.equal((await bytes('/empty')).length, 0);
    assert.equal(await status(fetch(`${api.url}/no-content`)), 204);
    await assert.rejects(json(fetch(`${api.url}/malformed-json`)), SyntaxError);
    assert.equal((await bytes('/big-numbers')).toString(), BIG_NUMBERS);
  });

  test('redirects, echo, and what is unknown', async (t) => {
    const api = await startExternalApi(t);
    const followed = await fetch(`${api.url}/redirect?to=${encodeURIComponent('/echo?a=1')}`);
    assert.equal(followed.url, `${api.url}/echo?a=1`);
    assert.deepEqual((await json(Promise.resolve(followed)))['query'], [['a', '1']]);
    await assert.rejects(fetch(`${api.url}/redirect-loop`), TypeError);
    assert.equal(await status(fetch(`${api.url}/nowhere`)), 404);
    assert.equal(await status(fetch(`${api.url}/gzip`, { method: 'POST' })), 405);
  });
});

describe('External API: for tests', () => {
  test('tells of what arrives, holds answers back, and answers as told', async (t) => {
    const api = await startExternalApi(t);
    const held = Promise.withResolvers<void>();
    api.beforeAnswer = () => held.promise;
    const answers = [fetch(`${api.url}/orders/1`), fetch(`${api.url}/orders/2`)];
    await api.until(() => api.requests.length === 2);
    assert.deepEqual([api.mostAtOnce, api.requests[0]?.status], [2, undefined]);
    held.resolve();
    assert.deepEqual(await Promise.all(answers.map(status)), [200, 200]);
    await api.until(() => api.requests.every((request) => request.status === 200));
    api.answer('GET /mine', (exchange) => exchange.json(200, { mine: true }));
    assert.deepEqual(await json(fetch(`${api.url}/mine`)), { mine: true });
    api.answer('GET /wrong', () => {
      throw new Error('the test is wrong');
    });
    assert.match(await (await fetch(`${api.url}/wrong`)).text(), /the test is wrong/);
  });

  test('runs as a process of its own', { timeout: 20_000 }, async (t) => {
    const main = join(import.meta.dirname, 'external-api/main.ts');
    const child = spawn(process.execPath, [main, '--port', '0', '--orders', '7'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    const [, url = ''] = /^external API on (http:\/\/127\.0\.0\.1:\d+)$/.exec(line) ?? [];
    assert.equal((await json<OrdersPage>(fetch(`${url}/orders/by-page`))).total, 7);
    const [recorded] = await json<{ url: string }[]>(fetch(`${url}/_/requests`));
    assert.equal(recorded?.url, '/orders/by-page');
    child.kill('SIGTERM');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });
});
