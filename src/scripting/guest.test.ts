import assert from 'node:assert/strict';
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseSync } from 'oxc-parser';

/** The code of the sandbox runs in any realm; here it is tried without an isolate. */
const load = async (name: string) =>
  (await import(new URL(`./guest/${name}.js`, import.meta.url).href)) as unknown;

const { parseExact, describeMalformed } = (await load('exact-json')) as {
  parseExact(text: string, digits: Set<string>): unknown;
  describeMalformed(text: string): string;
};
const { crypto, seedRandom } = (await load('crypto')) as {
  crypto: Record<string, (...values: unknown[]) => unknown>;
  seedRandom(hex: string): void;
};
const { whyRefused } = (await load('last-return')) as { whyRefused(body: string): string | undefined };

/** The value of a JSON number as a fraction of whole numbers. */
function fraction(source: string): [bigint, bigint] {
  const [, sign, whole = '', part = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
  const power = Number(exponent) - part.length;
  const digits = BigInt(`${sign}${whole}${part}`);
  return power >= 0 ? [digits * 10n ** BigInt(power), 1n] : [digits, 10n ** BigInt(-power)];
}

function areEqual(a: string, b: string): boolean {
  const [an, ad] = fraction(a);
  const [bn, bd] = fraction(b);
  return an * bd === bn * ad;
}

const digitsText = (least: number, most: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: least, maxLength: most });
const jsonNumber = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(
      fc.constant('0'),
      digitsText(1, 25).map((text) => text.replace(/^0+/, '') || '0'),
    ),
    fc.option(digitsText(1, 25)),
    fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'e-'), fc.integer({ min: 0, max: 330 }))),
  )
  .map(
    ([sign, whole, part, exponent]) =>
      `${sign}${whole}${part ? `.${part}` : ''}${exponent ? exponent.join('') : ''}`,
  );

describe('parseExact', () => {
  it('gives a number when its value survives, else its digits', () => {
    fc.assert(
      fc.property(jsonNumber, (source) => {
        const digits = new Set<string>();
        const [value] = parseExact(`[${source}]`, digits) as [number | string];
        const double = Number(source);
        if (Number.isFinite(double) && areEqual(source, String(double))) {
          assert.equal(value, double);
        } else {
          assert.equal(value, source);
          assert.ok(digits.has(source));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it('sees a long number wherever it stands', () => {
    fc.assert(
      fc.property(
        jsonNumber,
        jsonNumber,
        fc.nat(40),
        fc.constantFrom('', ' ', '\n'),
        (a, b, shift, space) => {
          const text = `{"text":"${'1'.repeat(shift)}","a":${space}${a}${space},"b":${space}[${b}]}`;
          const { a: one, b: other } = parseExact(text, new Set()) as { a: unknown; b: unknown };
          assert.deepEqual([one, other], [parseExact(a, new Set()), parseExact(`[${b}]`, new Set())]);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('is JSON.parse for everything else', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        assert.deepEqual(parseExact(text, new Set()), JSON.parse(text));
      }),
    );
  });

  it('is not misled by long numbers in strings', () => {
    const text = '{"a":": 12345678901234567890 ","12345678901234567890":1}';
    assert.deepEqual(parseExact(text, new Set()), JSON.parse(text));
  });

  it('says where a text stops being JSON', () => {
    const faults: [string, number][] = [
      ['{"a":1,}', 7],
      ['[1,]', 3],
      ['[1 2]', 3],
      ['{"a" 1}', 5],
      ['{a:1}', 1],
      ['"ab', 3],
      ['"a\nb"', 2],
      ['"\\x"', 1],
      ['tru', 0],
      ['[1]]', 3],
      ['01', 1],
      ['<html>', 0],
      ['{"a":[1,{"b":', 13],
      ['1,2', 1],
      ['', 0],
    ];
    for (const [text, at] of faults) {
      assert.throws(() => JSON.parse(text));
      assert.match(describeMalformed(text), new RegExp(` at position ${at} `), text);
    }
  });
});

describe('crypto', () => {
  const data = fc.uint8Array({ maxLength: 300 });

  it('hashes as Node does', () => {
    fc.assert(
      fc.property(data, data, fc.constantFrom('md5', 'sha1', 'sha256', 'sha512'), (bytes, key, algorithm) => {
        assert.equal(crypto['hash']?.(algorithm, bytes), createHash(algorithm).update(bytes).digest('hex'));
        const expected = createHmac(algorithm, key).update(bytes).digest('base64url');
        assert.equal(crypto['hmac']?.(algorithm, key, bytes, 'base64url'), expected);
      }),
      { numRuns: 300 },
    );
  });

  it('encodes and decodes as Node does', () => {
    fc.assert(
      fc.property(data, fc.string({ unit: 'binary' }), (bytes, text) => {
        for (const [name, encoding] of [
          ['hex', 'hex'],
          ['base64', 'base64'],
          ['base64Url', 'base64url'],
        ] as const) {
          assert.equal(crypto[`${name}Encode`]?.(bytes), Buffer.from(bytes).toString(encoding));
        }
        assert.deepEqual(crypto['hexDecode']?.(Buffer.from(bytes).toString('hex')), bytes);
        assert.deepEqual(crypto['base64Decode']?.(Buffer.from(bytes).toString('base64')), bytes);
        assert.deepEqual(crypto['base64Decode']?.(Buffer.from(bytes).toString('base64url')), bytes);
        assert.deepEqual(crypto['utf8Encode']?.(text), new Uint8Array(Buffer.from(text)));
        assert.equal(
          crypto['utf8Decode']?.(crypto['utf8Encode']?.(text)),
          Buffer.from(text).toString('utf8'),
        );
      }),
      { numRuns: 300 },
    );
  });

  it('refuses bytes that are not UTF-8, exactly where Node does', () => {
    const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 6 }), (bytes) => {
        let expected: string | undefined;
        try {
          expected = strict.decode(bytes);
        } catch {
          assert.throws(() => crypto['utf8Decode']?.(bytes));
          return;
        }
        assert.equal(crypto['utf8Decode']?.(bytes), expected);
      }),
      { numRuns: 2_000 },
    );
  });

  it('has random bytes of its seed, never the same twice', () => {
    const seed = randomBytes(32).toString('hex');
    seedRandom(seed);
    const first = [
      crypto['uuid']?.(),
      crypto['randomBytes']?.(100, 'hex'),
      crypto['randomBytes']?.(100, 'hex'),
    ];
    assert.match(String(first[0]), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.equal(new Set(first).size, 3);
    seedRandom(randomBytes(32).toString('hex'));
    assert.notEqual(crypto['randomBytes']?.(100, 'hex'), first[1]);
  });
});

describe('whyRefused', () => {
  const bodies = {
    accepted: [
      'return 1',
      'return',
      'return;;\n',
      'return 1 // comment',
      'return 1; /* comment */',
      'const a = 1\nreturn a',
      'return _.map([1], function (x) { return x + 1; });',
      'return { return: 1, a: `return ${[1].map((x) => { return x })}` }',
      'function f() { return 1 }\nreturn f() / 2 / 1',
      'const r = /return [/"]/;\nreturn r',
      'if (a) { return 1 }\nreturn 2',
      'a\nreturn function () { return 1 }',
      'const s = "}"; const t = `}${"`"}`; return s',
      'return a ? b : /* return 2 */ c',
    ],
    refused: [
      '',
      'const a = 1',
      'return 1; a()',
      'return 1\na()',
      '// return 1',
      'a() // return 1',
      '/* return 1 */',
      'const s = "return 1"',
      'const s = `\nreturn 1`',
      'if (a) return 1',
      'if (a) { return 1 } else { return 2 }',
      'if (a) b(); else return 1',
      'for (;;) return 1',
      '{ return 1 }',
      'label: return 1',
      'function f() { return 1 }',
      'const f = () => { return 1 }',
      'const o = { return: 1 }',
      'try { return 1 } finally {}',
      'a.return',
      '<!-- return 1',
      'return 1 }); (function () { return 2',
      'return 1 } function f() { return 2',
    ],
  };

  it('accepts a last statement that is a return, and nothing else', () => {
    for (const body of bodies.accepted) assert.equal(whyRefused(body), undefined, body);
    for (const body of bodies.refused) assert.equal(typeof whyRefused(body), 'string', body);
  });

  it('never accepts what a parser sees otherwise', () => {
    const piece = fc.constantFrom(
      'return 1',
      'return',
      '\n',
      ';',
      '{',
      '}',
      '(',
      ')',
      '//',
      '/*',
      '*/',
      '`',
      '"',
      'a',
      '=',
      'if (a)',
      ' else ',
      'function f()',
      '=>',
      '/',
      '[',
      ']',
      ':',
      'return { a }',
      '${',
      'return /x/',
      'do',
      'while (a)',
      "'",
      '<!--',
      ',',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 9 }), (pieces) => {
        const body = pieces.join(' ');
        if (whyRefused(body) === undefined) assert.ok(endsWithReturn(body), body);
      }),
      { numRuns: 3_000 },
    );
  });
});

/** Whether the parser of another maker sees a return as the last statement, empty ones aside. */
function endsWithReturn(body: string): boolean {
  const { program, errors } = parseSync('f.cjs', `(function () {"use strict";${body}\n})`, {
    sourceType: 'script',
  });
  const statement = program.body[0];
  if (errors.length > 0 || program.body.length !== 1 || statement?.type !== 'ExpressionStatement')
    return false;
  const { expression } = statement;
  const inner = expression.type === 'ParenthesizedExpression' ? expression.expression : expression;
  if (inner.type !== 'FunctionExpression') return false;
  const statements = inner.body?.body.filter(({ type }) => type !== 'EmptyStatement') ?? [];
  return statements.at(-1)?.type === 'ReturnStatement';
}
