import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Redactor } from './redaction.ts';

const redactor = new Redactor({
  headers: ['X-Api-Key'],
  parameters: ['api_key', 'sig'],
  values: ['s3cr/t "ü"', 'abcd'],
});

test('headers', () => {
  assert.deepEqual(
    redactor.headers([['authorization', 'Bearer x'], ['X-API-KEY', 'x'], ['Cookie', 'a=b'], ['X-Note', 'has abcd in it'], ['Accept', '*/*']]), // prettier-ignore
    [['authorization', '***'], ['X-API-KEY', '***'], ['Cookie', '***'], ['X-Note', 'has *** in it'], ['Accept', '*/*']], // prettier-ignore
  );
  assert.deepEqual(
    redactor.headerRecord({ 'set-cookie': ['a=b'], 'x-list': ['abcd', 'e'], server: 'abcde' }),
    {
      'set-cookie': '***',
      'x-list': ['***', 'e'],
      server: '***e',
    },
  );
});

test('URLs', () => {
  assert.equal(
    redactor.url('https://user:pw@api.test/a?x=1&api_key=k&api%5Fkey=k2&sig&y=a%2Fb#abcd'),
    'https://***@api.test/a?x=1&api_key=***&api%5Fkey=***&sig=***&y=a%2Fb#***',
  );
  assert.equal(redactor.url('https://api.test/a'), 'https://api.test/a');
  assert.equal(redactor.url('not a url ?api_key=k'), 'not a url ?api_key=***');
});

test('secret values in each form that a request writes them', () => {
  const value = 's3cr/t "ü"';
  const forms = [
    value,
    encodeURIComponent(value),
    new URLSearchParams({ a: value }).toString(),
    JSON.stringify({ a: value }),
    Buffer.from(value).toString('base64'),
  ];
  for (const form of forms) {
    const shown = redactor.text(`before ${form} after`);
    assert.match(shown, /^before .*\*\*\*.* after$/);
    assert.doesNotMatch(shown, /s3cr/);
  }
});

test('no secret survives, whatever it is made of', () => {
  const secrets = fc.string({ minLength: 4, unit: 'binary' }).filter((secret) => !secret.includes('*'));
  fc.assert(
    fc.property(secrets, fc.string(), fc.string(), (secret, before, after) => {
      const shown = new Redactor({ headers: [], parameters: [], values: [secret] }).text(
        before + secret + after,
      );
      assert.ok(!shown.includes(secret));
      assert.ok(shown.includes('***'));
    }),
  );
  assert.equal(new Redactor({ headers: [], parameters: [], values: ['', '\uD800'] }).text('a\uD800'), 'a***');
});
