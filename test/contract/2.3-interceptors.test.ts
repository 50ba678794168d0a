import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { describe, test } from 'node:test';
import { badConfiguration, requestBench } from '../support/request-bench.ts';

describe('Contract 2.3: interceptors', () => {
  const bench = requestBench();

  function signing(name = 'signWithCloudSigV4', params: Record<string, unknown> = {}): string {
    const { accessKeyId, secretAccessKey: accessKey } = bench().api.credentials;
    const all = { region: 'eu-central-1', serviceName: 'orders', accessKeyId, accessKey, ...params };
    return JSON.stringify({ name, params: all });
  }

  /** What must be there before signing. */
  function hostAndDate(more = ''): string {
    const { host } = new URL(bench().api.url);
    return `const now = new Date().toISOString().slice(0, 19).replace(/[-:]/g, '') + 'Z';
      return { host: '${host}', 'x-amz-date': now, ${more} };`;
  }

  // ---- signWithCloudSigV4

  for (const name of ['signWithCloudSigV4', 'signWithAWSSigV4']) {
    test(`${name}: adds an Authorization header that the provider's algorithm accepts`, async () => {
      const { sendOne } = bench();
      const { headers, status } = await sendOne({
        url: '/signed/echo',
        headers: hostAndDate(),
        interceptors: `return [${signing(name)}];`,
      });
      assert.equal(status, 200);
      assert.match(
        headers.authorization ?? '',
        /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d{8}\/eu-central-1\/orders\/aws4_request, SignedHeaders=host;x-amz-date, /,
      );
    });
  }

  test('signWithCloudSigV4: over the request exactly as it will be sent, query and body included', async () => {
    const { sendOne } = bench();
    const { status } = await sendOne({
      url: "/signed/echo?b=2&a=1&space=a%20b&quote='&empty=",
      method: 'PATCH',
      parameters: 'return { a: "é/ü", z: ["2", "1"] };',
      headers: hostAndDate('"X-Other": "  two   words "'),
      bodyType: 'JSON -> stringify()',
      body: '{"text": "é"}',
      interceptors: `return [
        { name: 'extendRequest', params: { parameters: { added: 'yes & no' }, headers: { 'X-Added': '1' } } },
        ${signing()}];`,
    });
    assert.equal(status, 200);
  });

  test('signWithCloudSigV4: a table as body', async () => {
    const { sendOne, fill } = bench();
    await fill('signed', [{ id: 1 }, { id: 2 }]);
    const { status, body } = await sendOne({
      url: '/signed/upload',
      method: 'POST',
      headers: hostAndDate(),
      bodyType: 'JSON -> transmitSourceTable()',
      body: '{"sourceName": "local", "tableName": "signed"}',
      interceptors: `return [${signing()}];`,
    });
    assert.deepEqual([status, body.toString()], [200, 'id\r\n1\r\n2\r\n']);
  });

  test('signWithCloudSigV4: x-amz-content-sha256 is signed, too', async () => {
    const { sendOne } = bench();
    const sha256 = createHash('sha256').update('body').digest('hex');
    const { status, headers } = await sendOne({
      url: '/signed/echo',
      method: 'POST',
      headers: hostAndDate(`'X-Amz-Content-Sha256': '${sha256}'`),
      bodyType: 'string',
      body: 'body',
      interceptors: `return [${signing()}];`,
    });
    assert.equal(status, 200);
    assert.match(headers.authorization ?? '', /SignedHeaders=[^,]*x-amz-content-sha256;x-amz-date,/);
  });

  test('signWithCloudSigV4: its Authorization takes the place of the one of the source', async () => {
    const { sendOne, putSource } = bench();
    await putSource({ name: 'signed', auth: { type: 'basic', username: 'a', password: 'b' } });
    const { status } = await sendOne({
      source: 'signed',
      url: '/signed/echo',
      headers: hostAndDate(),
      interceptors: `return [${signing()}];`,
    });
    assert.equal(status, 200);
  });

  test('signWithCloudSigV4: a wrong key is what the other side refuses', async () => {
    const { run, api } = bench();
    const answer = await run({
      request: {
        url: `${api.url}/signed/echo`,
        method: 'GET',
        headers: hostAndDate(),
        interceptors: `return [${signing('signWithCloudSigV4', { accessKey: 'wrong' })}];`,
      },
    });
    assert.deepEqual([answer.status, answer.body.result.httpStatus], [502, 403], answer.text);
  });

  test('signWithCloudSigV4: before signing, the request must already carry the header host', async () => {
    await bench().refuse(badConfiguration('request.interceptors[0]', /header host is missing/), {
      headers: 'return { "x-amz-date": "20260131T235959Z" };',
      interceptors: `return [${signing()}];`,
    });
  });

  test('signWithCloudSigV4: before signing, the request must already carry the header x-<cloud>-date', async () => {
    await bench().refuse(badConfiguration('request.interceptors[0]', /header x-amz-date is missing/), {
      headers: 'return { host: "127.0.0.1" };',
      interceptors: `return [${signing()}];`,
    });
  });

  test("signWithCloudSigV4: x-<cloud>-date must match the pattern yyyyMMdd'T'HHmmss'Z'", async () => {
    const { refuse } = bench();
    for (const date of ['2026-01-31T23:59:59Z', '20260131', '20261331T235959Z', '20260131T235959', '']) {
      await refuse(
        badConfiguration('request.interceptors[0]', /header x-amz-date is .* form yyyyMMdd'T'HHmmss'Z'/),
        {
          headers: `return { host: '127.0.0.1', 'x-amz-date': '${date}' };`,
          interceptors: `return [${signing()}];`,
        },
      );
    }
  });

  test('signWithCloudSigV4: the headers of an interceptor before it count', async () => {
    const { sendOne } = bench();
    const { host } = new URL(bench().api.url);
    const { status } = await sendOne({
      url: '/signed/echo',
      interceptors: `
        const date = new Date().toISOString().slice(0, 19).replace(/[-:]/g, '') + 'Z';
        return [
          { name: 'extendRequest', params: { headers: { host: '${host}', 'x-amz-date': date } } },
          ${signing()}];`,
    });
    assert.equal(status, 200);
  });

  for (const param of ['region', 'serviceName', 'accessKeyId', 'accessKey']) {
    test(`signWithCloudSigV4: params: ${param}, a string`, async () => {
      const { refuse } = bench();
      const request = (value: unknown) => ({
        headers: hostAndDate(),
        interceptors: `return [${signing('signWithCloudSigV4', { [param]: value })}];`,
      });
      const path = `request.interceptors[0].params.${param}`;
      await refuse(badConfiguration(path, /is missing/), request(undefined));
      await refuse(badConfiguration(path, /must be a string/), request(5));
      await refuse(badConfiguration(path, /must be a string that is not empty/), request(''));
    });
  }

  test('signWithCloudSigV4: an unknown param is refused, with the nearest name', async () => {
    const path = 'request.interceptors[0].params.service';
    await bench().refuse(badConfiguration(path, /Known: region, serviceName, accessKeyId, accessKey/), {
      headers: hostAndDate(),
      interceptors: `return [${signing('signWithCloudSigV4', { service: 's3' })}];`,
    });
  });

  test('signWithCloudSigV4: with x-goog-date the algorithm is GOOG4-HMAC-SHA256', async () => {
    const { headers } = await bench().sendOne({
      headers: 'return { host: "127.0.0.1", "x-goog-date": "20260131T235959Z" };',
      interceptors: `return [${signing()}];`,
    });
    assert.match(headers.authorization ?? '', /^GOOG4-HMAC-SHA256 Credential=.*\/goog4_request, /);
    assert.equal(headers.host, '127.0.0.1', 'the host that the script gave is what is sent');
  });

  // ---- extendRequest

  test('extendRequest: parameters (object): adds the given URL parameters', async () => {
    const { url } = await bench().sendOne({
      url: '/echo?a=1',
      interceptors:
        'return [{ name: "extendRequest", params: { parameters: { b: "x y", c: ["1", "2"] } } }];',
    });
    assert.equal(url, '/echo?a=1&b=x%20y&c=1&c=2');
  });

  test('extendRequest: headers (object): adds the given headers', async () => {
    const { headers } = await bench().sendOne({
      interceptors: 'return [{ name: "extendRequest", params: { headers: { "X-A": "a", "X-B": 2 } } }];',
    });
    assert.deepEqual([headers['x-a'], headers['x-b']], ['a', '2']);
  });

  test('extendRequest: existing ones with the same name are overwritten', async () => {
    const { query, headers, rawHeaders } = await bench().sendOne({
      url: '/echo?a=url&b=url',
      parameters: 'return { b: "script", c: "script" };',
      headers: 'return { "X-A": "script", Authorization: "script" };',
      interceptors: `return [{ name: 'extendRequest', params: {
        parameters: { a: 'i', b: 'i', c: 'i' }, headers: { 'x-a': 'i', authorization: 'i' } } }];`,
    });
    assert.deepEqual(
      [...query].toSorted(([a], [b]) => a.localeCompare(b)),
      ['a', 'b', 'c'].map((name) => [name, 'i']),
    );
    assert.deepEqual([headers['x-a'], headers.authorization], ['i', 'i']);
    assert.equal(rawHeaders.filter((name) => name.toLowerCase() === 'x-a').length, 1);
  });

  test('extendRequest: parameters and headers may be left out', async () => {
    const { sendOne } = bench();
    for (const params of ['params: {}', 'params: { parameters: {} }', 'params: { headers: {} }']) {
      const interceptors = `return [{ name: 'extendRequest', ${params} }];`;
      assert.equal((await sendOne({ url: '/echo?a=1', interceptors })).url, '/echo?a=1');
    }
  });

  test('extendRequest: a custom signature scheme, from $ctx.request and crypto', async () => {
    const request = await bench().sendOne({
      url: '/echo?b=2',
      method: 'POST',
      parameters: 'return { a: "x y" };',
      headers: 'return { "X-Client": "shop" };',
      bodyType: 'JSON -> stringify()',
      body: '{"id": 1}',
      interceptors: `
        const { method, url, headers, bodyStr } = $ctx.request;
        const text = [method, url, headers['X-Client'], headers['Content-Type'], bodyStr].join('|');
        const signature = crypto.hmac('sha256', 'key', text);
        return [{ name: 'extendRequest', params: { headers: { 'X-Signature': signature } } }];`,
    });
    const text = [
      'POST',
      `${bench().api.url}/echo?b=2&a=x%20y`,
      'shop',
      'application/json',
      '{"id": 1}',
    ].join('|');
    assert.equal(request.headers['x-signature'], createHmac('sha256', 'key').update(text).digest('hex'));
  });

  test('extendRequest: what is no object of values is refused and named', async () => {
    const { refuse } = bench();
    for (const [params, path, message] of [
      ['{ parameters: "a=1" }', 'parameters', /must be an object/],
      ['{ parameters: { a: {} } }', 'parameters.a', /not an object/],
      ['{ headers: [] }', 'headers', /must be an object/],
      ['{ headers: { A: "a\\nb" } }', 'headers.A', /line break/],
      ['{ header: {} }', 'header', /Did you mean "headers"\?/],
    ] as const) {
      await refuse(badConfiguration(`request.interceptors[0].params.${path}`, message), {
        interceptors: `return [{ name: 'extendRequest', params: ${params} }];`,
      });
    }
  });

  // ---- The shape

  test('each interceptor object has the shape {name, params}', async () => {
    const { refuse } = bench();
    for (const [script, path, message] of [
      ['return {};', 'request.interceptors', /must be an array of \{name, params\}/],
      ['return "extendRequest";', 'request.interceptors', /must be an array/],
      ['return ["extendRequest"];', 'request.interceptors[0]', /must be an object \{name, params\}/],
      ['return [{ params: {} }];', 'request.interceptors[0].name', /must be a string/],
      [
        'return [{ name: "extendRequest", params: [] }];',
        'request.interceptors[0].params',
        /must be an object/,
      ],
      ['return [{ name: "extendRequest", parms: {} }];', 'request.interceptors[0].parms', /mean "params"\?/],
    ] as const) {
      await refuse(badConfiguration(path, message), { interceptors: script });
    }
  });

  test('an unknown name is refused, with the nearest one and the known ones', async () => {
    const message =
      /Did you mean "extendRequest"\? Known: signWithCloudSigV4, signWithAWSSigV4, extendRequest/;
    await bench().refuse(badConfiguration('request.interceptors[1].name', message), {
      interceptors: `return [{ name: 'extendRequest', params: {} }, { name: 'extendRequests', params: {} }];`,
    });
  });
});
