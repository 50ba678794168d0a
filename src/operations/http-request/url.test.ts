import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { encodeRfc3986, nextUrl, requestTarget, requestUrl, UrlError, withParameters } from './url.ts';

function refused(kind: UrlError['kind'], path: string, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof UrlError, String(error));
    assert.equal(error.kind, kind);
    assert.equal(error.path, path);
    assert.match(error.message, message);
    return true;
  };
}

describe('the URL of a request', () => {
  const kept: [given: string, sent: string][] = [
    ['https://api.example.com', 'https://api.example.com/'],
    ['  HTTPS://API.example.com:443/a\n', 'https://api.example.com/a'],
    ['http://h:8080/a/../b/./c', 'http://h:8080/b/c'],
    ['http://h/a//b', 'http://h/a//b'],
    ['http://h/ä b', 'http://h/%C3%A4%20b'],
    ['http://h/%c3%a4+%2F', 'http://h/%c3%a4+%2F'],
    ['http://h/a?x=1#part?y=2', 'http://h/a?x=1'],
    ['http://h/a?', 'http://h/a'],
    ['http://bücher.example/', 'http://xn--bcher-kva.example/'],
    ['http://[::1]:3000/a', 'http://[::1]:3000/a'],
    // The query keeps its bytes; what a request line cannot carry is encoded.
    [
      "http://h/?$filter=name eq 'x'&f[0]=a|b,c;d:e@/?",
      "http://h/?$filter=name%20eq%20'x'&f[0]=a|b,c;d:e@/?",
    ],
    ['http://h?a=%c3%a4&a=+&&b&=c&%zz', 'http://h/?a=%c3%a4&a=+&&b&=c&%zz'],
    ['http://h/?q="ä<😀>"', 'http://h/?q=%22%C3%A4%3C%F0%9F%98%80%3E%22'],
  ];
  for (const [given, sent] of kept) {
    test(JSON.stringify(given), () => {
      assert.equal(requestUrl(given), sent);
      assert.equal(requestUrl(sent), sent, 'what comes out stays as it is');
    });
  }

  const wrong: [given: unknown, message: RegExp][] = [
    [undefined, /must be a string/],
    ['', /is empty/],
    ['   ', /is empty/],
    ['/customers', /no absolute URL.*http:\/\/ or https:\/\/.*baseUrl/],
    ['api.example.com/a?key=s3cret', /"api.example.com\/a" is no absolute URL/],
    ['ftp://h/a', /has the scheme "ftp:".*http:\/\/ or https:\/\//],
    ['localhost:8080/a', /has the scheme "localhost:"/],
    ['file:///etc/passwd', /has the scheme "file:"/],
    ['javascript:alert(1)', /has the scheme "javascript:"/],
    ['https:/h/a', /has the scheme "https:".*begin with/],
    ['http://', /is no URL/],
    ['http://h:99999/', /is no URL/],
    ['http://a b/', /is no URL/],
    ['http://h/a\nb', /line break/],
    ['http://h/\u0000', /control character/],
    ['http://h/\ud800', /surrogate/],
    ['http://me:s3cret@h/', /do not belong in a URL/],
    ['ftp://me:s3cret@h/', /"ftp:\/\/…@h\/"/],
  ];
  for (const [given, message] of wrong) {
    test(`refused: ${JSON.stringify(given)}`, () => {
      assert.throws(() => requestUrl(given), refused('invalid_url', 'request.url', message));
      assert.throws(
        () => requestUrl(given),
        (error: Error) => !error.message.includes('s3cret'),
      );
    });
  }

  test('below the baseUrl of a source', () => {
    const base = 'https://api.example.com/v1';
    assert.equal(requestUrl('customers?a=1', base), `${base}/customers?a=1`);
    assert.equal(requestUrl('/customers', base), `${base}/customers`);
    assert.equal(requestUrl('/customers', `${base}/`), `${base}/customers`);
    assert.equal(requestUrl('?a=1', base), `${base}?a=1`);
    assert.equal(requestUrl('/', base), `${base}/`);
    assert.equal(requestUrl('/items:batchGet', base), `${base}/items:batchGet`);
    assert.equal(requestUrl('https://other.example/a', base), 'https://other.example/a');
    assert.throws(() => requestUrl('a', `${base}?k=1`), refused('invalid_url', 'baseUrl', /no query/));
    assert.throws(
      () => requestUrl('a', 'api.example.com'),
      refused('invalid_url', 'baseUrl', /no absolute URL/),
    );
    assert.throws(
      () => requestUrl('items:batchGet', base),
      refused('invalid_url', 'request.url', /the scheme "items:"/),
    );
  });

  test('a sender gets the bytes of the query, which new URL() would change', () => {
    assert.deepEqual(requestTarget(requestUrl("https://h:444/a?q='x'#f")), {
      origin: 'https://h:444',
      path: "/a?q='x'",
    });
  });
});

describe('the url of a doWhile', () => {
  const last = 'https://h/v1/items?page=1&size=2';
  const cases: [given: string, sent: string][] = [
    ['?page=2', 'https://h/v1/items?page=2'],
    ["?q='a b'", "https://h/v1/items?q='a%20b'"],
    ['more', 'https://h/v1/more'],
    ['/root', 'https://h/root'],
    ['../x?y', 'https://h/x?y'],
    ['//other.example/a', 'https://other.example/a'],
    ['http://other.example/a', 'http://other.example/a'],
    ['#part', last],
  ];
  for (const [given, sent] of cases) test(given, () => assert.equal(nextUrl(given, last), sent));

  test('refused', () => {
    assert.throws(() => nextUrl('', last), refused('invalid_url', 'doWhile.url', /is empty/));
    assert.throws(() => nextUrl(null, last), refused('invalid_url', 'doWhile.url', /not null/));
    assert.throws(() => nextUrl('next:2', last), refused('invalid_url', 'doWhile.url', /begins with \.\//));
  });

  test('relative references resolve as the URL standard says', () => {
    const segment = fc.constantFrom('a', 'b', '..', '.', '', 'x%20y', 'é');
    fc.assert(
      fc.property(
        fc.array(segment, { minLength: 1, maxLength: 5 }),
        fc.array(segment, { maxLength: 4 }),
        (relative, base) => {
          const reference = relative.join('/');
          fc.pre(reference !== '' && !reference.startsWith('//'));
          const lastUrl = requestUrl(`https://h/${base.join('/')}?q=1`);
          assert.equal(nextUrl(reference, lastUrl), new URL(reference, lastUrl).href);
        },
      ),
    );
  });
});

describe('parameters', () => {
  const at = (url: string, parameters: unknown) => withParameters(requestUrl(url), parameters).url;

  test('values: string, number, boolean, null, array; undefined leaves out', () => {
    assert.equal(
      at('http://h/', {
        a: 'b c',
        n: 1.5,
        big: 1e21,
        t: true,
        f: false,
        none: null,
        list: [1, 'x', null],
        out: undefined,
      }),
      'http://h/?a=b%20c&n=1.5&big=1e%2B21&t=true&f=false&none=&list=1&list=x&list=',
    );
    assert.equal(at('http://h/?a=1', null), 'http://h/?a=1');
    assert.equal(at('http://h/?a=1', undefined), 'http://h/?a=1');
    assert.equal(at('http://h/?a=1&&b', {}), 'http://h/?a=1&&b');
    assert.equal(at('http://h/?a=1', { a: undefined }), 'http://h/?a=1');
  });

  test('only unreserved characters stay bare', () => {
    assert.equal(
      at('http://h/', { "-._~!*'()": 'a+b/ä&=%?#[]@:$,;😀' }),
      'http://h/?-._~%21%2A%27%28%29=a%2Bb%2F%C3%A4%26%3D%25%3F%23%5B%5D%40%3A%24%2C%3B%F0%9F%98%80',
    );
  });

  test('one that is given overrides all of the same decoded name; the rest keeps its bytes and order', () => {
    assert.deepEqual(
      withParameters("http://h/p?z='1'&a%20b=1&%61=2&a+b=3&A=4&a=5&%zz", { 'a b': 'x', a: ['y', 'z'], c: 1 }),
      {
        url: "http://h/p?z='1'&A=4&%zz&a%20b=x&a=y&a=z&c=1",
        overridden: ['a b', 'a'],
      },
    );
    assert.deepEqual(withParameters('http://h/?ids=1&ids=2', { ids: [] }), {
      url: 'http://h/',
      overridden: ['ids'],
    });
    assert.deepEqual(withParameters('http://h/?flag', { flag: null }), {
      url: 'http://h/?flag=',
      overridden: ['flag'],
    });
    assert.equal(
      at('http://h/?__proto__=1', JSON.parse('{"__proto__": 2, "constructor": 3}')),
      'http://h/?__proto__=2&constructor=3',
    );
  });

  const wrong: [given: unknown, path: string, message: RegExp][] = [
    [{ page: { from: 1 } }, 'parameters.page', /not an object/],
    [{ page: NaN }, 'parameters.page', /not the number NaN/],
    [{ page: -Infinity }, 'parameters.page', /finite/],
    [{ page: 5n }, 'parameters.page', /not a bigint/],
    [{ page: () => 1 }, 'parameters.page', /not a function/],
    [{ ids: [1, [2]] }, 'parameters.ids[1]', /not an array/],
    [{ ids: [undefined] }, 'parameters.ids[0]', /not undefined/],
    [{ q: '\udc00' }, 'parameters.q', /surrogate/],
    [{ '': 1 }, 'parameters', /without a name/],
    [['a'], 'parameters', /must be an object.*not an array/],
    ['a=1', 'parameters', /not a string/],
  ];
  for (const [given, path, message] of wrong) {
    test(`refused: ${path} ${String(message)}`, () => {
      assert.throws(() => withParameters('http://h/', given), refused('invalid_parameter', path, message));
    });
  }

  test('arrive as they were given, beside those of the URL', () => {
    const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 6 });
    const value = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
    );
    fc.assert(
      fc.property(
        fc.dictionary(name, fc.oneof(value, fc.array(value))),
        fc.array(fc.tuple(name, fc.string({ unit: 'grapheme' }))),
        (given, inUrl) => {
          const url = requestUrl(`http://h/?${new URLSearchParams(inUrl).toString()}`);
          const { url: sent, overridden } = withParameters(url, given);
          const expected = inUrl.filter(([key]) => !Object.hasOwn(given, key));
          for (const [key, item] of Object.entries(given)) {
            for (const one of [item].flat()) expected.push([key, String(one)]);
          }
          assert.deepEqual([...new URL(sent).searchParams], expected);
          assert.deepEqual(
            overridden,
            Object.keys(given).filter((key) => inUrl.some(([other]) => other === key)),
          );
          assert.equal(requestUrl(sent), sent);
          assert.equal(new URL(sent).href.replaceAll('%27', "'"), sent.replaceAll('%27', "'"));
        },
      ),
    );
  });

  test('encodeRfc3986 is undone by decodeURIComponent', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const encoded = encodeRfc3986(text);
        assert.match(encoded, /^(?:[A-Za-z0-9\-._~]|%[0-9A-F]{2})*$/);
        assert.equal(decodeURIComponent(encoded), text);
      }),
    );
  });
});
