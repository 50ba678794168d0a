import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isExactDouble, isRawNumber, parseExact, plainDecimal } from './exact-json.ts';

/** A number as a fraction of whole numbers, worked out without doubles. */
function fraction(number: string): [bigint, bigint] {
  const [mantissa = '', exponent = '0'] = number.toLowerCase().split('e');
  const [whole = '', decimals = ''] = mantissa.split('.');
  const shift = Number(exponent) - decimals.length;
  const digits = BigInt(whole.replace('-', '') + decimals) * (number.startsWith('-') ? -1n : 1n);
  return shift >= 0 ? [digits * 10n ** BigInt(shift), 1n] : [digits, 10n ** BigInt(-shift)];
}

function isEqual(one: string, other: string): boolean {
  const [[a, b], [c, d]] = [fraction(one), fraction(other)];
  return a * d === c * b;
}

function keptDigits(value: unknown): string {
  return isRawNumber(value) ? value.rawJSON : String(value);
}

const digits = fc.stringMatching(/^(?:0|[1-9][0-9]{0,24})$/);
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    digits,
    fc.stringMatching(/^(?:\.[0-9]{1,24})?$/),
    fc.oneof(
      fc.constant(''),
      fc.tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), fc.integer({ min: 0, max: 420 })),
    ),
  )
  .map(([sign, whole, decimals, exponent]) => sign + whole + decimals + [exponent].flat().join(''));

test('no number loses a digit, wherever it stands', () => {
  const space = fc.constantFrom('', ' ', '\n', '\t\r');
  fc.assert(
    fc.property(
      fc.array(fc.oneof(number, fc.double({ noNaN: true, noDefaultInfinity: true }).map(JSON.stringify)), {
        minLength: 1,
      }),
      space,
      (numbers, space) => {
        const text = `{"a":${space}[${numbers.map((each) => `${space}${each}${space}`).join(',')}],"b":${space}${numbers[0]}}`;
        const parsed = parseExact(text) as { a: unknown[]; b: unknown };
        for (const [at, source] of numbers.entries())
          assert.ok(isEqual(keptDigits(parsed.a[at]), source), source);
        assert.ok(isEqual(keptDigits(parsed.b), numbers[0] as string));
      },
    ),
    { numRuns: 300 },
  );
});

test('a raw number is kept only where a double would not do', () => {
  fc.assert(
    fc.property(number, (source) => {
      const value = parseExact(`[${source}]`) as [unknown];
      const survives = Number.isFinite(Number(source)) && isEqual(String(Number(source)), source);
      assert.equal(isRawNumber(value[0]), !survives);
      assert.equal(isExactDouble(source), survives);
    }),
    { numRuns: 500 },
  );
});

test('strings that look like numbers stay strings, and raw numbers are written as they came', () => {
  const text =
    '{"a":"12345678901234567890","b":"x, 12345678901234567890","c":12345678901234567890,"d":["1e999",1e999]}';
  assert.equal(JSON.stringify(parseExact(text)), text);
  const digest = `["${'3e1234567890123456'.repeat(3)}",{"__proto__":1}]`;
  assert.equal(JSON.stringify(parseExact(digest)), digest);
});

test('plain digits', () => {
  fc.assert(
    fc.property(number, (source) => {
      const plain = plainDecimal(source);
      assert.match(plain ?? '', /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/);
      assert.ok(isEqual(plain as string, source));
    }),
  );
  assert.equal(plainDecimal('12.50'), '12.50');
  assert.equal(plainDecimal('1.50e1'), '15.0');
  assert.equal(plainDecimal('-0.0'), '0.0');
  for (const none of [
    '',
    '-',
    '.5',
    '5.',
    '01',
    '+1',
    '1e',
    ' 1',
    '1 ',
    'NaN',
    '0x1',
    '1e99999',
    '1'.repeat(10_001),
  ]) {
    assert.equal(plainDecimal(none), undefined);
  }
});
