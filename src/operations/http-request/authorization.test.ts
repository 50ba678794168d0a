import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Auth } from '../../model/source.ts';
import { AuthorizationError, createAuthorizer, type AuthorizerParts } from './authorization.ts';
import type { RequestBody } from './body.ts';
import { HeaderList } from './header-list.ts';
import { extendRequest } from './interceptors/extend-request.ts';
import { InterceptorRegistry, type PreparedRequest } from './interceptors/interceptor.ts';
import { signWithCloudSigV4 } from './interceptors/sign-with-cloud-sig-v4.ts';

const interceptors = new InterceptorRegistry([extendRequest, signWithCloudSigV4]);
const parts: AuthorizerParts = {
  tokens: { cache: () => assert.fail('no token was asked for') },
  sourceKey: 'app/source',
  interceptors,
  runScript: () => assert.fail('no script was asked for'),
  signal: new AbortController().signal,
  now: () => Date.UTC(2026, 0, 31, 23, 59, 59),
};

function authorizer(auth: unknown, others: Partial<AuthorizerParts> = {}) {
  return createAuthorizer(Auth.parse(auth), { ...parts, ...others });
}

function request(
  headers: Record<string, unknown> = {},
  { url = 'https://api.example.com/items', method = 'GET', body = null as RequestBody } = {},
): PreparedRequest {
  const list = new HeaderList();
  list.setFromObject(headers, 'script');
  return { method, url, headers: list, body };
}

async function applied(auth: unknown, given = request()): Promise<PreparedRequest> {
  return authorizer(auth).apply(given);
}

function refused(kind: AuthorizationError['kind'], path: string, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof AuthorizationError, String(error));
    assert.equal(error.kind, kind);
    assert.equal(error.path, path);
    assert.match(error.message, message);
    assert.doesNotMatch(error.message, /hush/);
    return true;
  };
}

test('none changes nothing', async () => {
  const none = authorizer({ type: 'none' });
  const given = request({ Accept: 'a' });
  assert.equal(await none.apply(given), given);
  assert.equal(await none.sign(given), given);
  assert.equal(await none.renew(given), false);
  assert.deepEqual([none.secrets, none.credentials], [[], { headers: [], parameters: [] }]);
});

describe('basic', () => {
  test('the example of RFC 7617, and its UTF-8 one', async () => {
    const one = await applied({ type: 'basic', username: 'Aladdin', password: 'open sesame' });
    assert.equal(one.headers.get('authorization'), 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==');
    const other = await applied({ type: 'basic', username: 'test', password: '123£' });
    assert.equal(other.headers.get('authorization'), 'Basic dGVzdDoxMjPCow==');
    assert.equal(other.headers.setBy('authorization'), 'source');
  });

  test('any user and password come back', async () => {
    const text = fc.string({ unit: 'grapheme' });
    await fc.assert(
      fc.asyncProperty(
        text.filter((username) => !username.includes(':')),
        text.filter(Boolean),
        async (username, password) => {
          const { headers } = await applied({ type: 'basic', username, password });
          const [, credentials = ''] = /^Basic (.*)$/.exec(headers.get('Authorization') ?? '') ?? [];
          assert.equal(Buffer.from(credentials, 'base64').toString('utf8'), `${username}:${password}`);
        },
      ),
    );
  });

  test('without a password the username is the secret', async () => {
    const source = { type: 'basic', username: 'sk_live' };
    assert.equal((await applied(source)).headers.get('Authorization'), 'Basic c2tfbGl2ZTo=');
    assert.deepEqual(authorizer(source).secrets, ['sk_live', 'c2tfbGl2ZTo=']);
    const { secrets, credentials } = authorizer({ ...source, password: 'hush' });
    assert.deepEqual(secrets, ['hush', 'c2tfbGl2ZTpodXNo']);
    assert.deepEqual(credentials, { headers: ['Authorization'], parameters: [] });
  });

  test('a colon in the username is refused', () => {
    assert.throws(
      () => authorizer({ type: 'basic', username: 'a:b', password: 'hush' }),
      refused('invalid_auth', 'auth.username', /holds a colon/),
    );
  });
});

test('bearer', async () => {
  const { headers } = await applied({ type: 'bearer', token: 'abc.def' });
  assert.deepEqual([...headers], [{ name: 'Authorization', value: 'Bearer abc.def', setBy: 'source' }]);
  assert.deepEqual(authorizer({ type: 'bearer', token: 'abc.def' }).secrets, ['abc.def']);
  assert.throws(
    () => authorizer({ type: 'bearer', token: 'hush\n' }),
    refused('invalid_auth', 'auth', /line break/),
  );
});

test('an Authorization of the Headers script wins, an empty one, too', async () => {
  for (const auth of [
    { type: 'basic', username: 'a', password: 'b' },
    { type: 'bearer', token: 'source' },
    { type: 'apiKey', name: 'authorization', in: 'header', value: 'source' },
  ]) {
    for (const value of ['Mine', '']) {
      const { headers } = await applied(auth, request({ AUTHORIZATION: value }));
      assert.deepEqual(headers.getAll('authorization'), [value]);
    }
  }
});

describe('apiKey', () => {
  const key = (place: string, name = 'X-Key', value = 'k&y =1') => ({
    type: 'apiKey',
    name,
    in: place,
    value,
  });

  test('in a header', async () => {
    assert.equal((await applied(key('header'))).headers.get('x-key'), 'k&y =1');
    assert.equal((await applied(key('header'), request({ 'x-key': 'mine' }))).headers.get('X-Key'), 'mine');
    assert.deepEqual(authorizer(key('header')).credentials, { headers: ['X-Key'], parameters: [] });
    assert.deepEqual(authorizer(key('header')).secrets, ['k&y =1']);
    assert.throws(
      () => authorizer(key('header', 'X Key')),
      refused('invalid_auth', 'auth', /no header name/),
    );
  });

  test('in the query', async () => {
    const to = async (url: string) => (await applied(key('query'), request({}, { url }))).url;
    assert.equal(await to('https://h/a'), 'https://h/a?X-Key=k%26y%20%3D1');
    assert.equal(await to("https://h/a?b='c'&&d"), "https://h/a?b='c'&d&X-Key=k%26y%20%3D1");
    assert.equal(await to('https://h/a?X%2DKey=mine'), 'https://h/a?X%2DKey=mine');
    assert.deepEqual(authorizer(key('query')).credentials, { headers: [], parameters: ['X-Key'] });
  });

  test('in a cookie, beside those of a script', async () => {
    const cookies = async (headers: Record<string, unknown>) => {
      const sent = await applied(key('cookie', 'sid', 'k=1'), request(headers));
      return sent.headers.getAll('cookie');
    };
    assert.deepEqual(await cookies({}), ['sid=k=1']);
    assert.deepEqual(await cookies({ cookie: 'a=1; b=2' }), ['a=1; b=2; sid=k=1']);
    assert.deepEqual(await cookies({ Cookie: ['a=1', 'b=2;'] }), ['a=1; b=2; sid=k=1']);
    assert.deepEqual(await cookies({ Cookie: '' }), ['sid=k=1']);
    assert.deepEqual(await cookies({ Cookie: 'a=1; sid=mine' }), ['a=1; sid=mine']);
    assert.deepEqual(await cookies({ Cookie: 'SID=1' }), ['SID=1; sid=k=1']);
    assert.deepEqual(authorizer(key('cookie')).credentials, { headers: ['Cookie'], parameters: [] });
    assert.throws(
      () => authorizer(key('cookie', 'sid', 'hush; admin=1')),
      refused('invalid_auth', 'auth.value', /semicolon/),
    );
    assert.throws(
      () => authorizer(key('cookie', 's=d')),
      refused('invalid_auth', 'auth.name', /no cookie name/),
    );
  });
});

test('a missing secret is named when the authorizer is made', () => {
  const sigV4 = { type: 'sigV4', region: 'r', serviceName: 's', accessKeyId: 'i' };
  const missing: [auth: object, path: string][] = [
    [{ type: 'bearer' }, 'auth.token'],
    [{ type: 'apiKey', name: 'a', in: 'header' }, 'auth.value'],
    [sigV4, 'auth.accessKey'],
  ];
  for (const [auth, path] of missing) {
    assert.throws(() => authorizer(auth), refused('incomplete_auth', path, /is missing.*needs it/));
  }
});

describe('sigV4', () => {
  const auth = {
    type: 'sigV4',
    region: 'us-east-1',
    serviceName: 'service',
    accessKeyId: 'AKIDEXAMPLE',
    accessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  };
  const signed = (given: PreparedRequest, others: object = {}) =>
    authorizer({ ...auth, ...others }).sign(given);

  test('get-vanilla of the test suite of Amazon', async () => {
    const at = () => Date.UTC(2015, 7, 30, 12, 36, 0);
    const { headers } = await authorizer(auth, { now: at }).sign(
      request({}, { url: 'https://example.amazonaws.com/' }),
    );
    assert.equal(headers.get('x-amz-date'), '20150830T123600Z');
    assert.equal(headers.get('host'), 'example.amazonaws.com');
    assert.equal(
      headers.get('authorization'),
      'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ' +
        'SignedHeaders=host;x-amz-date, ' +
        'Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    );
  });

  test('the host with its port, and what is there already stays', async () => {
    const url = 'http://h:8080/a';
    assert.equal((await signed(request({}, { url }))).headers.get('host'), 'h:8080');
    const given = request({ host: 'other', 'x-amz-date': '20200102T030405Z' }, { url });
    const { headers } = await signed(given);
    assert.equal(headers.get('Host'), 'other');
    assert.deepEqual(headers.getAll('X-Amz-Date'), ['20200102T030405Z']);
    assert.match(headers.get('authorization') ?? '', /\/20200102\/.*SignedHeaders=host;x-amz-date,/);
    assert.equal(given.headers.has('authorization'), false);
  });

  test('the date of another cloud counts, another date does not', async () => {
    const goog = await signed(request({ 'x-goog-date': '20260131T235959Z' }));
    assert.match(goog.headers.get('authorization') ?? '', /^GOOG4-HMAC-SHA256/);
    assert.equal(goog.headers.has('x-amz-date'), false);
    const acme = await signed(request({ 'x-acme-date': '20260131T235959Z' }));
    assert.equal(acme.headers.has('x-amz-date'), false);
    const order = await signed(request({ 'x-order-date': '2024-01-01' }));
    assert.equal(order.headers.get('x-amz-date'), '20260131T235959Z');
  });

  test('s3 gets the hash of the body, a stream is opened again for sending', async () => {
    const hash = createHash('sha256').update('content').digest('hex');
    let opened = 0;
    const stream: RequestBody = {
      async *open() {
        opened += 1;
        yield Buffer.from('con');
        yield Buffer.from('tent');
      },
    };
    const s3 = { serviceName: 's3' };
    for (const body of ['content', Buffer.from('content'), stream]) {
      const { headers } = await signed(request({}, { method: 'POST', body }), s3);
      assert.equal(headers.get('x-amz-content-sha256'), hash);
      assert.match(headers.get('authorization') ?? '', /SignedHeaders=host;x-amz-content-sha256;x-amz-date,/);
    }
    assert.equal(opened, 1);
    const empty = await signed(request(), s3);
    assert.equal(empty.headers.get('x-amz-content-sha256'), createHash('sha256').digest('hex'));
    const given = await signed(request({ 'X-Amz-Content-Sha256': 'UNSIGNED-PAYLOAD' }, { body: stream }), s3);
    assert.equal(given.headers.get('x-amz-content-sha256'), 'UNSIGNED-PAYLOAD');
    assert.equal(
      (await signed(request(), { serviceName: 'ses' })).headers.has('x-amz-content-sha256'),
      false,
    );
    assert.equal(opened, 1);
  });

  test('an Authorization that is there stays, and nothing is added', async () => {
    const given = request({ authorization: 'Mine' });
    assert.equal(await signed(given), given);
    assert.equal(await authorizer(auth).apply(given), given);
    assert.deepEqual(authorizer(auth).secrets, [auth.accessKey]);
  });
});

describe('customSignature', () => {
  const auth = { type: 'customSignature', script: 'return …', secrets: { signingKey: 'hush' } };
  const hmac = (text: string) => createHmac('sha256', 'hush').update(text).digest('hex');

  test('the script sees the request and the secrets, and its interceptors are applied', async () => {
    const asked: unknown[] = [];
    const custom = authorizer(auth, {
      async runScript(property, text, { method, url }, extraVariables) {
        asked.push([property, text, extraVariables]);
        const signature = hmac(`${method} ${url}`);
        return [
          {
            name: 'extendRequest',
            params: { headers: { 'X-Signature': signature, Accept: 'a' }, parameters: { 's g': 1 } },
          },
        ];
      },
    });
    const given = request({ accept: 'b' }, { url: 'https://h/a?b=1' });
    assert.equal(await custom.apply(given), given);
    const { headers, url } = await custom.sign(given);
    assert.equal(headers.get('x-signature'), hmac('GET https://h/a?b=1'));
    assert.equal(url, 'https://h/a?b=1&s%20g=1');
    assert.deepEqual(asked, [['auth.script', 'return …', { signingKey: 'hush' }]]);
    assert.deepEqual(custom.credentials, { headers: ['authorization', 'x-signature'], parameters: ['s g'] });
    assert.deepEqual(custom.secrets, ['hush']);
    const before = custom.credentials.headers;
    await custom.sign(request({}, { url: 'https://h/other' }));
    assert.equal(custom.credentials.headers, before);
  });

  test('an Authorization that is there stays, and the script does not run', async () => {
    const given = request({ authorization: 'Mine' });
    assert.equal(await authorizer(auth).sign(given), given);
  });

  test('a script that returns nothing signs nothing', async () => {
    const given = request();
    assert.equal(await authorizer(auth, { runScript: async () => null }).sign(given), given);
  });

  test('what it returns wrongly is named as its own', async () => {
    const wrong: [unknown, RegExp][] = [
      ['x', /^auth\.script: what it returned: interceptors: must be an array/],
      [[{ name: 'extendReqest' }], /no interceptor "extendReqest".*Did you mean "extendRequest"/],
      [[{ name: 'extendRequest', params: { headers: { 'X-A': 'hush\n' } } }], /X-A: holds a line break/],
      [[{ name: 'extendRequest', params: { parameters: { a: {} } } }], /parameters\.a: must be a string/],
      [[{ name: 'signWithCloudSigV4', params: {} }], /params\.region: is missing/],
    ];
    for (const [value, message] of wrong) {
      await assert.rejects(
        authorizer(auth, { runScript: async () => value }).sign(request()),
        refused('signature', 'auth.script', message),
      );
    }
    const failure = new Error('auth.script, line 1: x is not defined');
    await assert.rejects(
      authorizer(auth, { runScript: () => Promise.reject(failure) }).sign(request()),
      failure,
    );
  });
});
