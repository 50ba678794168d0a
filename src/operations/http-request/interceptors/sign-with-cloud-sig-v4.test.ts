import assert from 'node:assert/strict';
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Sha256 } from '@aws-crypto/sha256-js';
import { SignatureV4 } from '@smithy/signature-v4';
import fc from 'fast-check';
import type { RequestBody } from '../body.ts';
import { HeaderList } from '../header-list.ts';
import { encodeRfc3986, requestTarget, requestUrl, withParameters } from '../url.ts';
import { InterceptorError, InterceptorRegistry, type PreparedRequest } from './interceptor.ts';
import { signWithCloudSigV4, type SigV4Params } from './sign-with-cloud-sig-v4.ts';

const registry = new InterceptorRegistry([signWithCloudSigV4]);

function prepared(
  method: string,
  url: string,
  headers: Record<string, unknown>,
  body: RequestBody = null,
): PreparedRequest {
  const list = new HeaderList();
  list.setFromObject(headers, 'script');
  return { method, url: requestUrl(url), headers: list, body };
}

function sign(request: PreparedRequest, params: SigV4Params): Promise<PreparedRequest> {
  return registry.run(request, [{ name: 'signWithCloudSigV4', params }]);
}

async function signatureOf(request: PreparedRequest, params: SigV4Params): Promise<string | undefined> {
  const { headers } = await sign(request, params);
  return /Signature=([0-9a-f]{64})$/.exec(headers.get('authorization') ?? '')?.[1];
}

/** The other implementation. It takes the query decoded, and for s3 the path as its client encodes it. */
async function signedByTheSdk(
  request: { method: string; pathname: string; query: [string, string][]; body: string | Uint8Array | null },
  headers: Iterable<{ name: string; value: string }>,
  params: SigV4Params,
): Promise<string | undefined> {
  const record: Record<string, string> = {};
  for (const { name, value } of headers) {
    const key = name.toLowerCase();
    record[key] = key in record ? `${record[key]},${value.trim()}` : value;
  }
  const query = Object.create(null) as Record<string, string[]>;
  for (const [name, value] of request.query) query[name] = [...(query[name] ?? []), value];
  const signer = new SignatureV4({
    region: params.region,
    service: params.serviceName,
    credentials: { accessKeyId: params.accessKeyId, secretAccessKey: params.accessKey },
    sha256: Sha256,
    applyChecksum: false,
    uriEscapePath: params.serviceName !== 's3',
  });
  const date = (record['x-amz-date'] ?? '').replace(
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/,
    '$1-$2-$3T$4:$5:$6Z',
  );
  const signed = await signer.sign(
    {
      method: request.method,
      protocol: 'https:',
      hostname: 'unused',
      path: request.pathname,
      query,
      headers: record,
      body: request.body ?? undefined,
    },
    { signingDate: new Date(date) },
  );
  return signed.headers.authorization;
}

describe('published vectors', () => {
  // aws-sig-v4-test-suite.
  const suite: SigV4Params = {
    region: 'us-east-1',
    serviceName: 'service',
    accessKeyId: 'AKIDEXAMPLE',
    accessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  };
  const suiteHeaders = { Host: 'example.amazonaws.com', 'X-Amz-Date': '20150830T123600Z' };
  const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const unreserved = '-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  const cases: [name: string, PreparedRequest, signature: string][] = [
    [
      'get-vanilla',
      prepared('GET', 'https://example.amazonaws.com/', suiteHeaders),
      '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    ],
    [
      'get-vanilla-query-order-key-case',
      prepared('GET', 'https://example.amazonaws.com/?Param2=value2&Param1=value1', suiteHeaders),
      'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
    ],
    [
      'get-unreserved',
      prepared('GET', `https://example.amazonaws.com/${unreserved}`, suiteHeaders),
      '07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f',
    ],
    [
      'post-vanilla',
      prepared('POST', 'https://example.amazonaws.com/', suiteHeaders),
      '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
    ],
    [
      'post-x-www-form-urlencoded',
      prepared('POST', 'https://example.amazonaws.com/', { ...form, ...suiteHeaders }, 'Param1=value1'),
      'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
    ],
  ];
  for (const [name, request, signature] of cases) {
    test(name, async () => assert.equal(await signatureOf(request, suite), signature));
  }

  test('the ListUsers example of the IAM documentation', async () => {
    const headers = {
      Host: 'iam.amazonaws.com',
      'Content-Type': 'application/x-www-form-urlencoded; charset=utf-8',
      'X-Amz-Date': '20150830T123600Z',
    };
    const request = prepared(
      'GET',
      'https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08',
      headers,
    );
    const { headers: signed } = await sign(request, { ...suite, serviceName: 'iam' });
    assert.equal(
      signed.get('Authorization'),
      'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, ' +
        'SignedHeaders=content-type;host;x-amz-date, ' +
        'Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7',
    );
  });

  // The examples of the S3 documentation ("Signature Calculations: Transferring Payload in a Single Chunk").
  const s3: SigV4Params = {
    region: 'us-east-1',
    serviceName: 's3',
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    accessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  };
  const s3Headers = {
    Host: 'examplebucket.s3.amazonaws.com',
    'x-amz-date': '20130524T000000Z',
    'x-amz-content-sha256': sha256(''),
  };
  const base = 'https://examplebucket.s3.amazonaws.com';
  const s3Cases: [name: string, PreparedRequest, signature: string][] = [
    [
      'GET object with a range',
      prepared('GET', `${base}/test.txt`, { ...s3Headers, Range: 'bytes=0-9' }),
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    ],
    [
      'GET bucket lifecycle, a parameter without a value',
      prepared('GET', `${base}/?lifecycle`, s3Headers),
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    ],
    [
      'GET bucket, list objects',
      prepared('GET', `${base}/?max-keys=2&prefix=J`, s3Headers),
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    ],
  ];
  for (const [name, request, signature] of s3Cases) {
    test(`S3: ${name}`, async () => assert.equal(await signatureOf(request, s3), signature));
  }

  test('S3: PUT object, with a reserved character bare in the path', async () => {
    const content = 'Welcome to Amazon S3.';
    const headers = {
      ...s3Headers,
      Date: 'Fri, 24 May 2013 00:00:00 GMT',
      'x-amz-content-sha256': sha256(content),
      'x-amz-storage-class': 'REDUCED_REDUNDANCY',
    };
    for (const key of ['test$file.text', 'test%24file.text']) {
      const signature = await signatureOf(prepared('PUT', `${base}/${key}`, headers, content), s3);
      assert.equal(signature, '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd');
    }
  });
});

function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

const credentials = fc.record({
  region: fc.constantFrom('us-east-1', 'eu-central-1'),
  accessKeyId: fc.stringMatching(/^[A-Z0-9]{16,20}$/),
  accessKey: fc.string({ minLength: 1, unit: 'grapheme' }),
});
const oddText = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...'abz09-._~ !"$%&\'()*+,/:;=?@[]^`{|}\\#éü日😀'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 8,
});
const headerValue = fc.stringMatching(/^[!-~]([ -~\t]{0,12}[!-~])?$/);
const signedHeaderNames = fc.constantFrom(
  'Content-Type',
  'X-Amz-Meta-Note',
  'x-custom',
  'Accept',
  'x-amz-security-token',
);
const unsignedHeaderNames = fc.constantFrom(
  'User-Agent',
  'Cache-Control',
  'Proxy-Thing',
  'Sec-Fetch-Mode',
  'Expect',
);
const content = fc.oneof(
  fc.constant(null),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.uint8Array({ maxLength: 40 }),
);
const generated = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD'),
  segments: fc.array(fc.oneof(oddText, fc.constantFrom('', '.', '..', 'a b', '%2F', '%41')), {
    maxLength: 5,
  }),
  // Repeated names and empty values on purpose.
  query: fc.array(fc.tuple(fc.oneof(fc.constantFrom('a', 'a-', 'A', 'b'), oddText), oddText), {
    maxLength: 6,
  }),
  headers: fc.uniqueArray(
    fc.tuple(
      fc.oneof(signedHeaderNames, unsignedHeaderNames),
      fc.array(headerValue, { minLength: 1, maxLength: 3 }),
    ),
    {
      selector: ([name]) => name.toLowerCase(),
    },
  ),
  body: content,
  hashed: fc.constantFrom('none', 'hash', 'unsigned'),
  date: fc.date({ min: new Date('1970-01-02'), max: new Date('2099-12-31'), noInvalidDate: true }),
  credentials,
});

function amzDate(date: Date): string {
  return `${date.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

describe('byte for byte as the SDK signs', () => {
  for (const serviceName of ['s3', 'execute-api']) {
    test(`service ${serviceName}`, async () => {
      await fc.assert(
        fc.asyncProperty(generated, async (input) => {
          const pairs = input.query.filter(([name]) => name !== '');
          const grouped = new Map<string, string[]>();
          for (const [name, value] of pairs) grouped.set(name, [...(grouped.get(name) ?? []), value]);
          const keyPath = `/${input.segments.map(encodeRfc3986).join('/')}`;
          const { url } = withParameters(
            requestUrl(`https://host.example${keyPath}`),
            Object.fromEntries(grouped),
          );
          const headers: Record<string, unknown> = {
            Host: 'host.example:8443',
            'X-Amz-Date': amzDate(input.date),
            ...Object.fromEntries(input.headers),
          };
          if (input.hashed === 'hash') headers['X-Amz-Content-Sha256'] = sha256(input.body ?? '');
          if (input.hashed === 'unsigned') headers['X-Amz-Content-Sha256'] = 'UNSIGNED-PAYLOAD';
          const params = { ...input.credentials, serviceName };
          const request = { ...prepared(input.method, 'https://unused', headers, input.body), url };

          const signed = await sign(request, params);
          const expected = await signedByTheSdk(
            { method: input.method, pathname: new URL(url).pathname, query: pairs, body: input.body },
            request.headers,
            params,
          );
          assert.equal(signed.headers.get('authorization'), expected);

          const { body } = input;
          if (body === null) return;
          const streamed = await sign({ ...request, body: { open: () => inTwo(Buffer.from(body)) } }, params);
          assert.equal(streamed.headers.get('authorization'), expected);
        }),
        { numRuns: 400 },
      );
    });
  }

  async function* inTwo(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    const half = bytes.length >> 1;
    yield bytes.subarray(0, half);
    yield bytes.subarray(half);
  }

  test('paths with reserved characters bare: encoded once more, but once only for s3', async () => {
    const headers = { host: 'h', 'x-amz-date': '20150830T123600Z' };
    const params = { region: 'r', serviceName: 'es', accessKeyId: 'A', accessKey: 'S' };
    const request = prepared('GET', "https://h/a//b,c(1)'/%c3%a9*/", headers);
    const sent = new URL(request.url).pathname;
    const asSdk = (pathname: string, serviceName: string) =>
      signedByTheSdk({ method: 'GET', pathname, query: [], body: null }, request.headers, {
        ...params,
        serviceName,
      });
    assert.equal((await sign(request, params)).headers.get('authorization'), await asSdk(sent, 'es'));
    assert.equal(
      (await sign(request, { ...params, serviceName: 's3' })).headers.get('authorization'),
      await asSdk('/a//b%2Cc%281%29%27/%C3%A9%2A/', 's3'),
    );
  });

  test('a plus sign in the URL: a space for s3, itself for other services', async () => {
    const headers = { host: 'h', 'x-amz-date': '20150830T123600Z' };
    const params = { region: 'r', accessKeyId: 'A', accessKey: 'S' };
    const request = prepared('GET', 'https://h/?q=a+b', headers);
    for (const [serviceName, value] of [
      ['s3', 'a b'],
      ['es', 'a+b'],
    ] as const) {
      const expected = await signedByTheSdk(
        { method: 'GET', pathname: '/', query: [['q', value]], body: null },
        request.headers,
        { ...params, serviceName },
      );
      assert.equal((await sign(request, { ...params, serviceName })).headers.get('authorization'), expected);
    }
  });
});

test('the signature replaces an Authorization of the source and leaves the given request as it was', async () => {
  const request = prepared('GET', 'https://h/', { host: 'h', 'x-amz-date': '20150830T123600Z' });
  request.headers.set('authorization', 'Bearer x', 'source');
  const signed = await registry.run(request, [
    { name: 'signWithAWSSigV4', params: { region: 'r', serviceName: 's', accessKeyId: 'A', accessKey: 'S' } },
  ]);
  assert.equal(request.headers.get('Authorization'), 'Bearer x');
  assert.match(
    signed.headers.get('Authorization') ?? '',
    /^AWS4-HMAC-SHA256 Credential=A\/20150830\/r\/s\/aws4_request, /,
  );
  assert.equal(signed.headers.setBy('Authorization'), 'interceptor');
  assert.equal(signed.headers.getAll('Authorization').length, 1);
});

describe('other clouds', () => {
  const params = { region: 'auto', serviceName: 'storage', accessKeyId: 'GOOG1E', accessKey: 'secret' };

  /** The algorithm as Google documents it, written down once more. */
  function googleSignature(canonicalRequest: string, date: string): string {
    const day = date.slice(0, 8);
    const scope = `${day}/auto/storage/goog4_request`;
    const key = [day, 'auto', 'storage', 'goog4_request'].reduce<string | Buffer>(
      (key, part) => createHmac('sha256', key).update(part).digest(),
      'GOOG4secret',
    );
    return createHmac('sha256', key)
      .update(`GOOG4-HMAC-SHA256\n${date}\n${scope}\n${sha256(canonicalRequest)}`)
      .digest('hex');
  }

  test('x-goog-date: GOOG4-HMAC-SHA256', async () => {
    const date = '20260131T235959Z';
    const request = prepared('PUT', 'https://storage.googleapis.com/bucket/a%20b?x=1', {
      Host: 'storage.googleapis.com',
      'x-goog-date': date,
      'x-goog-content-sha256': 'UNSIGNED-PAYLOAD',
    });
    const canonical = [
      'PUT',
      '/bucket/a%20b',
      'x=1',
      'host:storage.googleapis.com',
      'x-goog-content-sha256:UNSIGNED-PAYLOAD',
      `x-goog-date:${date}`,
      '',
      'host;x-goog-content-sha256;x-goog-date',
      'UNSIGNED-PAYLOAD',
    ].join('\n');
    assert.equal(
      (await sign(request, params)).headers.get('authorization'),
      'GOOG4-HMAC-SHA256 Credential=GOOG1E/20260131/auto/storage/goog4_request, ' +
        `SignedHeaders=host;x-goog-content-sha256;x-goog-date, Signature=${googleSignature(canonical, date)}`,
    );
  });

  test('any other x-<word>-date is the date of AWS4-HMAC-SHA256', async () => {
    const request = prepared('GET', 'https://h/', { host: 'h', 'X-Acme-Date': '20260131T235959Z' });
    assert.match(
      (await sign(request, params)).headers.get('authorization') ?? '',
      /^AWS4-HMAC-SHA256 Credential=GOOG1E\/20260131\/auto\/storage\/aws4_request, SignedHeaders=host;x-acme-date, /,
    );
  });

  test('x-amz-date goes before the others; two unknown ones are ambiguous', async () => {
    const date = '20260131T235959Z';
    const amazon = prepared('GET', 'https://h/', {
      host: 'h',
      'x-acme-date': 'soon',
      'x-goog-date': date,
      'x-amz-date': date,
    });
    assert.match((await sign(amazon, params)).headers.get('authorization') ?? '', /^AWS4/);
    const unknown = prepared('GET', 'https://h/', { host: 'h', 'x-acme-date': date, 'x-other-date': date });
    await assert.rejects(sign(unknown, params), /x-acme-date and x-other-date/);
  });
});

describe('refused before anything is sent', () => {
  const params = { region: 'r', serviceName: 's', accessKeyId: 'A', accessKey: 'top-secret' };
  const good = { host: 'h', 'x-amz-date': '20150830T123600Z' };
  const requests: [name: string, headers: Record<string, unknown>, message: RegExp][] = [
    ['no host', { 'x-amz-date': good['x-amz-date'] }, /the header host is missing/],
    ['a URL as host', { ...good, host: 'https://h' }, /the header host is "https:\/\/h"/],
    ['two hosts', { ...good, host: ['h', 'i'] }, /the header host is "h, i"/],
    ['no date', { host: 'h', date: 'Mon, 01 Jan 2024 00:00:00 GMT' }, /the header x-amz-date is missing/],
    [
      'a date with dashes',
      { ...good, 'x-amz-date': '2015-08-30T12:36:00Z' },
      /x-amz-date .*yyyyMMdd'T'HHmmss'Z'/,
    ],
    [
      'a month 13',
      { ...good, 'x-amz-date': '20151330T123600Z' },
      /the header x-amz-date is "20151330T123600Z"/,
    ],
    ['30 February', { ...good, 'x-amz-date': '20150230T123600Z' }, /the header x-amz-date/],
    ['milliseconds', { ...good, 'x-amz-date': '20150830T123600.000Z' }, /the header x-amz-date/],
    [
      'malformed date of another cloud',
      { host: 'h', 'x-goog-date': 'now' },
      /the header x-goog-date is "now"/,
    ],
  ];
  for (const [name, headers, message] of requests) {
    test(name, async () => {
      await assert.rejects(sign(prepared('GET', 'https://h/', headers), params), (error) => {
        assert.ok(error instanceof InterceptorError);
        assert.equal(error.kind, 'request_not_ready');
        assert.equal(error.path, 'interceptors[0]');
        assert.match(error.message, message);
        return true;
      });
    });
  }

  const wrongParams: [name: string, params: unknown, path: string, message: RegExp][] = [
    ['missing', { ...params, region: undefined }, 'interceptors[0].params.region', /is missing/],
    ['empty', { ...params, serviceName: '' }, 'interceptors[0].params.serviceName', /not empty/],
    ['a number', { ...params, accessKeyId: 5 }, 'interceptors[0].params.accessKeyId', /must be a string/],
    ['an object', { ...params, accessKey: {} }, 'interceptors[0].params.accessKey', /must be a string/],
    [
      'unknown',
      { ...params, servicename: 's3' },
      'interceptors[0].params.servicename',
      /Did you mean "serviceName"\?/,
    ],
    ['no params at all', undefined, 'interceptors[0].params.region', /is missing/],
  ];
  for (const [name, given, path, message] of wrongParams) {
    test(`params: ${name}`, () => {
      assert.throws(
        () => registry.prepare([{ name: 'signWithCloudSigV4', params: given }]),
        (error) => {
          assert.ok(error instanceof InterceptorError);
          assert.equal(error.kind, 'invalid_params');
          assert.equal(error.path, path);
          assert.match(error.message, message);
          assert.doesNotMatch(error.message, /top-secret/);
          return true;
        },
      );
    });
  }
});

interface Received {
  status: number;
  body: Buffer;
}

/** Sends the request as it was prepared: the bytes of the path and the headers are not touched. */
function send(request: PreparedRequest, port: number): Promise<Received> {
  return new Promise((resolve, reject) => {
    const outgoing = http.request(
      {
        port,
        host: '127.0.0.1',
        method: request.method,
        path: requestTarget(request.url).path,
        headers: request.headers.toFlatArray(),
        agent: false,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
        response.on('error', reject);
      },
    );
    outgoing.on('error', reject);
    if (typeof request.body === 'string' || request.body instanceof Uint8Array) outgoing.write(request.body);
    outgoing.end();
  });
}

function listening(server: http.Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

describe('over real HTTP, a server verifies what arrived', () => {
  const params = { region: 'eu-central-1', serviceName: 's3', accessKeyId: 'AKID', accessKey: 'secret' };
  let server: http.Server;
  let port: number;

  before(async () => {
    server = http.createServer((request, response) => {
      verify(request).then(
        (valid) => response.writeHead(valid ? 200 : 403).end(),
        (error: unknown) => response.writeHead(500).end(String(error)),
      );
    });
    port = await listening(server);
  });
  after(() => server.close());

  /** Signs the received bytes anew with the SDK; only the headers that the client says it signed. */
  async function verify(request: http.IncomingMessage): Promise<boolean> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const authorization = request.headers.authorization ?? '';
    const names = /SignedHeaders=([^,]*)/.exec(authorization)?.[1]?.split(';') ?? [];
    const headers = [];
    for (let index = 0; index < request.rawHeaders.length; index += 2) {
      const name = request.rawHeaders[index] ?? '';
      if (names.includes(name.toLowerCase()))
        headers.push({ name, value: request.rawHeaders[index + 1] ?? '' });
    }
    const [pathname = '', search = ''] = (request.url ?? '').split('?');
    const decodedPath = pathname.split('/').map(decodeURIComponent);
    const expected = await signedByTheSdk(
      {
        method: request.method ?? '',
        pathname: decodedPath.map(encodeRfc3986).join('/'),
        query: [...new URLSearchParams(search)],
        body: Buffer.concat(chunks),
      },
      headers,
      params,
    );
    return authorization === expected;
  }

  function objectPut(key: string, body: string | Uint8Array): PreparedRequest {
    const { url } = withParameters(requestUrl(`http://127.0.0.1:${port}/bucket/${key}?acl&x=1&x=0+2`), {
      'p q': ['', 'ä&='],
    });
    const headers = {
      Host: `127.0.0.1:${port}`,
      'x-amz-date': amzDate(new Date()),
      'x-amz-meta-a': ['b   c', 'd'],
    };
    return { ...prepared('PUT', 'http://unused', headers, body), url };
  }

  for (const key of ['plain.txt', "a%20b/(1)~!*'$.txt", 'a//b/ä.txt', '%C3%A4+%2B']) {
    test(`accepted: ${key}`, async () => {
      const signed = await sign(objectPut(key, 'content ä'), params);
      assert.equal((await send(signed, port)).status, 200);
      // What is changed after signing does not pass: the server can tell.
      assert.equal((await send({ ...signed, body: 'other' }, port)).status, 403);
      assert.equal((await send({ ...signed, method: 'POST' }, port)).status, 403);
      assert.equal((await send({ ...signed, url: `${signed.url}&more=1` }, port)).status, 403);
    });
  }
});

describe('an S3 server', () => {
  // It checks the form, the key id and the time of a V4 request; the signature itself it does not calculate.
  const S3rver = createRequire(import.meta.url)('s3rver') as new (options: object) => {
    run(): Promise<AddressInfo>;
    close(): Promise<void>;
  };
  const params = { region: 'us-east-1', serviceName: 's3', accessKeyId: 'S3RVER', accessKey: 'S3RVER' };
  let server: InstanceType<typeof S3rver>;
  let directory: string;
  let port: number;

  before(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'millrace-s3-'));
    server = new S3rver({
      port: 0,
      address: '127.0.0.1',
      silent: true,
      directory,
      configureBuckets: [{ name: 'bucket' }],
    });
    ({ port } = await server.run());
  });
  after(async () => {
    await server.close();
    await rm(directory, { recursive: true });
  });

  function object(method: string, body: Uint8Array | null, date = new Date()): PreparedRequest {
    return prepared(
      method,
      `http://127.0.0.1:${port}/bucket/folder/a%20b%20%C3%A4.bin`,
      {
        Host: `127.0.0.1:${port}`,
        'x-amz-date': amzDate(date),
        'x-amz-content-sha256': sha256(body ?? ''),
        ...(body && { 'Content-Length': body.length }),
      },
      body,
    );
  }

  test('takes an object and gives it back', async () => {
    const content = Buffer.from(randomUUID().repeat(100));
    assert.equal((await send(await sign(object('PUT', content), params), port)).status, 200);
    const received = await send(await sign(object('GET', null), params), port);
    assert.equal(received.status, 200);
    assert.deepEqual(received.body, content);
  });

  test('refuses an unknown key id and an old date', async () => {
    const unknown = await send(await sign(object('GET', null), { ...params, accessKeyId: 'NOBODY' }), port);
    assert.equal(unknown.status, 403);
    assert.match(String(unknown.body), /InvalidAccessKeyId/);
    const old = await send(await sign(object('GET', null, new Date(Date.now() - 3_600_000)), params), port);
    assert.equal(old.status, 403);
    assert.match(String(old.body), /RequestTimeTooSkewed/);
  });
});
