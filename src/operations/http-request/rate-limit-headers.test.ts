import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blockOf } from './rate-limit-headers.ts';

const DATE = 'Sun, 01 Jun 2025 12:00:00 GMT';
const IN_90_SECONDS = Date.parse(DATE) / 1000 + 90;

function block(headers: Record<string, string>, statusCode = 200, retryAfterMs: number | null = null) {
  return blockOf({ statusCode, headers: { date: DATE, ...headers }, retryAfterMs });
}

const cases: [name: string, headers: Record<string, string>, ms: number | null][] = [
  ['nothing is said', {}, null],
  ['the current draft: nothing remains', { ratelimit: '"default";r=0;t=30' }, 30_000],
  ['the current draft: something remains', { ratelimit: '"default";r=1;t=30' }, null],
  [
    'of several limits the longest that is used up counts',
    { ratelimit: '"burst";r=0;t=2, "hour";r=0;t=90,"day";r=7;t=4000' },
    90_000,
  ],
  [
    'without a time the window of the policy of this name is waited for',
    {
      ratelimit: '"daily";r=0',
      'ratelimit-policy': '"burst";q=10;w=1,"daily";q=100;w=600;pk=:cHNzdA==:',
    },
    600_000,
  ],
  ['a name with separators', { ratelimit: '"a,b;r=0;t=99";r=5;t=1' }, null],
  ['draft 7 in one field', { ratelimit: 'limit=100, remaining=0, reset=50' }, 50_000],
  ['draft 7: something remains', { ratelimit: 'limit=100, remaining=3, reset=50' }, null],
  ['older fields', { 'ratelimit-remaining': '0', 'ratelimit-reset': '12' }, 12_000],
  ['older fields: something remains', { 'ratelimit-remaining': '1', 'ratelimit-reset': '12' }, null],
  ['a reset alone says nothing', { 'x-ratelimit-reset': '12' }, null],
  ['an empty remaining is no 0', { 'x-ratelimit-remaining': '', 'x-ratelimit-reset': '12' }, null],
  ['no reset, no wait', { 'x-ratelimit-remaining': '0' }, null],
  ['seconds', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '7.5' }, 7_500],
  [
    'a time in seconds, by the clock of the server',
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(IN_90_SECONDS) },
    90_000,
  ],
  [
    'a time in milliseconds, rounded up',
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(IN_90_SECONDS * 1000 - 999) },
    90_000,
  ],
  ['a date', { 'x-rate-limit-remaining': '0', 'x-rate-limit-reset': 'Sun, 01 Jun 2025 12:00:05 GMT' }, 5_000],
  [
    'a time that is over',
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(IN_90_SECONDS - 100) },
    null,
  ],
  ['an hour at most', { ratelimit: '"default";r=0;t=86400' }, 3_600_000],
  ['no number', { ratelimit: '"default";r=none;t=30', 'x-ratelimit-remaining': 'few' }, null],
  ['a monstrous field', { ratelimit: '"a";r=0;'.repeat(10_000) }, null],
];

for (const [name, headers, ms] of cases)
  test(`limits of an answer: ${name}`, () => assert.equal(block(headers), ms));

test('limits of an answer: Retry-After of a refusal, and of nothing else', () => {
  assert.equal(block({}, 429, 4_000), 4_000);
  assert.equal(block({}, 503, 4_000), 4_000);
  assert.equal(block({}, 200, 4_000), null);
  assert.equal(block({}, 429), null);
  assert.equal(block({ ratelimit: '"default";r=0;t=9' }, 429, 4_000), 9_000);
});
