import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HttpFailure } from './failure.ts';
import { wireRequest, type Headers } from './request.ts';
import { failure, get } from './testing.ts';

const url = 'http://api.test/';

test('headers that cannot be sent are an error that names them and keeps their value', () => {
  const wrong: [Headers, RegExp][] = [
    [[['X-A', 'secret\r\nEvil: 1']], /"X-A" holds a carriage return/],
    [[['X-A', 'secret\nEvil: 1']], /"X-A" holds a line feed/],
    [[['X-A', 'secret\0']], /"X-A" holds a NUL/],
    [[['X-A', 'secret→']], /"X-A" holds the character U\+2192 at position 7/],
    [[['X A', 'secret']], /header name "X A"/],
    [[['', 'secret']], /header name ""/],
    [[['X-Ä', 'secret']], /header name "X-Ä"/],
    [[['X:', 'secret']], /header name "X:"/],
    [[['Host', 'a'], ['host', 'b']], /"host" is given twice/],
    [[['Host', 'a/b']], /"Host"/],
    [[['Content-Length', '-1']], /"Content-Length" must be a whole number/],
    [[['Content-Length', '5']], /"Content-Length" is 5, but the body has 0 bytes/],
    [[['Transfer-Encoding', 'gzip']], /only be chunked/],
    [[['Transfer-Encoding', 'chunked'], ['Content-Length', '0']], /exclude each other/],
    [[['Expect', '100-continue']], /"Expect" cannot be set/],
    [[['Connection', 'upgrade']], /close or keep-alive/],
  ]; // prettier-ignore
  for (const [headers, message] of wrong) {
    assert.throws(() => wireRequest(get(url, { headers })), failure('invalid_header', message));
    assert.throws(() => wireRequest(get(url, { headers })), (error: Error) => !error.message.includes('secret')); // prettier-ignore
  }
});

test('any header is either sent as it is or refused by its name', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (name, value) => {
      try {
        const { headers } = wireRequest(get(url, { headers: [[name, value]] }));
        assert.doesNotMatch(headers.flat().join(''), /[\r\n\0]/);
        const framing = /^(?:content-length|transfer-encoding)$/i.test(name);
        assert.ok(framing || headers.some(([sentName, sent]) => sentName === name && sent === value));
      } catch (error) {
        assert.ok(error instanceof HttpFailure, String(error));
      }
    }),
    { numRuns: 500 },
  );
});

test('methods and URLs that cannot be sent', () => {
  for (const method of ['', 'GE T', 'GET\r\n', 'CONNECT', 'trace']) {
    assert.throws(() => wireRequest(get(url, { method })), failure('invalid_method'));
  }
  for (const wrong of [
    '',
    'api.test/x',
    '//api.test',
    'http://',
    'http://a b/',
    'http://[::1',
    'http://a:99999/',
  ]) {
    assert.throws(() => wireRequest(get(wrong)), failure('invalid_url'), wrong);
  }
});

test('path and query keep their bytes', () => {
  const target = (text: string) => wireRequest(get(text)).target;
  assert.equal(target('http://u:p@api.test:80/a%2Fb//c;x=1/?b=%41&a&a=&=#f'), '/a%2Fb//c;x=1/?b=%41&a&a=&=');
  assert.equal(target('http://api.test'), '/');
  assert.equal(target('http://api.test?'), '/?');
  assert.equal(target('http://api.test/ä ö?ü= '), '/%C3%A4%20%C3%B6?%C3%BC=');
});

test('the headers that are set when the request lacks them', () => {
  const names = (headers: Headers) => wireRequest(get(url, { headers })).headers.map(([name]) => name);
  assert.deepEqual(names([]), ['Accept', 'Accept-Encoding', 'User-Agent']);
  assert.deepEqual(names([['accept-encoding', 'br'], ['USER-AGENT', 'x']]), ['accept-encoding', 'USER-AGENT', 'Accept']); // prettier-ignore
});
