import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { describe, test } from 'node:test';
import type { ExternalApi } from '../support/external-api.ts';
import { badConfiguration, badRequest, requestBench } from '../support/request-bench.ts';

/** Each authentication, the path that it opens, and what it looks like. */
function authentications({ url, credentials }: ExternalApi) {
  const { username, password, bearer, apiKey, clientId, clientSecret } = credentials;
  const { accessKeyId, secretAccessKey } = credentials;
  return {
    Basic: { path: '/basic/echo', auth: { type: 'basic', username, password } },
    'a bearer token': { path: '/bearer/echo', auth: { type: 'bearer', token: bearer } },
    'an API key in a header': {
      path: '/key/header/echo',
      auth: { type: 'apiKey', name: 'X-Api-Key', in: 'header', value: apiKey },
    },
    'an API key in the query': {
      path: '/key/query/echo',
      auth: { type: 'apiKey', name: 'api_key', in: 'query', value: apiKey },
    },
    'an API key in a cookie': {
      path: '/key/cookie/echo',
      auth: { type: 'apiKey', name: 'api_key', in: 'cookie', value: apiKey },
    },
    OAuth: {
      path: '/oauth/echo',
      auth: {
        type: 'oauth2',
        grant: 'client_credentials',
        tokenUrl: `${url}/oauth/token`,
        clientId,
        clientSecret,
      },
    },
    SigV4: {
      path: '/signed/echo?b=2&a=1',
      auth: { type: 'sigV4', region: 'eu', serviceName: 'orders', accessKeyId, accessKey: secretAccessKey },
    },
  };
}

const basic = { type: 'basic', username: 'source', password: 'secret' } as const;
const OF_SOURCE = `Basic ${Buffer.from('source:secret').toString('base64')}`;

describe('Contract 2.3: HTTP request', () => {
  const bench = requestBench();

  // ---- Source

  test('Source: not required; without it the request has no authentication', async () => {
    const { headers } = await bench().sendOne();
    assert.equal(headers.authorization, undefined);
    assert.equal(headers.cookie, undefined);
  });

  test('Source: supplies credentials and the authentication mechanism', async (t) => {
    const { send, putSource, api } = bench();
    for (const [name, { path, auth }] of Object.entries(authentications(api))) {
      await t.test(name, async () => {
        assert.equal((await putSource({ name, auth: auth as never })).status < 300, true);
        const requests = await send({ source: name, url: path });
        assert.deepEqual([requests.at(-1)?.path, requests.at(-1)?.status], [path.split('?')[0], 200]);
      });
    }
  });

  test('Source: authentication parameters may be given explicitly in the request instead', async (t) => {
    const { send, api } = bench();
    for (const [name, { path, auth }] of Object.entries(authentications(api))) {
      await t.test(name, async () => {
        const requests = await send({ auth, url: path });
        assert.deepEqual([requests.at(-1)?.path, requests.at(-1)?.status], [path.split('?')[0], 200]);
      });
    }
  });

  test('Source: a custom signature, made by a script from secrets that no other script sees', async () => {
    const { sendOne, putSource } = bench();
    await putSource({
      name: 'signing',
      auth: {
        type: 'customSignature',
        secrets: { key: 'top secret' },
        script: `
          const { method, url, bodyStr } = $ctx.request;
          const signature = crypto.hmac('sha256', $ctx.variables.key, method + ' ' + url + ' ' + bodyStr);
          return [{ name: 'extendRequest', params: { headers: { Authorization: 'HMAC ' + signature } } }];`,
      },
    });
    const request = await sendOne({
      source: 'signing',
      method: 'POST',
      bodyType: 'string',
      body: 'hello',
      headers: 'return { "X-Key": String($ctx.variables.key) };',
    });
    const text = `POST ${bench().api.url}/echo hello`;
    const signature = createHmac('sha256', 'top secret').update(text).digest('hex');
    assert.equal(request.headers.authorization, `HMAC ${signature}`);
    assert.equal(request.headers['x-key'], 'undefined');
  });

  test('Source: must be of the HTTPSource type; another one is refused', async () => {
    const { refuse } = bench();
    for (const source of ['local', 'files']) {
      const wrong = badRequest('request.source', /no HTTPSource "(?:local|files)"/, 'unknown_source');
      await refuse(wrong, { source });
    }
  });

  test('Source: one that is not there is refused, with the nearest name', async () => {
    const { refuse, putSource } = bench();
    await putSource({ name: 'warehouse' });
    const unknown = badRequest(
      'request.source',
      /no HTTPSource "warehose".*mean "warehouse"/,
      'unknown_source',
    );
    await refuse(unknown, { source: 'warehose' });
  });

  test('Source: with explicit authentication beside it, the request is refused', async () => {
    const { refuse, putSource } = bench();
    await putSource({ name: 'twice', auth: basic });
    await refuse(badRequest('request.auth', /source and auth exclude each other/), {
      source: 'twice',
      auth: basic,
    });
  });

  test('Source: an authentication of unknown type is refused, and what it is lists the known ones', async () => {
    const unknown = badRequest('request.auth.type', /basic.*apiKey.*bearer.*oauth2.*sigV4.*customSignature/);
    await bench().refuse(unknown, { auth: { type: 'digest' } });
  });

  test('Source: an unknown property of the authentication is refused, with the nearest name', async () => {
    const unknown = badRequest(
      'request.auth.usrname',
      /Did you mean "username"\? Known: type, username, password$/,
    );
    await bench().refuse(unknown, { auth: { type: 'basic', usrname: 'a', username: 'a', password: 'b' } });
  });

  // ---- URL

  test('URL: may contain query parameters, which keep their exact bytes', async () => {
    const url = "/echo?limit=100&filter=a+b%20c,'d'&empty&x=%c3%a9&limit=2";
    assert.equal((await bench().sendOne({ url })).url, url);
  });

  test('URL: required', async () => {
    const { refuse } = bench();
    await refuse(badRequest('request.url', /expected string or object/), { url: null });
    await refuse(badRequest('request.url', /request\.url/), { url: '' });
  });

  test('URL: from a script', async () => {
    const { sendOne, api } = bench();
    const request = await sendOne({ url: { script: `return '${api.url}/echo?from=script';` } });
    assert.equal(request.url, '/echo?from=script');
  });

  test('URL: relative, it begins at the base URL of the source', async () => {
    const { run, putSource, api } = bench();
    await putSource({ name: 'based', baseUrl: `${api.url}/latency` });
    const before = api.requests.length;
    const answer = await run({ request: { source: 'based', url: 'echo?a=1', method: 'GET' } });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(api.requests[before]?.url, '/latency/echo?a=1');
  });

  test('URL: not one of HTTP is refused', async () => {
    const { refuse } = bench();
    for (const url of ['ftp://127.0.0.1/x', 'file:///etc/passwd', 'echo', 'http://', '//127.0.0.1/x']) {
      const path = url.startsWith('/') ? { script: `return '${url}'` } : url;
      await refuse(badConfiguration('request.url', /request\.url/), { url: path });
    }
  });

  test('URL: a script that returns no string is refused', async () => {
    await bench().refuse(badConfiguration('request.url', /must return a string/), {
      url: { script: 'return 5;' },
    });
  });

  // ---- Method

  for (const method of ['GET', 'POST', 'DELETE', 'PATCH']) {
    test(`Method: one of GET, POST, DELETE, PATCH: ${method}`, async () => {
      assert.equal((await bench().sendOne({ method })).method, method);
    });
  }

  test('Method: required', async () => {
    await bench().refuse(badRequest('request.method', /expected string/), { method: undefined });
  });

  test('Method: PUT and HEAD are refused, with what is allowed and how to allow them', async () => {
    const { refuse } = bench();
    for (const method of ['PUT', 'HEAD']) {
      const allowed = new RegExp(
        `one of GET, POST, DELETE, PATCH\\..*setting extraMethods can add ${method}`,
      );
      await refuse(badRequest('request.method', allowed), { method });
    }
  });

  test('Method: any other is refused, with what is allowed', async () => {
    const { refuse } = bench();
    for (const method of ['OPTIONS', 'TRACE', 'CONNECT', 'get', 'G E T', '']) {
      await refuse(badRequest('request.method', /request\.method/), { method });
    }
    await refuse(badRequest('request.method', /one of GET, POST, DELETE, PATCH\. Did you mean "GET"/), {
      method: 'get',
    });
  });

  // ---- Parameters

  test('Parameters: a script that returns names and values', async () => {
    const request = await bench().sendOne({
      parameters: 'return { page: 2, q: "a b&c=é", on: true, none: null, tag: ["x", "y"], left: undefined };',
    });
    assert.equal(request.url, '/echo?page=2&q=a%20b%26c%3D%C3%A9&on=true&none=&tag=x&tag=y');
  });

  test('Parameters: not required; a script that returns nothing adds nothing', async () => {
    const { sendOne } = bench();
    for (const parameters of [undefined, 'return;', 'return null;', 'return {};']) {
      assert.equal((await sendOne({ url: '/echo?a=1', parameters })).url, '/echo?a=1');
    }
  });

  test('Parameters: on conflict they override those of the URL', async () => {
    const request = await bench().sendOne({
      url: '/echo?page=1&keep=%2a&page=9&p%61ge=3',
      parameters: 'return { page: 2, more: "m" };',
    });
    assert.equal(request.url, '/echo?keep=%2a&page=2&more=m');
  });

  test('Parameters: URL < Parameters script < interceptors', async () => {
    const request = await bench().sendOne({
      url: '/echo?a=url&b=url&c=url',
      parameters: 'return { b: "script", c: "script" };',
      interceptors: 'return [{ name: "extendRequest", params: { parameters: { c: "interceptor" } } }];',
    });
    assert.deepEqual(Object.fromEntries(request.query), { a: 'url', b: 'script', c: 'interceptor' });
    assert.deepEqual([...request.query.keys()].toSorted(), ['a', 'b', 'c']);
  });

  test('Parameters: they override those of a doWhile.url, too, and the log of the job warns of it', async () => {
    const { run, log, api } = bench();
    const before = api.requests.length;
    const answer = await run({
      request: { url: `${api.url}/echo?page=1`, method: 'GET', parameters: 'return { page: 7 };' },
      target: {
        action: 'parse JSON',
        parsingScript: `
          const next = '${api.url}/echo?page=2&second=1';
          return { doWhile: !$ctx.response.body.url.includes('second') && { url: next } };`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(
      api.requests.slice(before).map(({ url }) => url),
      ['/echo?page=7', '/echo?second=1&page=7'],
    );
    const lines = await log(answer.body.result.jobId);
    assert.match(lines.join('\n'), /^warn: .*Parameters script overrides page of the URL that doWhile gave/m);
  });

  test('Parameters: anything else than an object of values is refused and named', async () => {
    const { refuse } = bench();
    for (const [script, path, message] of [
      ['return "a=1";', 'request.parameters', /must be an object/],
      ['return [1];', 'request.parameters', /must be an object.*not an array/],
      ['return { a: { b: 1 } };', 'request.parameters.a', /not an object/],
      ['return { a: ["x", {}] };', 'request.parameters.a[1]', /not an object/],
    ] as const) {
      await refuse(badConfiguration(path, message), { parameters: script });
    }
  });

  // ---- Headers

  test('Headers: a script that returns names and values', async () => {
    const { headers } = await bench().sendOne({
      headers: `return { Accept: 'application/json', 'X-Count': 3, 'X-On': false, 'X-None': null,
        'X-Left': undefined, 'X-Tag': ['a', 'b'] };`,
    });
    assert.equal(headers.accept, 'application/json');
    assert.deepEqual(
      ['x-count', 'x-on', 'x-none', 'x-left', 'x-tag'].map((name) => headers[name]),
      ['3', 'false', undefined, undefined, 'a, b'],
    );
  });

  test('Headers: not required; a script that returns nothing adds nothing', async () => {
    const { sendOne } = bench();
    const plain = (await sendOne()).rawHeaders;
    for (const headers of ['return;', 'return null;', 'return {};']) {
      assert.deepEqual((await sendOne({ headers })).rawHeaders, plain);
    }
  });

  test('Headers: with an HTTPSource, an Authorization header derived from it is added', async () => {
    const { sendOne, putSource } = bench();
    await putSource({ name: 'adding', auth: basic });
    const { headers } = await sendOne({ source: 'adding', headers: 'return { "X-Other": "o" };' });
    assert.deepEqual([headers.authorization, headers['x-other']], [OF_SOURCE, 'o']);
  });

  test('Headers: an Authorization header of the script overrides the one of the source', async () => {
    const { sendOne, putSource } = bench();
    await putSource({ name: 'overridden', auth: basic });
    for (const name of ['Authorization', 'authorization', 'AUTHORIZATION']) {
      const { rawHeaders } = await sendOne({
        source: 'overridden',
        headers: `return { ${name}: 'Token mine' };`,
      });
      const values = rawHeaders.filter(
        (_, index) => rawHeaders[index - 1]?.toLowerCase() === 'authorization',
      );
      assert.deepEqual(values, ['Token mine'], name);
    }
  });

  test('Headers: source authorization < Headers script < interceptors, names compared without case', async () => {
    const { sendOne, putSource } = bench();
    await putSource({ name: 'lowest', auth: basic });
    const { headers, rawHeaders } = await sendOne({
      source: 'lowest',
      headers: 'return { authorization: "script", "x-a": "script", "X-B": "script" };',
      interceptors: `return [{ name: 'extendRequest', params: {
        headers: { AUTHORIZATION: 'interceptor', 'x-b': 'interceptor' } } }];`,
    });
    assert.deepEqual(
      [headers.authorization, headers['x-a'], headers['x-b']],
      ['interceptor', 'script', 'interceptor'],
    );
    const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
    assert.equal(new Set(names).size, names.length);
  });

  test('Headers: a key of the source gives way to the script, too', async () => {
    const { sendOne, putSource } = bench();
    await putSource({
      name: 'keyed',
      auth: { type: 'apiKey', name: 'X-Key', in: 'header', value: 'source' },
    });
    assert.equal((await sendOne({ source: 'keyed' })).headers['x-key'], 'source');
    const { headers } = await sendOne({ source: 'keyed', headers: 'return { "x-key": "script" };' });
    assert.equal(headers['x-key'], 'script');
  });

  test('Headers: anything else than an object of values is refused and named', async () => {
    const { refuse } = bench();
    for (const [script, path, message] of [
      ['return "Accept: x";', 'request.headers', /must be an object/],
      ['return { A: {} };', 'request.headers.A', /not an object/],
      ['return { A: "a\\r\\nB: b" };', 'request.headers.A', /line break/],
      ['return { "A B": "a" };', 'request.headers', /"A B" is no header name/],
      ['return { A: "1", a: "2" };', 'request.headers.a', /the same header as "A"/],
    ] as const) {
      await refuse(badConfiguration(path, message), { headers: script });
    }
  });

  // ---- Body type, Body

  test('Body type: not required; a text is then sent as it is, a result of a script as JSON', async () => {
    const { sendOne } = bench();
    const text = await sendOne({ method: 'POST', body: 'plain {text' });
    assert.equal(text.body.toString(), 'plain {text');
    const json = await sendOne({ method: 'POST', body: { script: 'return { a: [1] };' } });
    assert.equal(json.body.toString(), '{"a":[1]}');
  });

  test('Body: not required', async () => {
    for (const bodyType of [undefined, 'string', 'JSON -> stringify()']) {
      const request = await bench().sendOne({ method: 'POST', bodyType });
      assert.equal(request.bodyBytes, 0);
    }
  });

  test('Body: a text that matches the body type; JSON that is none is refused with its place', async () => {
    const { refuse } = bench();
    for (const bodyType of [
      'JSON -> stringify()',
      'JSON -> form-data',
      'JSON -> x-www-form-urlencoded',
      'JSON -> transmitSourceTable()',
    ]) {
      const wrong = badConfiguration('request.body', /is no JSON: line 2, column 5, unexpected "}"/);
      await refuse(wrong, { method: 'POST', bodyType, body: '{\n"a":}' });
    }
  });

  test('Body: in script mode the result is serialized with JSON.stringify', async () => {
    const { sendOne } = bench();
    const script = 'return { b: "x", a: [1, null, undefined], u: undefined, d: new Date(0) };';
    const { body } = await sendOne({ method: 'POST', bodyType: 'JSON -> stringify()', body: { script } });
    assert.equal(body.toString(), '{"b":"x","a":[1,null,null],"d":"1970-01-01T00:00:00.000Z"}');
    const string = await sendOne({ method: 'POST', bodyType: 'string', body: { script: 'return "a";' } });
    assert.equal(string.body.toString(), '"a"');
  });

  test('Body: in script mode, undefined is refused', async () => {
    await bench().refuse(badConfiguration('request.body', /returned undefined/), {
      method: 'POST',
      bodyType: 'JSON -> stringify()',
      body: { script: 'return;' },
    });
  });

  test('Body: neither a text nor a script is refused', async () => {
    const { refuse } = bench();
    await refuse(badRequest('request.body', /expected string or object/), { method: 'POST', body: 5 });
    await refuse(badRequest('request.body.scrpt', /Did you mean "script"\?/), {
      method: 'POST',
      body: { scrpt: 'return 1;' },
    });
  });

  test('Body: GET and DELETE may carry one', async () => {
    for (const method of ['GET', 'DELETE']) {
      const { body } = await bench().sendOne({ method, bodyType: 'string', body: 'x' });
      assert.equal(body.toString(), 'x', method);
    }
  });

  // ---- Interceptors

  test('Interceptors: a script that returns an array; they run in the order given', async () => {
    const extend = (name: string, value: string) =>
      `{ name: 'extendRequest', params: { headers: { '${name}': '${value}' } } }`;
    const { headers } = await bench().sendOne({
      interceptors: `return [${extend('X-A', '1')}, ${extend('X-B', '1')}, ${extend('x-a', '2')}];`,
    });
    assert.deepEqual([headers['x-a'], headers['x-b']], ['2', '1']);
  });

  test('Interceptors: not required; none, or an empty array, changes nothing', async () => {
    const { sendOne } = bench();
    const plain = (await sendOne()).rawHeaders;
    for (const interceptors of ['return;', 'return null;', 'return [];']) {
      assert.deepEqual((await sendOne({ interceptors })).rawHeaders, plain);
    }
  });

  // ---- Options, and the whole

  test('Options: not required; a JSON object, else it is refused', async () => {
    const { sendOne, refuse } = bench();
    await sendOne({ options: {} });
    for (const options of ['{}', [], 600, null]) {
      await refuse(badRequest('request.options', /expected object/), { options });
    }
  });

  test('an unknown property is refused, with the nearest name', async () => {
    const { refuse } = bench();
    for (const [typo, meant] of [
      ['paramters', 'parameters'],
      ['header', 'headers'],
      ['bodytype', 'bodyType'],
      ['interceptor', 'interceptors'],
    ] as const) {
      await refuse(badRequest(`request.${typo}`, new RegExp(`Did you mean "${meant}"\\?`)), {
        [typo]: 'return {};',
      });
    }
  });

  test('an unknown property beside the request is refused, with the nearest name', async () => {
    const { refuse } = bench();
    await refuse(badRequest('sourceTabel', /Did you mean "sourceTable"\?/), {}, { sourceTabel: {} });
  });

  test('a script of the wrong type is refused', async () => {
    const { refuse } = bench();
    for (const property of ['parameters', 'headers', 'interceptors']) {
      await refuse(badRequest(`request.${property}`, /expected string/), { [property]: { page: 1 } });
    }
  });

  test('all scripts are compiled before the first request is sent', async () => {
    await bench().refuse(
      { status: 422, code: 'script_error', path: 'target.parsingScript', message: /line 1/ },
      {},
      { target: { action: 'parse JSON', parsingScript: 'return {{;' } },
    );
  });
});

describe('Contract 2.3: HTTP request, with the setting extraMethods', () => {
  const bench = requestBench({ settings: { extraMethods: ['PUT', 'HEAD'] } });

  for (const method of ['PUT', 'HEAD', 'PATCH']) {
    test(`Method: ${method}`, async () => {
      assert.equal((await bench().sendOne({ method })).method, method);
    });
  }

  test('Method: another one is refused, and what is allowed has the added ones', async () => {
    const allowed = /one of GET, POST, DELETE, PATCH, PUT, HEAD\./;
    await bench().refuse(badRequest('request.method', allowed), { method: 'OPTIONS' });
  });
});
