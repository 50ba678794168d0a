import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { startExternalApi, type ExternalApi, type ReceivedRequest } from '../support/external-api.ts';
import { startJobBench, type JobBench } from '../support/jobs.ts';

test('HTTPRequest: authorization', async (t) => {
  const bench = await startJobBench(t, { api: { orders: 30 } });
  await everyAuthType(t, bench);
  await expiredTokens(t, bench);
  await precedence(t, bench);
  await otherOrigins(t, bench, await startExternalApi(t, { orders: 3 }));
});

const SIGNING_KEY = 'signing-key-1';
const SIGNATURE_SCRIPT = `
  const { method, url } = $ctx.request;
  const signature = crypto.hmac('sha256', $ctx.variables.signingKey, method + ' ' + url);
  return [{ name: 'extendRequest', params: { headers: { 'X-Signature': signature } } }];`;

/** `path` is the place of the fake API that takes this authentication alone. */
function authTypes({ api }: JobBench): { name: string; path: string; auth: Record<string, unknown> }[] {
  const { username, password, bearer, apiKey, clientId, clientSecret, accessKeyId, secretAccessKey } =
    api.credentials;
  const tokenUrl = `${api.url}/oauth/token`;
  const client = { type: 'oauth2', tokenUrl, clientId, clientSecret };
  const refreshToken = () => api.oauth.issueRefreshToken();
  return [
    { name: 'none', path: '/echo', auth: { type: 'none' } },
    { name: 'basic', path: '/basic/echo', auth: { type: 'basic', username, password } },
    { name: 'bearer', path: '/bearer/echo', auth: { type: 'bearer', token: bearer } },
    ...(['header', 'query', 'cookie'] as const).map((place) => ({
      name: `apiKey in ${place}`,
      path: `/key/${place}/echo`,
      auth: { type: 'apiKey', name: place === 'header' ? 'X-Api-Key' : 'api_key', in: place, value: apiKey },
    })),
    {
      name: 'oauth2 client_credentials',
      path: '/oauth/echo',
      auth: { ...client, grant: 'client_credentials' },
    },
    {
      name: 'oauth2 client_credentials by Basic',
      path: '/oauth/echo',
      auth: {
        ...client,
        grant: 'client_credentials',
        clientAuth: 'basic',
        scope: 'orders',
        audience: 'shop',
      },
    },
    {
      name: 'oauth2 password',
      path: '/oauth/echo',
      auth: { ...client, grant: 'password', username, password },
    },
    {
      name: 'oauth2 refresh_token',
      path: '/oauth/echo',
      get auth() {
        return { ...client, grant: 'refresh_token', refreshToken: refreshToken() };
      },
    },
    {
      name: 'sigV4',
      path: '/signed/echo',
      auth: {
        type: 'sigV4',
        region: 'eu-central-1',
        serviceName: 'execute-api',
        accessKeyId,
        accessKey: secretAccessKey,
      },
    },
    {
      name: 'customSignature',
      path: '/custom',
      auth: { type: 'customSignature', script: SIGNATURE_SCRIPT, secrets: { signingKey: SIGNING_KEY } },
    },
  ];
}

async function everyAuthType(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, putSource } = bench;
  api.answer('POST /custom', (exchange) => {
    const { method, url, headers } = exchange.request;
    const wanted = createHmac('sha256', SIGNING_KEY).update(`${method} ${api.url}${url}`).digest('hex');
    exchange.json(headers['x-signature'] === wanted ? 200 : 403, {});
  });
  const request = (path: string) => ({
    url: `${api.url}${path}?b=2&a=%20`,
    method: 'POST',
    bodyType: 'string',
    body: 'text',
  });

  for (const { name, path, auth } of authTypes(bench)) {
    await t.test(`${name}, of a source`, async () => {
      const { status, text } = await putSource({ name: 'crm', auth: auth as never });
      assert.ok(status < 300, text);
      const answer = await run({ request: { ...request(path), source: 'crm' } });
      assert.equal(answer.status, 200, answer.text);
    });
  }
  for (const { name, path, auth } of authTypes(bench)) {
    await t.test(`${name}, given explicitly`, async () => {
      const answer = await run({ request: { ...request(path), auth } });
      assert.equal(answer.status, 200, answer.text);
    });
    if (name === 'none') continue;
    await t.test(`${name}: without it the system refuses`, async () => {
      const answer = await run({ request: request(path) });
      assert.equal(answer.status, 502, answer.text);
      assert.ok([401, 403].includes(answer.body.result.httpStatus), answer.text);
    });
  }

  await t.test('source and explicit auth exclude each other', async () => {
    const answer = await run({ request: { ...request('/echo'), source: 'crm', auth: { type: 'none' } } });
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.body.result.message, /source and auth exclude each other/);
  });

  await t.test('a source that is not there is named, with one that is like it', async () => {
    const answer = await run({ request: { ...request('/echo'), source: 'crn' } });
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.body.result.message, /no HTTPSource "crn".*Did you mean "crm"/);
  });
}

async function expiredTokens(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, putSource, log, rows } = bench;
  const { clientId, clientSecret } = api.credentials;
  const auth = {
    type: 'oauth2',
    grant: 'client_credentials',
    tokenUrl: `${api.url}/oauth/token`,
    clientId,
    clientSecret,
  } as const;
  const tokens = () => api.oauth.counts.client_credentials;
  const request = { source: 'oauth', url: `${api.url}/oauth/orders`, method: 'GET' };

  await t.test('a token is kept from job to job, and renewed once when a 401 comes', async () => {
    await putSource({ name: 'oauth', auth: { ...auth, clientAuth: 'body' } });
    const before = tokens();
    for (let job = 0; job < 3; job += 1) assert.equal((await run({ request })).status, 200);
    assert.equal(tokens() - before, 1, 'one token for three jobs');

    api.oauth.revokeAccessTokens();
    const answer = await run({ request });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(tokens() - before, 2);
    const statuses = api.requestsTo('/oauth/orders').map(({ status }) => status);
    assert.deepEqual(statuses.slice(-2), [401, 200]);
    const said = await log(answer.body.result.jobId);
    assert.ok(
      said.includes(
        'info: the system answered 401: a new token was obtained, and the request is sent once more',
      ),
      said.join('\n'),
    );
  });

  await t.test('in the middle of paging, too: no page is lost or loaded twice', async () => {
    await putSource({ name: 'paging', auth: { ...auth, clientAuth: 'body' } });
    let asked = 0;
    api.beforeAnswer = ({ path }) => {
      if (path === '/oauth/orders/by-next') asked += 1;
      if (asked === 2) api.oauth.revokeAccessTokens();
    };
    const answer = await run({
      request: { source: 'paging', url: `${api.url}/oauth/orders/by-next?size=10`, method: 'GET' },
      target: {
        action: 'parse JSON',
        table: 'paged',
        parsingScript: `
          const { items, next } = $ctx.response.body;
          const doWhile = next === null ? false : { url: next };
          return { data: [{ data: items.map(({ id }) => ({ id })) }], doWhile };`,
      },
    });
    api.beforeAnswer = undefined;
    assert.equal(answer.status, 200, answer.text);
    const statuses = api.requestsTo('/oauth/orders/by-next').map(({ status }) => status);
    assert.deepEqual(statuses, [200, 401, 200, 200]);
    const ids = (await rows('paged')).map(({ id }) => id);
    assert.deepEqual(
      ids,
      Array.from({ length: 30 }, (_, index) => index + 1),
    );
  });

  await t.test(
    'a renewed token that worked and then expires is renewed again, within the minute, too',
    async () => {
      await putSource({ name: 'short-lived', auth: { ...auth, clientAuth: 'body' } });
      const before = tokens();
      for (let expired = 0; expired < 4; expired += 1) {
        const answer = await run({ request: { ...request, source: 'short-lived' } });
        assert.equal(answer.status, 200, answer.text);
        api.oauth.revokeAccessTokens();
      }
      assert.equal(tokens() - before, 4);
    },
  );

  await t.test('a 401 that no token helps against costs no token for each request', async () => {
    await putSource({ name: 'half', auth: { ...auth, clientAuth: 'body' } });
    api.answer('GET /not-for-you', (exchange) => exchange.json(401, { error: 'not for you' }));
    const half = { source: 'half', method: 'GET', options: { onHttpError: 'script' } };
    const before = tokens();
    for (let round = 0; round < 5; round += 1) {
      for (const path of ['/not-for-you', '/oauth/orders'])
        await run({ request: { ...half, url: api.url + path } });
    }
    assert.equal(tokens() - before, 2, 'the first token and one renewal');
  });

  await t.test('a 401 after that fails the job', async () => {
    await putSource({ name: 'refused', auth: { ...auth, clientAuth: 'body' } });
    api.answer('GET /refused', (exchange) => exchange.json(401, { error: 'still no' }));
    const before = tokens();
    const answer = await run({ request: { source: 'refused', url: `${api.url}/refused`, method: 'GET' } });
    assert.equal(answer.status, 502, answer.text);
    const { code, httpStatus, message } = answer.body.result;
    assert.deepEqual([code, httpStatus], ['http_status', 401]);
    assert.match(message, /answered by 401 Unauthorized: .*still no/);
    assert.equal(api.requestsTo('/refused').length, 2, 'asked twice');
    assert.equal(tokens() - before, 2, 'the first token and its one renewal');
  });

  await t.test('credentials that the token endpoint refuses', async () => {
    const wrong = { ...auth, clientSecret: 'wrong-secret-canary' };
    const answer = await run({ request: { ...request, source: undefined, auth: wrong } });
    assert.equal(answer.status, 502, answer.text);
    const { code, message } = answer.body.result;
    assert.equal(code, 'authorization_failed');
    assert.match(
      message,
      /auth\.tokenUrl: the token endpoint .*\/oauth\/token gave no token: status 401, error invalid_client/,
    );
    assert.ok(!answer.text.includes('wrong-secret-canary'));
  });

  await t.test('a refresh token that the system rotates is kept for the next job', async () => {
    await putSource({
      name: 'rotating',
      auth: {
        ...auth,
        clientAuth: 'body',
        grant: 'refresh_token',
        refreshToken: api.oauth.issueRefreshToken(),
      },
    });
    const rotating = { ...request, source: 'rotating' };
    for (let job = 0; job < 3; job += 1) {
      const answer = await run({ request: rotating });
      assert.equal(answer.status, 200, answer.text);
      api.oauth.revokeAccessTokens();
    }
    assert.equal(api.oauth.counts.refused_reuse, 0);
  });
}

async function precedence(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, putSource } = bench;
  const last = (): ReceivedRequest => api.requests.at(-1) as ReceivedRequest;
  const request = { url: `${api.url}/echo?api_key=mine`, method: 'GET' };

  await t.test('Authorization of the Headers script wins, whatever its case', async () => {
    await putSource({ name: 'plain', auth: { type: 'basic', username: 'a', password: 'b' } });
    const answer = await run({
      request: { ...request, source: 'plain', headers: "return { authORIZATION: 'Bearer mine' };" },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(last().headers.authorization, 'Bearer mine');
    assert.equal(last().rawHeaders.filter((name) => name.toLowerCase() === 'authorization').length, 1);
  });

  await t.test('then no token is asked for, and a 401 renews none', async () => {
    const { clientId, clientSecret } = api.credentials;
    const before = { ...api.oauth.counts };
    const answer = await run({
      request: {
        url: `${api.url}/oauth/orders`,
        method: 'GET',
        auth: {
          type: 'oauth2',
          grant: 'client_credentials',
          tokenUrl: `${api.url}/oauth/token`,
          clientId,
          clientSecret,
        },
        headers: "return { Authorization: 'Bearer mine' };",
      },
    });
    assert.equal(answer.body.result.httpStatus, 401, answer.text);
    assert.deepEqual(api.oauth.counts, before);
  });

  await t.test('interceptors win over both', async () => {
    const answer = await run({
      request: {
        ...request,
        source: 'plain',
        headers: "return { Authorization: 'Bearer mine' };",
        interceptors: `
          const headers = { authorization: 'Custom ' + $ctx.request.headers.Authorization };
          return [{ name: 'extendRequest', params: { headers } }];`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(last().headers.authorization, 'Custom Bearer mine');
  });

  await t.test('a parameter of the URL with the name of the API key stays', async () => {
    const answer = await run({
      request: { ...request, auth: { type: 'apiKey', name: 'api_key', in: 'query', value: 'ours' } },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(last().query.getAll('api_key'), ['mine']);
  });

  await t.test('properties of a source are seen by scripts, its secrets are not', async () => {
    await putSource({
      name: 'properties',
      baseUrl: api.url,
      properties: { tenant: 'north' },
      auth: { type: 'bearer', token: 'not-for-scripts' },
    });
    const answer = await run({
      request: {
        source: 'properties',
        url: '/echo',
        method: 'GET',
        parameters: 'return { tenant: $ctx.variables.tenant, seen: JSON.stringify($ctx) };',
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(last().query.get('tenant'), 'north');
    assert.doesNotMatch(last().query.get('seen') ?? '', /not-for-scripts/);
    assert.equal(last().headers.authorization, 'Bearer not-for-scripts');
  });
}

/** The credentials that a request carried. */
function carried({ headers, query }: ReceivedRequest) {
  const { authorization, cookie } = headers;
  return { authorization, cookie, key: headers['x-api-key'], parameter: query.get('api_key') ?? undefined };
}

const NOTHING = { authorization: undefined, cookie: undefined, key: undefined, parameter: undefined };

async function otherOrigins(t: TestContext, bench: JobBench, other: ExternalApi): Promise<void> {
  const { api, run, putSource } = bench;
  const { host } = new URL(other.url);
  const ways = {
    'a redirect': (source: string) => ({
      request: { source, url: `${api.url}/redirect?to=${other.url}/echo`, method: 'GET' },
    }),
    'doWhile.url': (source: string) => ({
      request: { source, url: `${api.url}/echo`, method: 'GET' },
      target: {
        action: 'parse JSON',
        parsingScript: `
          const isFirst = $ctx.response.body.headers.host === '${new URL(api.url).host}';
          return { doWhile: isFirst ? { url: '${other.url}/echo' } : false };`,
      },
    }),
  };
  const auths = {
    basic: { type: 'basic', username: 'ada', password: 'long enough' },
    bearer: { type: 'bearer', token: 'token-1' },
    'apiKey in header': { type: 'apiKey', name: 'X-Api-Key', in: 'header', value: 'k' },
    'apiKey in query': { type: 'apiKey', name: 'api_key', in: 'query', value: 'k' },
    'apiKey in cookie': { type: 'apiKey', name: 'api_key', in: 'cookie', value: 'k' },
    customSignature: {
      type: 'customSignature',
      script: "return [{ name: 'extendRequest', params: { headers: { 'X-Api-Key': 'signed' } } }];",
    },
  } as const;

  for (const [way, operation] of Object.entries(ways)) {
    for (const [name, auth] of Object.entries(auths)) {
      await t.test(`${way} to another origin takes no credentials along: ${name}`, async () => {
        await putSource({ name: 'home', auth });
        const before = api.requests.length;
        const answer = await run(operation('home'));
        assert.equal(answer.status, 200, answer.text);
        assert.notDeepEqual(
          carried(api.requests[before] as ReceivedRequest),
          NOTHING,
          'its own host gets them',
        );
        assert.deepEqual(carried(other.requests.at(-1) as ReceivedRequest), NOTHING);
        const warnings = (await bench.log(answer.body.result.jobId)).filter((line) =>
          line.startsWith('warn: '),
        );
        assert.equal(warnings.length, 1);
        assert.ok(warnings[0]?.startsWith(`warn: ${other.url} gets no credentials: `), warnings[0]);
      });
    }
    await t.test(`${way} to a host that the source allows takes them along`, async () => {
      await putSource({ name: 'wide', auth: auths.bearer, allowedHosts: [host] });
      const answer = await run(operation('wide'));
      assert.equal(answer.status, 200, answer.text);
      assert.equal(other.requests.at(-1)?.headers.authorization, 'Bearer token-1');
    });
  }

  await t.test('a redirect from there back home does not bring them back', async () => {
    await putSource({ name: 'home', auth: auths.bearer });
    const back = encodeURIComponent(`${other.url}/redirect?to=${api.url}/echo`);
    const answer = await run({
      request: { source: 'home', url: `${api.url}/redirect?to=${back}`, method: 'GET' },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(carried(api.requests.at(-1) as ReceivedRequest), NOTHING);
  });

  await t.test('the base URL of a source is its home: another absolute URL gets no credentials', async () => {
    await putSource({ name: 'based', baseUrl: api.url, auth: auths.bearer });
    const answer = await run({ request: { source: 'based', url: `${other.url}/echo`, method: 'GET' } });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(carried(other.requests.at(-1) as ReceivedRequest), NOTHING);
  });
}
