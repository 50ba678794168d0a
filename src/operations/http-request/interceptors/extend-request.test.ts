import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HeaderError, HeaderList } from '../header-list.ts';
import { UrlError } from '../url.ts';
import { extendRequest } from './extend-request.ts';
import { InterceptorError, InterceptorRegistry, type PreparedRequest } from './interceptor.ts';
import { signWithCloudSigV4 } from './sign-with-cloud-sig-v4.ts';

const registry = new InterceptorRegistry([signWithCloudSigV4, extendRequest]);

function request(): PreparedRequest {
  const headers = new HeaderList();
  headers.setFromObject({ Accept: 'text/plain', 'X-Old': ['1', '2'] }, 'script');
  return { method: 'POST', url: "http://h/a?k=1&q='x'&k=2", headers, body: 'text' };
}

describe('extendRequest', () => {
  test('adds parameters and headers; existing ones of the same name are overwritten', async () => {
    const given = request();
    const changed = await registry.run(given, [
      {
        name: 'extendRequest',
        params: { parameters: { k: 3, s: 'a b' }, headers: { 'x-old': 'new', 'X-Sig': 1 } },
      },
    ]);
    assert.equal(changed.url, "http://h/a?q='x'&k=3&s=a%20b");
    assert.deepEqual(
      [...changed.headers],
      [
        { name: 'Accept', value: 'text/plain', setBy: 'script' },
        { name: 'x-old', value: 'new', setBy: 'interceptor' },
        { name: 'X-Sig', value: '1', setBy: 'interceptor' },
      ],
    );
    assert.equal(changed.body, 'text');
    assert.equal(changed.method, 'POST');
    assert.equal(given.url, request().url, 'the given request stays as it was');
    assert.equal(given.headers.get('x-old'), '1, 2');
  });

  test('interceptors run in the order given', async () => {
    const extend = (v: string) => ({ name: 'extendRequest', params: { parameters: { v }, headers: { v } } });
    const changed = await registry.run(request(), [extend('first'), extend('second')]);
    assert.equal(changed.headers.get('v'), 'second');
    assert.match(changed.url, /&v=second$/);

    const sign = {
      name: 'signWithCloudSigV4',
      params: { region: 'r', serviceName: 's', accessKeyId: 'A', accessKey: 'S' },
    };
    const prepare = {
      name: 'extendRequest',
      params: { headers: { host: 'h', 'x-amz-date': '20260131T235959Z' } },
    };
    const signed = await registry.run(request(), [prepare, sign]);
    assert.match(signed.headers.get('authorization') ?? '', /SignedHeaders=accept;host;x-amz-date;x-old, /);
    await assert.rejects(
      registry.run(request(), [sign, prepare]),
      /interceptors\[0\]: the header host is missing/,
    );
  });

  test('params may be left out, one or both', async () => {
    for (const params of [undefined, {}, { headers: {} }, { parameters: null }]) {
      const changed = await registry.run(request(), [{ name: 'extendRequest', params }]);
      assert.equal(changed.url, request().url);
      assert.deepEqual([...changed.headers], [...request().headers]);
    }
  });

  test('wrong values name the field', async () => {
    const run = (params: unknown) => registry.run(request(), [{ name: 'extendRequest', params }]);
    await assert.rejects(run({ parameters: { a: {} } }), (error) => {
      assert.ok(error instanceof UrlError);
      assert.equal(error.path, 'interceptors[0].params.parameters.a');
      return true;
    });
    await assert.rejects(run({ headers: { A: 'a\nb' } }), (error) => {
      assert.ok(error instanceof HeaderError);
      assert.equal(error.path, 'interceptors[0].params.headers.A');
      return true;
    });
    await assert.rejects(
      run({ header: {} }),
      /interceptors\[0\]\.params\.header: is not known\. Did you mean "headers"\?/,
    );
  });
});

describe('what the Interceptors script may return', () => {
  test('nothing', async () => {
    const given = request();
    for (const result of [null, undefined, []]) assert.equal(await registry.run(given, result), given);
  });

  const wrong: [result: unknown, kind: InterceptorError['kind'], path: string, message: RegExp][] = [
    [
      { name: 'extendRequest' },
      'invalid_params',
      'interceptors',
      /must be an array of \{name, params\}, not an object/,
    ],
    ['extendRequest', 'invalid_params', 'interceptors', /not a string/],
    [['extendRequest'], 'invalid_params', 'interceptors[0]', /not a string/],
    [[{ params: {} }], 'invalid_params', 'interceptors[0].name', /must be a string/],
    [[{ name: 'extendRequest', params: [] }], 'invalid_params', 'interceptors[0].params', /not an array/],
    [
      [{ name: 'extendRequest', param: {} }],
      'invalid_params',
      'interceptors[0].param',
      /Did you mean "params"\?/,
    ],
    [
      [{ name: 'extendRequest' }, { name: 'signWithAwsSigV4', params: {} }],
      'unknown_interceptor',
      'interceptors[1].name',
      /no interceptor "signWithAwsSigV4"\. Did you mean "signWithAWSSigV4"\? Known: signWithCloudSigV4, signWithAWSSigV4, extendRequest$/,
    ],
    [[{ name: 'toString' }], 'unknown_interceptor', 'interceptors[0].name', /no interceptor "toString"/],
  ];
  for (const [result, kind, path, message] of wrong) {
    test(`refused: ${JSON.stringify(result)}`, async () => {
      await assert.rejects(registry.run(request(), result), (error) => {
        assert.ok(error instanceof InterceptorError);
        assert.equal(error.kind, kind);
        assert.equal(error.path, path);
        assert.match(error.message, message);
        return true;
      });
    });
  }
});
