import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { inflateRawSync } from 'node:zlib';
import { startJobBench, type JobBench } from '../support/jobs.ts';
import type { Answer } from '../support/service.ts';

/** Random text that is written the same in URLs, forms and JSON, so that it is found wherever it turns up. */
class Canaries {
  readonly #names = new Map<string, string>();

  make(name: string): string {
    const text = `canary${randomBytes(12).toString('hex')}`;
    this.#names.set(text, name);
    return text;
  }

  /** The names of those that a text or file shows, plain or in base64. */
  shownIn(content: string | Buffer): string[] {
    const bytes = Buffer.from(content);
    return [...this.#names]
      .filter(([text]) => forms(text).some((form) => bytes.includes(form)))
      .map(([, name]) => name);
  }

  assertNone(content: string | Buffer, where: string): void {
    assert.deepEqual(this.shownIn(content), [], `${where} shows secrets`);
  }
}

/** As it is, in hex, and in base64 at each of the three positions that it may have there. */
function forms(text: string): string[] {
  const base64 = [0, 1, 2].map((before) => {
    const encoded = Buffer.from(' '.repeat(before) + text)
      .toString('base64')
      .replace(/=+$/, '');
    return encoded.slice(before === 0 ? 0 : before + 1, -2);
  });
  return [text, Buffer.from(text).toString('hex'), ...base64];
}

/** Secrets that the fake API itself gives out. */
const ISSUED = /(?:access|refresh)-[0-9a-f]{24}/;

interface AuthCase {
  name: string;
  auth: Record<string, unknown>;
}

function authCases({ api }: JobBench, canaries: Canaries): AuthCase[] {
  const { clientId, clientSecret, username, password } = api.credentials;
  const client = { type: 'oauth2', tokenUrl: `${api.url}/oauth/token`, clientId, clientSecret };
  const apiKey = (place: string) => ({
    name: `apiKey in ${place}`,
    auth: { type: 'apiKey', name: 'key', in: place, value: `${canaries.make(`key in ${place}`)}"+%/` },
  });
  return [
    { name: 'basic', auth: { type: 'basic', username: 'ada', password: `${canaries.make('password')}:ö"` } },
    { name: 'bearer', auth: { type: 'bearer', token: canaries.make('token') } },
    apiKey('header'),
    apiKey('query'),
    {
      name: 'apiKey in cookie',
      auth: { type: 'apiKey', name: 'key', in: 'cookie', value: canaries.make('cookie') },
    },
    { name: 'oauth2 client_credentials', auth: { ...client, grant: 'client_credentials' } },
    { name: 'oauth2 by Basic', auth: { ...client, grant: 'client_credentials', clientAuth: 'basic' } },
    { name: 'oauth2 password', auth: { ...client, grant: 'password', username, password } },
    {
      name: 'oauth2 refresh_token',
      get auth() {
        return { ...client, grant: 'refresh_token', refreshToken: api.oauth.issueRefreshToken() };
      },
    },
    {
      name: 'oauth2 refused',
      auth: {
        ...client,
        grant: 'password',
        clientSecret: canaries.make('client secret'),
        username: 'ada',
        password: canaries.make('password of the grant'),
      },
    },
    {
      name: 'sigV4',
      auth: {
        type: 'sigV4',
        region: 'r',
        serviceName: 's',
        accessKeyId: 'AKID',
        accessKey: canaries.make('access key'),
      },
    },
    {
      name: 'customSignature',
      auth: {
        type: 'customSignature',
        script: `
          console.log($ctx.variables.signingKey);
          const headers = { 'X-Key': $ctx.variables.signingKey };
          return [{ name: 'extendRequest', params: { headers, parameters: { signed: $ctx.variables.signingKey } } }];`,
        secrets: { signingKey: canaries.make('signing key') },
      },
    },
    {
      name: 'a token that cannot be sent',
      auth: { type: 'bearer', token: `${canaries.make('token with a line break')}\n` },
    },
  ];
}

/** What a system may do with what it gets: show it in every part of its answers. */
function addIndiscreetAnswers({ api }: JobBench): void {
  const seen = ({ url, headers, body }: JobBench['api']['requests'][number]) => ({
    url,
    headers,
    body: body.toString(),
  });
  api.answer('* /tells', (exchange) => {
    const { url, headers } = exchange.request;
    const last = exchange.query.has('last');
    const next = last ? null : `${api.url}${url}${url.includes('?') ? '&' : '?'}last=1`;
    exchange.json(
      200,
      { ...seen(exchange.request), next },
      {
        'x-seen': JSON.stringify(headers),
        'set-cookie': `session=${headers.authorization ?? headers.cookie ?? url}`,
        etag: `"${url}"`,
      },
    );
  });
  api.answer('* /refuses', (exchange) => exchange.json(400, seen(exchange.request)));
  api.answer('* /babbles', (exchange) => {
    exchange.send(200, `{"oops": ${JSON.stringify(seen(exchange.request))},}`, {
      'content-type': 'application/json',
    });
  });
}

/** Jobs that let whatever the system says reach logs, errors and pages. */
const operations: { name: string; path: string; target?: Record<string, unknown> }[] = [
  {
    name: 'pages, with a next URL that holds the key, and a script that logs all it sees',
    path: '/tells',
    target: {
      action: 'parse JSON',
      parsingScript: `
        console.log($ctx.response.bodyStr, $ctx.response.headers, JSON.stringify($ctx));
        const { next } = $ctx.response.body;
        return { doWhile: next ? { url: next } : false };`,
    },
  },
  {
    name: 'a next URL that cannot be parsed',
    path: '/tells',
    target: {
      action: 'parse JSON',
      parsingScript: "return { doWhile: { url: 'ht!tp://' + $ctx.response.body.next } };",
    },
  },
  { name: 'a status that fails the job', path: '/refuses' },
  {
    name: 'a file that is refused',
    path: '/refuses',
    target: { action: 'save to file', table: 'none.json' },
  },
  {
    name: 'malformed JSON',
    path: '/babbles',
    target: { action: 'parse JSON', parsingScript: 'return { data: $ctx.response.body };' },
  },
  {
    name: 'a script that throws what it sees',
    path: '/tells',
    target: {
      action: 'parse JSON',
      parsingScript: 'if (true) throw new Error(JSON.stringify($ctx.response.body)); return {};',
    },
  },
  {
    name: 'a value that does not fit',
    path: '/tells',
    target: {
      action: 'parse JSON',
      table: 'unfit',
      model: { columns: [{ name: 'n', type: 'integer', position: 1 }] },
      parsingScript: 'return { data: [{ data: [{ n: JSON.stringify($ctx.response.body) }] }] };',
    },
  },
  {
    name: 'a result that is none',
    path: '/tells',
    target: {
      action: 'parse JSON',
      parsingScript: 'return { [JSON.stringify($ctx.response.body.headers)]: 1 };',
    },
  },
];

test('HTTPRequest: secrets are never shown', async (t) => {
  const bench = await startJobBench(t, { api: { credentials: credentials() } });
  const canaries = new Canaries();
  const { clientSecret, password } = bench.api.credentials;
  const answers: Answer[] = [];
  const note = (answer: Answer) => {
    answers.push(answer);
    return answer;
  };
  addIndiscreetAnswers(bench);

  for (const { name, auth } of authCases(bench, canaries)) {
    await t.test(`jobs with ${name}`, async () => {
      note(await bench.putSource({ name: 'secretive', auth: auth as never }));
      const jobs = operations.flatMap(({ path, target }) => {
        const request = { url: bench.api.url + path, method: 'POST', bodyType: 'string', body: 'b' };
        const more = target ? { target } : {};
        return [
          bench.run({ request: { ...request, source: 'secretive' }, ...more }),
          bench.run({ request: { ...request, auth }, ...more }),
        ];
      });
      for (const answer of await Promise.all(jobs)) note(answer);
      note(await bench.app('GET', '/sources/secretive'));
      note(await bench.app('GET', '/sources'));
    });
  }
  await t.test('calls that are refused', async () => {
    const secret = canaries.make('secret of a refused call');
    const put = (body: unknown) => bench.app('PUT', '/sources/refused', body);
    const source = { name: 'refused', type: 'HTTPSource' };
    const auth = { type: 'basic', username: 'a', password: secret };
    // The caller knows what it sent; others must not read it in the log.
    assert.equal((await put(`{"auth": {"password": "${secret}", }}`)).status, 400);
    for (const wrong of [
      { ...auth, passwort: secret },
      { ...auth, type: 'digest' },
      { ...auth, username: 1 },
    ]) {
      assert.equal(note(await put({ ...source, auth: wrong })).status, 400);
      const request = { url: bench.api.url, method: 'GET', auth: wrong };
      assert.equal(note(await bench.run({ request })).status, 400);
    }
  });
  for (const secret of [clientSecret, password]) assert.ok(secret.startsWith('issued-'), 'of this run alone');

  const assertHidden = (content: string | Buffer, where: string) => {
    canaries.assertNone(content, where);
    const text = Buffer.from(content).toString('latin1');
    assert.doesNotMatch(text, ISSUED, `${where} shows an issued token`);
    for (const secret of [clientSecret, password]) {
      assert.ok(!forms(secret).some((form) => text.includes(form)), `${where} shows a credential`);
    }
  };
  await t.test('the bait was taken: the system really got what must not be shown', () => {
    const got = JSON.stringify(bench.api.requests.map(({ url, headers }) => [url, headers]));
    const names = canaries.shownIn(got);
    for (const name of ['password', 'token', 'key in header', 'key in query', 'cookie', 'signing key']) {
      assert.ok(names.includes(name), `${name} was not sent`);
    }
    assert.match(got, ISSUED);
    const codes = new Set(answers.map(({ body }) => body?.result?.code as string | undefined));
    for (const code of [
      'http_status',
      'malformed_response',
      'script_error',
      'value_error',
      'invalid_result',
    ]) {
      assert.ok(codes.has(code), `no job ended with ${code}`);
    }
  });

  await t.test('in no answer', () => {
    for (const { text, headers } of answers) assertHidden(`${text}${JSON.stringify([...headers])}`, text);
  });
  await t.test('in no job, page, kept body or event', () => everyRecordIsClean(bench, assertHidden));
  await t.test('in no line of the log', () => {
    assert.ok(bench.service.log.length > 100);
    for (const line of bench.service.log) assertHidden(line, line);
  });
  await t.test('in no file of the data folder', async (inner) =>
    everyFileIsClean(inner, bench, assertHidden),
  );
});

function credentials() {
  const secret = () => `issued-${randomBytes(12).toString('hex')}`;
  return { clientSecret: secret(), password: secret() };
}

type AssertHidden = (content: string | Buffer, where: string) => void;

async function everyRecordIsClean({ service, token }: JobBench, assertHidden: AssertHidden): Promise<void> {
  const call = (path: string) => service.call('GET', path, token);
  let after = '';
  let jobs = 0;
  let bodies = 0;
  do {
    const list = await call(`/api/v1/jobs?limit=100${after}`);
    assertHidden(list.text, 'the list of jobs');
    for (const { jobId } of list.body.result.items as { jobId: string }[]) {
      jobs += 1;
      const path = `/api/v1/jobs/${jobId}`;
      for (const part of ['', '/pages', '/events']) assertHidden((await call(path + part)).text, path + part);
      const pages = await service.system.jobs.history.pages(jobId, { limit: 100 });
      for (const { n } of pages.filter(({ hasBody }) => hasBody)) {
        bodies += 1;
        assertHidden((await call(`${path}/pages/${n}/body`)).text, `the kept body ${n}`);
        const stored = await service.system.jobs.history.pageBody(jobId, n);
        assertHidden(inflateRawSync(stored as Uint8Array), 'the stored body');
      }
    }
    after = list.body.result.next ? `&after=${list.body.result.next}` : '';
  } while (after !== '');
  assert.ok(jobs > 100 && bodies > 100, `${jobs} jobs, ${bodies} bodies`);
}

async function everyFileIsClean(
  t: TestContext,
  { service }: JobBench,
  assertHidden: AssertHidden,
): Promise<void> {
  const entries = await readdir(service.settings.data, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  t.diagnostic(files.map((file) => file.slice(service.settings.data.length + 1)).join(', '));
  assert.ok(files.some((file) => file.endsWith('millrace.sqlite')));
  assert.ok(files.some((file) => file.endsWith('local.sqlite')));
  for (const file of files) assertHidden(await readFile(file), file);
}

test('HTTPRequest: a secret at the end of what is kept of a body is no half one', async (t) => {
  const { api, run, service, token } = await startJobBench(t, { settings: { keptBodyBytes: 200 } });
  const secret = `${'a'.repeat(20)}${'b'.repeat(20)}`;
  api.answer('GET /tells', (exchange) => exchange.json(200, ['.'.repeat(170), secret]));
  const request = { url: `${api.url}/tells`, method: 'GET', auth: { type: 'bearer', token: secret } };
  const answer = await run({ request });
  assert.equal(answer.status, 200, answer.text);
  const body = await service.call('GET', `/api/v1/jobs/${answer.body.result.jobId}/pages/1/body`, token);
  assert.equal(body.text, `["${'.'.repeat(170)}","***"]`);
});

test('HTTPRequest: secrets are write-only', async (t) => {
  const bench = await startJobBench(t);
  const { api, app, run, putSource } = bench;
  addIndiscreetAnswers(bench);
  const { username, password, apiKey } = api.credentials;
  const works = async (path: string) =>
    (await run({ request: { source: 'crm', url: `${api.url}${path}`, method: 'GET' } })).status === 200;

  await t.test('a source is shown without them, with what tells them apart', async () => {
    const written = await putSource({ name: 'crm', auth: { type: 'basic', username, password } });
    assert.deepEqual([written.status, written.body.result], [201, { name: 'crm', change: 'created' }]);
    const { body } = await app('GET', '/sources/crm');
    assert.deepEqual(body.result, {
      source: { name: 'crm', type: 'HTTPSource', properties: {}, auth: { type: 'basic', username } },
      secrets: [{ path: 'auth.password', fingerprint: '…' }],
    });
    assert.ok(await works('/basic/echo'));
  });

  await t.test('written again without its secret it keeps it', async () => {
    const again = await putSource({
      name: 'crm',
      properties: { tenant: 'north' },
      auth: { type: 'basic', username },
    });
    assert.deepEqual([again.status, again.body.result.change], [200, 'changed'], again.text);
    assert.ok(await works('/basic/echo'));
  });

  await t.test('as it is shown it can be written back', async () => {
    const { body } = await app('GET', '/sources/crm');
    const again = await app('PUT', '/sources/crm', body.result.source);
    assert.deepEqual([again.status, again.body.result.change], [200, 'unchanged'], again.text);
    assert.ok(await works('/basic/echo'));
  });

  await t.test('another auth type asks for its secret, and nothing changes until it comes', async () => {
    const auth = { type: 'apiKey', name: 'X-Api-Key', in: 'header' } as const;
    const refused = await putSource({ name: 'crm', auth });
    assert.equal(refused.status, 400, refused.text);
    assert.deepEqual([refused.body.result.code, refused.body.result.path], ['invalid_request', 'auth.value']);
    assert.ok(await works('/basic/echo'), 'the old one is still there');
    assert.equal((await putSource({ name: 'crm', auth: { ...auth, value: apiKey } })).status, 200);
    assert.ok(await works('/key/header/echo'));
    const back = await putSource({ name: 'crm', auth: { type: 'basic', username } });
    assert.equal(back.status, 400, 'the password went with the old type');
  });

  await t.test('so does another grant', async () => {
    const { clientId, clientSecret } = api.credentials;
    const auth = { type: 'oauth2', tokenUrl: `${api.url}/oauth/token`, clientId } as const;
    const client = { ...auth, clientAuth: 'body', grant: 'client_credentials' } as const;
    assert.equal((await putSource({ name: 'crm', auth: { ...client, clientSecret } })).status, 200);
    assert.ok(await works('/oauth/echo'));
    const refused = await putSource({ name: 'crm', auth: { ...client, grant: 'refresh_token' } });
    assert.deepEqual([refused.status, refused.body.result.path], [400, 'auth.refreshToken'], refused.text);
    assert.ok(await works('/oauth/echo'));
  });

  await t.test('a source that was deleted leaves none behind for another of its name', async () => {
    assert.equal((await app('DELETE', '/sources/crm')).status, 200);
    const auth = { type: 'apiKey', name: 'X-Api-Key', in: 'header' } as const;
    const refused = await putSource({ name: 'crm', auth });
    assert.deepEqual([refused.status, refused.body.result.path], [400, 'auth.value'], refused.text);
    assert.equal(await bench.service.system.secrets.get(`source:${bench.appId}/crm`), null);
    assert.equal(await bench.service.system.secrets.get(`oauth2-token:${bench.appId}/crm`), null);
  });

  await placesOfSecrets(t, bench);
  await passwordsInUrls(t, bench);

  await t.test('a saved request takes none', async () => {
    const request = { url: api.url, method: 'GET', auth: { type: 'bearer', token: 'secret-of-a-request' } };
    const refused = await app('PUT', '/requests/one', { name: 'one', request });
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.body.result.message, /secrets are not kept in a saved request/);
    assert.ok(!refused.text.includes('secret-of-a-request'));
  });
});

/** Whoever may change a source must not learn its secrets by pointing them at a server of his own. */
async function placesOfSecrets(t: TestContext, { app, putSource, service, appId }: JobBench): Promise<void> {
  const oauth2 = {
    type: 'oauth2',
    grant: 'client_credentials',
    tokenUrl: 'https://login.test/token',
    clientId: 'id',
    clientAuth: 'body',
  } as const;
  const basic = { type: 'basic', username: 'ada' } as const;
  const signed = { type: 'customSignature', script: 'return [];' } as const;
  const before = { baseUrl: 'https://api.test/v1', allowedHosts: ['files.test', 'B.test:8443'] };
  const write = (source: Record<string, unknown>) => putSource({ name: 'placed', ...before, ...source });
  const stored = async () => JSON.stringify(await service.system.saved.sources.http(appId, 'placed'));

  const elsewhere: [string, Record<string, unknown>, Record<string, unknown>, Record<string, string>][] = [
    ['baseUrl', basic, { baseUrl: 'https://evil.test/v1' }, { password: 'secret-1' }],
    ['baseUrl', basic, { baseUrl: 'http://api.test/v1' }, { password: 'secret-1' }],
    ['baseUrl', basic, { baseUrl: undefined }, { password: 'secret-1' }],
    ['allowedHosts', basic, { allowedHosts: ['files.test', 'evil.test'] }, { password: 'secret-1' }],
    ['proxy', basic, { proxy: 'http://evil.test:3128' }, { password: 'secret-1' }],
    [
      'auth.tokenUrl',
      oauth2,
      { auth: { ...oauth2, tokenUrl: 'https://evil.test/token' } },
      { clientSecret: 's1' },
    ],
    ['baseUrl', oauth2, { baseUrl: 'https://evil.test' }, { clientSecret: 's1' }],
  ];
  for (const [field, auth, change, secrets] of elsewhere) {
    await t.test(`another ${field} asks for the secrets again: ${JSON.stringify(change)}`, async () => {
      await app('DELETE', '/sources/placed');
      assert.equal((await write({ auth: { ...auth, ...secrets } })).status, 201);
      const was = await stored();
      const refused = await write({ auth, ...change });
      assert.equal(refused.status, 400, refused.text);
      const { code, path, message } = refused.body.result;
      assert.deepEqual([code, path], ['invalid_request', `auth.${Object.keys(secrets)[0]}`]);
      assert.match(message, new RegExp(`must be given again.* ${field.replace('.', '\\.')} `));
      assert.equal(await stored(), was, 'nothing has changed');
      const again = { ...auth, ...(change['auth'] as object), ...secrets };
      const given = await write({ ...change, auth: again });
      assert.deepEqual([given.status, given.body.result.change], [200, 'changed'], given.text);
    });
  }

  await t.test('so does another script of a signature, which sees them', async () => {
    await app('DELETE', '/sources/placed');
    await write({ auth: { ...signed, secrets: { key: 'secret-1' } } });
    const refused = await write({
      auth: { ...signed, script: 'console.log($ctx.variables.key); return [];' },
    });
    assert.deepEqual([refused.status, refused.body.result.path], [400, 'auth.secrets'], refused.text);
    assert.match(refused.body.result.message, /must be given again: auth\.script /);
  });

  await t.test('whatever leads nowhere else keeps them', async () => {
    await app('DELETE', '/sources/placed');
    await write({ auth: { ...basic, password: 'secret-1' }, proxy: 'http://proxy.test:3128' });
    const harmless: Record<string, unknown>[] = [
      { proxy: 'http://proxy.test:3128' },
      { baseUrl: 'https://api.test/v2' },
      { baseUrl: 'https://API.test:443/' },
      { allowedHosts: ['b.test:8443'] },
      { allowedHosts: undefined },
      { allowedHosts: undefined, auth: { ...basic, username: 'bob' }, rateLimit: { requests: 1 } },
    ];
    for (const change of harmless) {
      const answer = await write({ auth: basic, ...change });
      assert.equal(answer.status, 200, answer.text);
      assert.match(await stored(), /secret-1/);
      if ('allowedHosts' in change) continue;
      // Back to where it began, which is the same place.
      assert.equal((await write({ auth: basic })).status, 200);
    }
    await app('DELETE', '/sources/placed');
    await putSource({ name: 'placed', auth: { ...basic, password: 'secret-1' } });
    assert.equal((await putSource({ name: 'placed', auth: basic, baseUrl: before.baseUrl })).status, 200);
    await app('DELETE', '/sources/placed');
  });
}

async function passwordsInUrls(t: TestContext, bench: JobBench): Promise<void> {
  const { api, app, run, putSource, service, appId } = bench;

  await t.test('no URL of a source takes a password, which would be shown', async () => {
    const auth = { type: 'oauth2', grant: 'client_credentials', clientId: 'id', clientSecret: 's' } as const;
    const cases: [string, Record<string, unknown>, RegExp][] = [
      ['proxy', { proxy: 'http://ada:in-the-url@127.0.0.1:3128' }, /proxyPassword/],
      ['baseUrl', { baseUrl: 'http://ada:in-the-url@127.0.0.1' }, /auth/],
      ['auth.tokenUrl', { auth: { ...auth, tokenUrl: 'http://ada:in-the-url@127.0.0.1' } }, /no user/],
    ];
    for (const [path, field, says] of cases) {
      const refused = await putSource({ name: 'with-password', ...field });
      assert.deepEqual([refused.status, refused.body.result.path], [400, path], refused.text);
      assert.match(refused.body.result.message, says);
      assert.ok(!refused.text.includes('in-the-url'), refused.text);
    }
  });

  await t.test('proxyPassword is a secret like those of auth', async () => {
    const proxyPassword = '50%:of the proxy @ö';
    const proxy = await startProxy(t, `ada:${proxyPassword}`);
    const source = { name: 'proxied', proxy: `http://ada@${proxy.host}` };
    const without = await putSource({ ...source, proxy: `http://${proxy.host}`, proxyPassword });
    assert.deepEqual([without.status, without.body.result.path], [400, 'proxyPassword'], without.text);
    assert.equal((await putSource({ ...source, proxyPassword })).status, 201);
    const shown = await app('GET', '/sources/proxied');
    assert.deepEqual(shown.body.result.secrets, [{ path: 'proxyPassword', fingerprint: '…y @ö' }]);
    assert.ok(!shown.text.includes(proxyPassword), shown.text);
    const definition = await service.system.database.query.selectFrom('definition').selectAll().execute();
    assert.ok(!JSON.stringify(definition).includes('of the proxy'));

    const again = await app('PUT', '/sources/proxied', shown.body.result.source);
    assert.deepEqual([again.status, again.body.result.change], [200, 'unchanged'], again.text);
    const answer = await run({
      request: { source: 'proxied', url: `${api.url}/tells`, method: 'GET' },
      target: { action: 'parse JSON', parsingScript: 'console.log($ctx.response.bodyStr); return {};' },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(proxy.passed.length, 1);
    const told = JSON.stringify([
      await bench.pages(answer.body.result.jobId),
      await bench.log(answer.body.result.jobId),
    ]);
    assert.match(told, /proxy-authorization/, 'the proxy passes it on');
    assert.ok(!told.includes(Buffer.from(`ada:${proxyPassword}`).toString('base64')), told);

    const elsewhere = await putSource({ ...source, proxy: 'http://ada@127.0.0.1:1' });
    assert.deepEqual([elsewhere.status, elsewhere.body.result.path], [400, 'proxyPassword'], elsewhere.text);
    assert.equal((await putSource({ name: 'proxied' })).status, 200, 'it goes with its proxy');
    assert.equal(await service.system.secrets.get(`source:${appId}/proxied`), '{}');
  });
}

/** An indiscreet one: it passes on what was meant for it alone. */
async function startProxy(t: TestContext, credentials: string): Promise<{ host: string; passed: string[] }> {
  const passed: string[] = [];
  const wanted = `Basic ${Buffer.from(credentials).toString('base64')}`;
  const server = createServer((incoming, outgoing) => {
    if (incoming.headers['proxy-authorization'] !== wanted) {
      outgoing.writeHead(407).end();
      return;
    }
    passed.push(incoming.url ?? '');
    const onward = httpRequest(incoming.url ?? '', { headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', (error) => outgoing.destroy(error)).end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, passed };
}
