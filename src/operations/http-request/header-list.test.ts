import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { HeaderError, HeaderList } from './header-list.ts';

function listOf(headers: unknown): HeaderList {
  const list = new HeaderList();
  list.setFromObject(headers, 'script');
  return list;
}

describe('header list', () => {
  test('values of a script: string, number, boolean, array; null and undefined leave out', () => {
    const list = listOf({
      Accept: 'a',
      'X-N': 5,
      'X-B': false,
      'X-List': ['a', 1, true],
      'X-Null': null,
      'X-No': undefined,
      'X-Empty': '',
    });
    assert.deepEqual(list.toFlatArray(), [
      'Accept',
      'a',
      'X-N',
      '5',
      'X-B',
      'false',
      'X-List',
      'a',
      'X-List',
      '1',
      'X-List',
      'true',
      'X-Empty',
      '',
    ]);
    assert.equal(list.get('x-list'), 'a, 1, true');
    assert.deepEqual(list.getAll('X-LIST'), ['a', '1', 'true']);
    assert.equal(list.get('x-null'), undefined);
    assert.ok(list.has('x-EMPTY'));
    assert.deepEqual(listOf(null).toFlatArray(), []);
    assert.deepEqual(listOf(undefined).toFlatArray(), []);
  });

  test('a later one overrides without case, in the place of the first, and says whose it was', () => {
    const list = new HeaderList();
    list.set('Authorization', 'Bearer source', 'source');
    list.set('X-A', ['1', '2'], 'source');
    list.set('X-B', 'b', 'source');
    const overridden = list.setFromObject(
      { authorization: 'Bearer script', 'x-a': 'one', 'X-New': 'n' },
      'script',
    );
    assert.deepEqual(overridden, [
      { name: 'authorization', setBy: 'source' },
      { name: 'x-a', setBy: 'source' },
    ]);
    assert.deepEqual(
      [...list],
      [
        { name: 'authorization', value: 'Bearer script', setBy: 'script' },
        { name: 'x-a', value: 'one', setBy: 'script' },
        { name: 'X-B', value: 'b', setBy: 'source' },
        { name: 'X-New', value: 'n', setBy: 'script' },
      ],
    );
    assert.equal(list.setBy('AUTHORIZATION'), 'script');
    assert.equal(list.setBy('nobody'), undefined);
    list.setFromObject({ Authorization: null, 'X-B': [] }, 'interceptor');
    assert.equal(list.get('authorization'), 'Bearer script', 'null leaves the other one in place');
    assert.ok(!list.has('x-b'), 'an empty array takes it away');
  });

  test('a clone goes its own way', () => {
    const list = listOf({ A: '1' });
    const copy = list.clone();
    copy.set('a', '2', 'interceptor');
    assert.equal(list.get('a'), '1');
    assert.equal(copy.get('a'), '2');
  });

  const wrong: [headers: unknown, path: string, message: RegExp][] = [
    [{ 'X-A': 'a\r\nX-Evil: 1' }, 'headers.X-A', /line break/],
    [{ 'X-A': 'a\nb' }, 'headers.X-A', /line break/],
    [{ 'X-A': ['fine', 'a\u0000'] }, 'headers.X-A', /NUL/],
    [{ 'X-A': 'Žluťoučký' }, 'headers.X-A', /beyond U\+00FF/],
    [{ 'X-A': {} }, 'headers.X-A', /not an object/],
    [{ 'X-A': NaN }, 'headers.X-A', /finite/],
    [{ 'X-A': [null] }, 'headers.X-A[0]', /not null/],
    [{ 'X A': 'a' }, 'headers', /"X A" is no header name/],
    [{ '': 'a' }, 'headers', /"" is no header name/],
    [{ 'X-A:': 'a' }, 'headers', /"X-A:" is no header name/],
    [{ 'X\r\nEvil': 'a' }, 'headers', /"X\\r\\nEvil" is no header name/],
    [{ Ünicode: 'a' }, 'headers', /no header name/],
    [{ Accept: 'a', accept: 'b' }, 'headers.accept', /the same header as "Accept"/],
    ['Accept: a', 'headers', /not a string/],
    [[['Accept', 'a']], 'headers', /not an array/],
  ];
  for (const [headers, path, message] of wrong) {
    test(`refused: ${JSON.stringify(headers)}`, () => {
      assert.throws(
        () => listOf(headers),
        (error) => {
          assert.ok(error instanceof HeaderError);
          assert.equal(error.kind, 'invalid_header');
          assert.equal(error.path, path);
          assert.match(error.message, message);
          return true;
        },
      );
    });
  }

  test('what it accepts, HTTP carries', async () => {
    const list = listOf({
      'X-Latin': 'caf\u00e9',
      'X-Tab': 'a\tb',
      "!#$%&'*+.^_`|~": 'odd',
      'X-Twice': ['1', '2'],
      'X-Empty': '',
    });
    const server = http.createServer((request, response) => response.end(JSON.stringify(request.rawHeaders)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const raw = await new Promise<string[]>((resolve, reject) => {
        http
          .get(
            { port, host: '127.0.0.1', headers: ['Host', 'h', ...list.toFlatArray()], agent: false },
            (response) => {
              response
                .setEncoding('utf8')
                .on('data', (text: string) => resolve(JSON.parse(text) as string[]));
            },
          )
          .on('error', reject);
      });
      assert.deepEqual(raw.slice(2, 2 + list.toFlatArray().length), list.toFlatArray());
    } finally {
      server.close();
    }
  });
});
