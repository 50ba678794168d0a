import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { startExternalApi } from '../support/external-api.ts';
import { startJobBench, type JobBench } from '../support/jobs.ts';

const MIB = 1024 * 1024;

test('HTTPRequest: systems that misbehave', async (t) => {
  const bench = await startJobBench(t, { api: { orders: 10 } });
  await failures(t, bench);
  await oddButGood(t, bench);
  await retries(t, bench);
  await redirects(t, bench);
  await statuses(t, bench);
  await faultsOfTheConfiguration(t, bench);
});

interface Case {
  name: string;
  path: string;
  options?: Record<string, unknown>;
  method?: string;
  status: number;
  code: string;
  message: RegExp;
}

const wrongAnswers: Case[] = [
  {
    name: 'slow headers',
    path: '/slow-headers/orders?ms=5000',
    options: { readTimeout: '0.2' },
    status: 504,
    code: 'http_timeout',
    message: /(did not answer|sent no more of its answer) for 0\.2 s \(readTimeout\)/,
  },
  {
    name: 'a slow body',
    path: '/slow-body?ms=5000',
    options: { readTimeout: '0.2' },
    status: 504,
    code: 'http_timeout',
    message: /(did not answer|sent no more of its answer) for 0\.2 s \(readTimeout\)/,
  },
  {
    name: 'all tries together over the total timeout',
    path: '/latency/orders?ms=5000',
    options: { totalTimeout: '0.2', retry: { tries: 5 } },
    status: 504,
    code: 'http_timeout',
    message: /longer than 0\.2 s \(totalTimeout\)/,
  },
  {
    name: 'a reset before the answer',
    path: '/reset',
    status: 502,
    code: 'http_failure',
    message: /connection broke/,
  },
  {
    name: 'a reset in the body',
    path: '/reset?in=body',
    status: 502,
    code: 'malformed_response',
    message: /broke off before it was complete/,
  },
  {
    name: 'truncated chunking',
    path: '/truncated-chunks',
    status: 502,
    code: 'malformed_response',
    message: /broke off before it was complete/,
  },
  {
    name: 'a wrong Content-Length',
    path: '/short-length',
    status: 502,
    code: 'malformed_response',
    message: /broke off before it was complete|shorter or longer than its Content-Length/,
  },
  {
    name: 'half a gzip',
    path: '/half-gzip',
    status: 502,
    code: 'malformed_response',
    message: /gzip/,
  },
  {
    name: 'a gzip bomb',
    path: '/gzip-bomb',
    options: { maxResponseBytes: 8 * MIB },
    status: 502,
    code: 'malformed_response',
    message: /larger than .*8 ?MiB|8388608/,
  },
  {
    name: 'endless redirects',
    path: '/redirect-loop',
    status: 502,
    code: 'http_failure',
    message: /more than 10 redirects/,
  },
  {
    name: 'malformed JSON',
    path: '/malformed-json',
    status: 502,
    code: 'malformed_response',
    message: /line 2, column 11/,
  },
  {
    name: '429 to the end',
    path: '/status/429?retry-after=0',
    options: { retry: { tries: 2 } },
    status: 502,
    code: 'http_status',
    message: /GET .*\/status\/429\?retry-after=0 was answered by 429 Too Many Requests: .*this is 429/,
  },
  {
    name: 'a status that says nothing good',
    path: '/status/404',
    status: 502,
    code: 'http_status',
    message: /was answered by 404 Not Found: .*this is 404/,
  },
];

async function failures(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, app, pages, service, appId } = bench;
  const actions = {
    'parse JSON': {
      action: 'parse JSON',
      table: 'must_not_be',
      parsingScript: 'return { data: [{ data: $ctx.response.body.items ?? [] }] };',
    },
    'save to file': { action: 'save to file', table: 'must-not-be.json' },
  };
  for (const [action, target] of Object.entries(actions)) {
    for (const { name, path, options = {}, status, code, message } of wrongAnswers) {
      // A file may be as large as it likes, and hold what it likes.
      const isForParsingAlone = name === 'a gzip bomb' || name === 'malformed JSON';
      if (action === 'save to file' && isForParsingAlone) continue;
      await t.test(`${action}: ${name}`, async () => {
        const request = { url: api.url + path, method: 'GET', options: { retry: false, ...options } };
        const answer = await run({ request, target });
        assert.equal(answer.status, status, answer.text);
        assert.equal(answer.body.status, 'error');
        const { code: told, message: text, jobId } = answer.body.result;
        assert.deepEqual([told, message.test(text)], [code, true], text);
        const [page] = await pages(jobId);
        assert.equal(
          (page?.['error'] as { code: string } | undefined)?.code,
          code,
          'the page log has it, too',
        );
      });
    }
  }
  await t.test('nothing of any of them was loaded or left as a file', async () => {
    const { body } = await app('GET', '/tables');
    assert.deepEqual(body.result, []);
    const folder = join(service.settings.data, 'applications', appId, 'files');
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    assert.deepEqual(
      entries.filter((entry) => entry.isFile()).map(({ name }) => name),
      [],
    );
  });

  await t.test('a port that nobody listens on', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    const answer = await run({
      request: { url: `http://127.0.0.1:${port}/`, method: 'GET', options: { retry: false } },
    });
    assert.deepEqual([answer.status, answer.body.result.code], [502, 'http_failure'], answer.text);
    assert.match(answer.body.result.message, new RegExp(`127\\.0\\.0\\.1:${port}.*refused`, 'i'));
  });

  await t.test('a body that is not taken', async () => {
    const server = createServer((socket) => socket.pause()).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const answer = await run({
      request: {
        url: `http://127.0.0.1:${port}/`,
        method: 'POST',
        bodyType: 'string',
        body: 'x'.repeat(9 * MIB),
        options: { writeTimeout: '0.3', readTimeout: '5' },
      },
    });
    assert.deepEqual([answer.status, answer.body.result.code], [504, 'http_timeout'], answer.text);
    assert.match(answer.body.result.message, /writeTimeout/);
  });
}

async function oddButGood(t: TestContext, { api, run, rows }: JobBench): Promise<void> {
  const load = async (path: string, table: string) => {
    const answer = await run({
      request: { url: api.url + path, method: 'GET' },
      target: {
        action: 'parse JSON',
        table,
        parsingScript: 'return { data: [{ data: $ctx.response.body.items }] };',
      },
    });
    assert.equal(answer.status, 200, answer.text);
    return rows(table);
  };

  for (const encoding of ['gzip', 'deflate', 'br', 'zstd']) {
    await t.test(`${encoding} is decoded`, async () => {
      const found = await load(`/gzip?encoding=${encoding}`, `encoded_${encoding}`);
      assert.deepEqual([found.length, found[199]], [200, { id: 200, text: 'text 199 äöü' }]);
    });
  }
  await t.test('latin1 and windows-1252 are decoded as such', async () => {
    const person = { id: 1, name: 'Åse Müller', city: 'Köln' };
    assert.deepEqual(await load('/latin1', 'latin1'), [{ ...person, note: '50 EUR' }]);
    assert.deepEqual(await load('/latin1?charset=windows-1252', 'w1252'), [{ ...person, note: '50 €' }]);
  });
  await t.test('a BOM is dropped', async () => {
    assert.deepEqual(await load('/bom', 'bom'), [{ id: 1, name: 'Åse' }]);
  });
  for (const path of ['/empty', '/no-content']) {
    await t.test(`${path}: body null, bodyStr empty, and the script runs`, async () => {
      const answer = await run({
        request: { url: api.url + path, method: 'GET' },
        target: {
          action: 'parse JSON',
          table: 'nothing',
          parsingScript: `
            const { body, bodyStr, statusMessage } = $ctx.response;
            return { data: [{ data: [{ body, isEmpty: bodyStr === '', statusMessage }] }] };`,
        },
      });
      assert.equal(answer.status, 200, answer.text);
      const { isEmpty, body } = (await rows('nothing')).at(-1) ?? {};
      assert.deepEqual([isEmpty, body], [true, null]);
    });
  }
  await t.test('a gzip bomb under the limit of a file is no matter', async () => {
    const answer = await run({
      request: { url: `${api.url}/gzip-bomb?bytes=${32 * MIB}`, method: 'GET' },
      target: { action: 'save to file', table: 'bomb.json' },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.result.output.files[0].bytes, 32 * MIB + 4);
  });
  await t.test('numbers keep all their digits', async () => {
    const answer = await run({
      request: { url: `${api.url}/big-numbers`, method: 'GET' },
      target: {
        action: 'parse JSON',
        table: 'numbers',
        model: {
          columns: [
            { name: 'id', type: 'decimal', position: 1 },
            { name: 'balance', type: 'decimal', position: 2 },
          ],
        },
        parsingScript: 'return { data: [{ data: $ctx.response.body.items }] };',
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('numbers'), [
      { id: '9007199254740993', balance: '12345678901234567.89' },
      { id: '-9223372036854775808', balance: '0.1' },
      { id: '123456789012345678901234567890', balance: '-0.000000000000000000001' },
    ]);
  });
}

async function retries(t: TestContext, { api, run, log, pages }: JobBench): Promise<void> {
  await t.test('500 twice, then 200: tried again, and said in the log', async () => {
    const answer = await run({ request: { url: `${api.url}/flaky/orders?fails=2`, method: 'GET' } });
    assert.equal(answer.status, 200, answer.text);
    const { jobId, stats } = answer.body.result;
    assert.deepEqual([stats.requests, stats.pages], [3, 1]);
    const said = await log(jobId);
    assert.equal(said.filter((line) => /^warn: .*answered 500; .*tried again in/.test(line)).length, 2);
    const [page] = await pages(jobId);
    assert.equal(page?.['tries'], 3);
  });

  await t.test('429 with Retry-After: waits as long as is asked for', async () => {
    const url = `${api.url}/flaky/orders?fails=1&status=429&retry-after=1`;
    const answer = await run({ request: { url, method: 'POST', bodyType: 'string', body: 'x' } });
    assert.equal(answer.body.result.httpStatus, 400, answer.text);
    const [first, second] = api.requestsTo('/flaky/orders').slice(-2);
    const waited = (second?.atMs ?? 0) - (first?.atMs ?? 0);
    assert.ok(waited >= 990 && waited < 3000, `waited ${waited} ms`);
  });

  await t.test('a POST is not sent again after a 500, or after it may have arrived', async () => {
    for (const path of ['/status/500', '/reset']) {
      const answer = await run({
        request: { url: api.url + path, method: 'POST', bodyType: 'string', body: 'once' },
      });
      assert.equal(answer.status, 502, answer.text);
      const sent = api.requestsTo(path).filter(({ method }) => method === 'POST');
      assert.equal(sent.length, 1);
    }
  });

  await t.test('a broken download is tried again as a whole: the file is complete', async () => {
    let cuts = 0;
    api.answer('GET /cut-once', (exchange) => {
      cuts += 1;
      exchange.response.writeHead(200, { 'content-length': 100_000 });
      if (cuts === 1) exchange.response.write('x'.repeat(50_000), () => exchange.response.socket?.end());
      else exchange.response.end('y'.repeat(100_000));
    });
    const answer = await run({
      request: { url: `${api.url}/cut-once`, method: 'GET' },
      target: { action: 'save to file', table: 'whole.txt' },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual([answer.body.result.output.files[0].bytes, cuts], [100_000, 2]);
  });
}

async function redirects(t: TestContext, { api, run }: JobBench): Promise<void> {
  await t.test('to another origin with Authorization: followed, without it', async (inner) => {
    const other = await startExternalApi(inner);
    const answer = await run({
      request: {
        url: `${api.url}/redirect?to=${other.url}/echo`,
        method: 'GET',
        headers: "return { Authorization: 'Bearer of-the-script', Cookie: 'a=b', 'X-Other': 'stays' };",
      },
    });
    assert.equal(answer.status, 200, answer.text);
    const { authorization, cookie, 'x-other': stays } = other.requests[0]?.headers ?? {};
    assert.deepEqual([authorization, cookie, stays], [undefined, undefined, 'stays']);
  });

  await t.test('a POST becomes a GET by 302 and 303, and stays what it is by 307', async () => {
    for (const [status, method, body] of [
      [302, 'GET', ''],
      [303, 'GET', ''],
      [307, 'POST', 'text'],
    ] as const) {
      const answer = await run({
        request: {
          url: `${api.url}/redirect?status=${status}`,
          method: 'POST',
          bodyType: 'string',
          body: 'text',
        },
      });
      assert.equal(answer.status, 200, answer.text);
      const last = api.requests.at(-1);
      assert.deepEqual([last?.path, last?.method, last?.body.toString()], ['/echo', method, body]);
    }
  });

  await t.test('redirects: 0 leaves the redirect as the answer', async () => {
    const answer = await run({
      request: { url: `${api.url}/redirect`, method: 'GET', options: { redirects: 0 } },
    });
    assert.deepEqual([answer.status, answer.body.result.httpStatus], [502, 302], answer.text);
  });
}

async function statuses(t: TestContext, { api, run }: JobBench): Promise<void> {
  const request = (options = {}) => ({ url: `${api.url}/status/404`, method: 'GET', options });
  const target = (parsingScript: string) => ({ action: 'parse JSON', table: 'statuses', parsingScript });
  const statusOf = async (options: object, script: string) =>
    (await run({ request: request(options), target: target(script) })).status;

  await t.test('a script that read statusCode has taken charge; options.onHttpError pins it', async () => {
    const looks = 'return $ctx.response.statusCode === 404 ? {} : null;';
    const doesNot = 'return {};';
    assert.equal(await statusOf({}, looks), 200);
    assert.equal(await statusOf({}, doesNot), 502);
    assert.equal(await statusOf({ onHttpError: 'fail' }, looks), 502);
    assert.equal(await statusOf({ onHttpError: 'script' }, doesNot), 200);
  });

  await t.test('a script that stumbles over an unexpected body is not what is told', async () => {
    const answer = await run({
      request: request(),
      target: target('return $ctx.response.body.items.map();'),
    });
    assert.deepEqual([answer.status, answer.body.result.code], [502, 'http_status'], answer.text);
  });
}

async function faultsOfTheConfiguration(t: TestContext, { api, run }: JobBench): Promise<void> {
  const target = (parsingScript: string) => ({ action: 'parse JSON', table: 'faults', parsingScript });
  const url = `${api.url}/orders`;
  const cases: { name: string; params: unknown; code: string; message: RegExp }[] = [
    {
      name: 'a script that throws: its line and column',
      params: { request: { url, method: 'GET' }, target: target('const a = null;\nreturn a.b;') },
      code: 'script_error',
      message: /target\.parsingScript.*2.*return a\.b/s,
    },
    {
      name: 'a script without return',
      params: { request: { url, method: 'GET' }, target: target('const a = 1;') },
      code: 'script_error',
      message: /return/,
    },
    {
      name: 'a property of the result that the contract does not have',
      params: { request: { url, method: 'GET' }, target: target('return { dowhile: true };') },
      code: 'invalid_result',
      message: /dowhile.*doWhile/,
    },
    {
      name: 'a value that does not fit its column',
      params: {
        request: { url, method: 'GET' },
        target: {
          ...target("return { data: [{ data: [{ n: 1 }, { n: 'two' }] }] };"),
          model: { columns: [{ name: 'n', type: 'integer', position: 1 }] },
        },
      },
      code: 'value_error',
      message: /"n".*two|two.*"n"/,
    },
    {
      name: 'a URL script that returns none',
      params: { request: { url: { script: 'return 5;' }, method: 'GET' } },
      code: 'invalid_configuration',
      message: /request\.url: the script must return a string/,
    },
    {
      name: 'a URL of another scheme',
      params: { request: { url: 'file:///etc/passwd', method: 'GET' } },
      code: 'invalid_configuration',
      message: /request\.url: .*http:\/\/ or https:\/\//,
    },
  ];
  for (const { name, params, code, message } of cases) {
    await t.test(`422: ${name}`, async () => {
      const answer = await run(params);
      assert.equal(answer.status, 422, answer.text);
      assert.equal(answer.body.result.code, code, answer.text);
      assert.match(answer.body.result.message, message);
      assert.equal(answer.body.result.state, 'failed');
    });
  }
}
