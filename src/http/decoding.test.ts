import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { charsetOf, readBytes, readUtf8, toUtf8 } from './charset.ts';
import { decoded } from './content-coding.ts';
import * as support from './testing.ts';

const { bodyOf, failure, get, httpClient, httpServer, sendOptions } = support;

const text = Buffer.from('Grüße '.repeat(50_000));
const codings: [string, (data: Buffer) => Buffer][] = [
  ['gzip', zlib.gzipSync],
  ['x-gzip', zlib.gzipSync],
  ['deflate', zlib.deflateSync],
  ['deflate', zlib.deflateRawSync],
  ['br', (data) => zlib.brotliCompressSync(data, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 } })],
  ['zstd', zlib.zstdCompressSync],
];

async function answering(t: TestContext, headers: Record<string, string>, body: Buffer) {
  const url = await httpServer(t, (_request, response) => {
    response.writeHead(200, headers).end(body);
  });
  return httpClient(t).send(get(url), sendOptions());
}

async function* pieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size);
}

test('each coding, and several in a row', async (t) => {
  for (const [name, encode] of codings) {
    const response = await answering(t, { 'Content-Encoding': name }, encode(text));
    assert.ok(text.equals(await readBytes(response, 1e6)), name);
  }
  const twice = await answering(
    t,
    { 'Content-Encoding': 'gzip, identity, BR' },
    zlib.brotliCompressSync(zlib.gzipSync(text)),
  );
  assert.ok(text.equals(await readBytes(twice, 1e6)));
});

test('a stream that is cut short anywhere is an error, never a shorter body', async () => {
  for (const [name, encode] of codings) {
    const whole = encode(Buffer.from('some text, some text, some more text'));
    for (let length = 1; length < whole.length; length++) {
      const body = decoded(pieces(whole.subarray(0, length), 7), name);
      await assert.rejects(bodyOf(body), failure('truncated'), `${name} ${length} of ${whole.length}`);
    }
  }
});

test('half a gzip over HTTP', async (t) => {
  const half = zlib.gzipSync(text).subarray(0, 200);
  const response = await answering(t, { 'Content-Encoding': 'gzip' }, half);
  await assert.rejects(readBytes(response, 1e6), failure('truncated', /gzip/));
});

test('any bytes in any pieces come out as they went in', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 2000 }),
      fc.constantFrom(...codings),
      fc.integer({ min: 1, max: 500 }),
      async (bytes, [name, encode], size) => {
        const chunks: Uint8Array[] = [];
        for await (const chunk of decoded(pieces(encode(Buffer.from(bytes)), size), name)) chunks.push(chunk);
        assert.ok(Buffer.from(bytes).equals(Buffer.concat(chunks)));
      },
    ),
    { numRuns: 150 },
  );
});

test('streams of several members', async () => {
  const gzip = Buffer.concat([zlib.gzipSync('one '), zlib.gzipSync('two')]);
  const zstd = Buffer.concat([zlib.zstdCompressSync('one '), zlib.zstdCompressSync('two')]);
  for (const size of [1, 5, 1000]) {
    assert.equal(await bodyOf(decoded(pieces(gzip, size), 'gzip')), 'one two');
    assert.equal(await bodyOf(decoded(pieces(zstd, size), 'zstd')), 'one two');
    const br = Buffer.concat([zlib.brotliCompressSync('one '), zlib.brotliCompressSync('two')]);
    await assert.rejects(
      bodyOf(decoded(pieces(br, size), 'br')),
      failure('decoding', /followed by something else/),
    );
  }
});

test('what is no such stream, or is followed by something else', async () => {
  for (const [name, encode] of codings) {
    const kind = failure('decoding', new RegExp(name));
    await assert.rejects(
      bodyOf(decoded(pieces(Buffer.from('<html>busy</html>'.repeat(9)), 50), name)),
      kind,
      name,
    );
    const followed = Buffer.concat([encode(Buffer.from('text')), Buffer.from('something else')]);
    for (const size of [4, 1000])
      await assert.rejects(bodyOf(decoded(pieces(followed, size), name)), kind, name);
  }
  assert.throws(() => decoded(pieces(text, 9), 'gzip, snappy'), failure('decoding', /"snappy" is unknown/));
  assert.throws(() => decoded(pieces(text, 9), 'gzip,'.repeat(6)), failure('decoding', /6 codings/));
});

test('an unknown coding does not matter when nobody reads the body', async (t) => {
  const response = await answering(t, { 'Content-Encoding': 'snappy' }, Buffer.from('x'));
  assert.equal(response.statusCode, 200);
  await assert.rejects(bodyOf(response.body), failure('decoding', /snappy/));
});

test('a bomb is stopped at the limit, in little memory', async (t) => {
  const bomb = zlib.gzipSync(zlib.gzipSync(Buffer.alloc(400e6)));
  assert.ok(bomb.length < 10_000);
  const response = await answering(t, { 'Content-Encoding': 'gzip, gzip' }, bomb);
  const before = process.memoryUsage.rss();
  await assert.rejects(readUtf8(response, 10e6), failure('too_large', /10000000 bytes/));
  const grown = process.memoryUsage.rss() - before;
  assert.ok(grown < 60e6, `${grown} bytes`);
});

test('an answer that is wrong or too large, and then goes silent, is given up at once', async (t) => {
  const whole = zlib.gzipSync(zlib.gzipSync(Buffer.alloc(1e6)));
  const random = zlib.gzipSync(zlib.gzipSync(randomBytes(60_000))).subarray(0, -9);
  const cases: [Buffer, number, 'decoding' | 'too_large'][] = [
    [Buffer.from('no gzip at all'), 1e6, 'decoding'],
    [Buffer.concat([whole.subarray(0, -1), Buffer.from('wrong')]), 1e9, 'decoding'],
    [zlib.gzipSync('no gzip at all').subarray(0, -4), 1e6, 'decoding'],
    [random, 10_000, 'too_large'],
  ];
  for (const [bytes, limit, kind] of cases) {
    const closed = Promise.withResolvers<void>();
    const url = await httpServer(t, (request, response) => {
      request.socket.on('close', () => closed.resolve());
      response.writeHead(200, { 'Content-Encoding': 'gzip, gzip' }).write(bytes);
    });
    const began = performance.now();
    const response = await httpClient(t).send(get(url), sendOptions({ readTimeoutMs: 10_000 }));
    await assert.rejects(readUtf8(response, limit), failure(kind));
    await closed.promise;
    assert.ok(performance.now() - began < 1000);
  }
});

test('the limit counts what was announced, and what comes', async (t) => {
  const announced = await answering(t, { 'Content-Length': '300' }, Buffer.alloc(300));
  await assert.rejects(readUtf8(announced, 299), failure('too_large'));
  const chunked = await answering(t, { 'Transfer-Encoding': 'chunked' }, Buffer.alloc(300));
  await assert.rejects(readUtf8(chunked, 299), failure('too_large'));
  const exact = await answering(t, { 'Transfer-Encoding': 'chunked' }, Buffer.alloc(300));
  assert.equal((await readUtf8(exact, 300)).byteLength, 300);
});

test('charsets', () => {
  const read = (bytes: number[] | Buffer, type?: string) =>
    Buffer.from(toUtf8(Uint8Array.from(bytes), type)).toString();
  const bom = [0xef, 0xbb, 0xbf];
  assert.equal(read(Buffer.from('ü')), 'ü');
  assert.equal(read([...bom, 0x61], 'application/json'), 'a');
  assert.equal(read([...bom, ...bom, 0x61]), '\uFEFFa', 'one mark is dropped, the second is text');
  assert.equal(
    read([...bom, 0xc3, 0xbc], 'text/plain; charset=iso-8859-1'),
    'ü',
    'the mark says more than the header',
  );
  assert.equal(read([0xfc, 0x80], 'text/plain; charset=ISO-8859-1'), 'ü€');
  assert.equal(read([0x93, 0xfc, 0x94], 'text/plain;charset="windows-1252"'), '“ü”');
  assert.equal(read([0xa4], 'text/csv; header=present; charset=iso-8859-15'), '€');
  assert.equal(read([0x82, 0xa0], 'text/plain; charset=Shift_JIS'), 'あ');
  assert.equal(read(Buffer.from('ü', 'utf16le'), 'text/plain; charset=utf-16le'), 'ü');
  assert.equal(read([0xff, 0xfe, 0xfc, 0]), 'ü');
  assert.equal(read([0xfe, 0xff, 0, 0xfc]), 'ü');
  assert.equal(read([0x61, 0xff, 0x62], 'text/plain; charset=utf-8'), 'a\uFFFDb', 'always valid UTF-8');
  assert.equal(read([], 'text/plain; charset=utf-16'), '');
  assert.equal(read(Buffer.from('ü'), 'text/plain; charset=utf8mb4'), 'ü');
  assert.throws(() => read([0xfc], 'text/plain; charset=klingon'), failure('decoding', /"klingon"/));
  assert.equal(charsetOf("text/html; charset='utf-8'"), 'utf-8');
  assert.equal(charsetOf('text/html; charset='), null);
});

test('UTF-8 is passed through as it is, without a copy', () => {
  const bytes = Buffer.from('{"a": "ü"}');
  assert.equal(toUtf8(bytes, 'application/json; charset=UTF-8'), bytes);
});
