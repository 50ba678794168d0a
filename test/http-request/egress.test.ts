import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { startJobBench, type JobBench } from '../support/jobs.ts';
import type { Answer } from '../support/service.ts';

const METADATA = [
  'http://169.254.169.254/latest/meta-data/',
  'http://[::ffff:169.254.169.254]/',
  'http://2852039166/',
  'http://169.254.170.2/v2/credentials',
  'http://100.100.100.200/',
  'http://[fd00:ec2::254]/',
  'http://[fe80::1]/',
  'http://0.0.0.0/',
];

test('HTTPRequest: addresses that are never reached', async (t) => {
  const bench = await startJobBench(t);
  const { api, run, putSource } = bench;
  const refused = async (request: Record<string, unknown>, target?: unknown) => {
    const options = { connectTimeout: '2' };
    const answer = await run({
      request: { method: 'GET', options, ...request },
      ...(target ? { target } : {}),
    });
    assertRefused(answer, /never allowed/);
  };

  for (const url of METADATA) {
    await t.test(`metadata and link-local: ${url}`, () => refused({ url }));
    await t.test(`the same by a redirect: ${url}`, () =>
      refused({ url: `${api.url}/redirect?to=${encodeURIComponent(url)}` }),
    );
  }
  const [metadata = ''] = METADATA;

  await t.test('by doWhile.url: the page before is committed, the next one is refused', async () => {
    const parsingScript = `return { data: [{ data: [{ n: 1 }] }], doWhile: { url: '${metadata}' } };`;
    await refused({ url: `${api.url}/echo` }, { action: 'parse JSON', table: 'first', parsingScript });
    assert.deepEqual(await bench.rows('first'), [{ n: 1 }]);
  });

  await t.test('by a URL script, and with "save to file"', () =>
    refused({ url: { script: `return '${metadata}';` } }, { action: 'save to file', table: 'secrets.json' }),
  );

  await t.test('by a Host header: what counts is where the connection goes', async () => {
    const answer = await run({
      request: { url: `${api.url}/echo`, method: 'GET', headers: "return { Host: '169.254.169.254' };" },
    });
    assert.equal(answer.status, 200, answer.text);
  });

  await t.test('by the token endpoint of a source', async () => {
    const auth = {
      type: 'oauth2',
      grant: 'client_credentials',
      clientId: 'c',
      clientSecret: 'secret-of-the-client',
    };
    const answer = await run({
      request: { url: `${api.url}/echo`, method: 'GET', auth: { ...auth, tokenUrl: metadata } },
    });
    assert.equal(answer.status, 502, answer.text);
    assert.equal(answer.body.result.code, 'authorization_failed');
    assert.match(
      answer.body.result.message,
      /169\.254\.169\.254 is a link-local address, which is never allowed/,
    );
  });

  await t.test('by the base URL or the proxy of a source', async () => {
    await putSource({ name: 'based', baseUrl: 'http://169.254.169.254/' });
    await refused({ source: 'based', url: '/latest' });
    await putSource({ name: 'behind', proxy: 'http://169.254.169.254:3128' });
    await refused({ source: 'behind', url: `${api.url}/echo` });
  });
});

for (const { name, settings } of [
  { name: 'with the setting privateAddresses "refused"', settings: { privateAddresses: 'refused' } },
  { name: 'while the service listens on a public address', settings: { host: '0.0.0.0' } },
] as const) {
  test(`HTTPRequest: loopback and private addresses are refused ${name}`, async (t) => {
    const bench = await startJobBench(t, { settings });
    await loopbackIsRefused(t, bench);
    const metadata = await bench.run({ request: { url: METADATA[0], method: 'GET' } });
    assertRefused(metadata, /never allowed/);
    assert.equal(bench.api.requests.length, 0, 'nothing arrived');
  });
}

async function loopbackIsRefused(t: TestContext, { api, run }: JobBench): Promise<void> {
  const { port } = new URL(api.url);
  const hosts = [
    '127.0.0.1',
    'localhost',
    'a.localhost',
    '2130706433',
    '127.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
  ];
  for (const host of [...hosts, '10.0.0.1', '192.168.1.1', '172.16.0.1', '[fc00::1]']) {
    await t.test(host, async () => {
      const answer = await run({ request: { url: `http://${host}:${port}/echo`, method: 'GET' } });
      assertRefused(answer, /not allowed here \(the setting privateAddresses can allow it\)/);
    });
  }
}

test('HTTPRequest: loopback is allowed on a public address where the setting says so', async (t) => {
  const { api, run } = await startJobBench(t, { settings: { host: '0.0.0.0', privateAddresses: 'allowed' } });
  const answer = await run({ request: { url: `${api.url}/echo`, method: 'GET' } });
  assert.equal(answer.status, 200, answer.text);
});

function assertRefused({ status, body, text }: Answer, message: RegExp): void {
  assert.equal(status, 422, text);
  assert.equal(body.result.code, 'egress_refused');
  assert.match(body.result.message, message);
}
