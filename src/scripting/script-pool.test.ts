import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { ScriptPool } from './script-pool.ts';
import { type ResponseInput, ScriptError, type ScriptInput } from './script-run.ts';

const EMPTY: ScriptInput = { variables: {}, dataJson: 'null' };
const logged: string[] = [];
const pool = new ScriptPool({ callMs: 1_000, isolateMib: 64, outputBytes: 1_000_000 }, (_level, message) => {
  logged.push(message);
});
const run = pool.openRun('app');
after(() => pool.close());

const valueOf = async (text: string, input: Partial<ScriptInput> = {}) =>
  (await run.evaluate({ property: 'request.url', text }, { ...EMPTY, ...input })).value;

const parse = (text: string, response: Partial<ResponseInput> = {}, input: Partial<ScriptInput> = {}) =>
  run.parse(
    { property: 'target.parsingScript', text },
    { ...EMPTY, ...input },
    responseOf('{"a":1}', response),
  );

function responseOf(body: string, others: Partial<ResponseInput> = {}): ResponseInput {
  return { statusCode: 200, statusMessage: 'OK', headers: {}, body: Buffer.from(body), ...others };
}

const rowsOf = (rows: Uint8Array | undefined): unknown =>
  JSON.parse(Buffer.from(rows ?? []).toString('utf8'));

async function errorOf(promise: Promise<unknown>): Promise<ScriptError> {
  const error = await promise.then(
    () => assert.fail('no error'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ScriptError, String(error));
  return error;
}

describe('what a script sees', () => {
  it('returns the value of its last statement', async () => {
    assert.equal(await valueOf('return "https://example.com/" + 1'), 'https://example.com/1');
    assert.deepEqual(await valueOf('const a = [1];\nreturn { a, b: null, c: undefined };'), {
      a: [1],
      b: null,
    });
    assert.equal(await valueOf('return undefined'), undefined);
    assert.equal(await valueOf('return null'), null);
    assert.equal(await valueOf('return new Date(0)'), '1970-01-01T00:00:00.000Z');
    assert.equal(await valueOf('return "\\ud800 ä €"'), '\ud800 ä €');
  });

  it('has the variables and the data, new in each call', async () => {
    const input = { variables: { page: 3, nested: { a: [1] } }, dataJson: '[{"id":7}]' };
    assert.deepEqual(await valueOf('return [$ctx.variables, $ctx.data]', input), [
      input.variables,
      [{ id: 7 }],
    ]);
    assert.equal(
      await valueOf('$ctx.variables.page = 9; $ctx.data[0].id = 8; $ctx.extra = 1; return 1', input),
      1,
    );
    assert.deepEqual(await valueOf('return [$ctx.variables.page, $ctx.data[0].id, $ctx.extra]', input), [
      3,
      7,
      null,
    ]);
    assert.equal(await valueOf('return $ctx.data'), null);
    assert.deepEqual(await valueOf('return Object.keys($ctx)'), ['variables', 'data']);
  });

  it('has the request where one is given', async () => {
    const request = { method: 'POST', url: 'https://a.b/?c=1', headers: { host: 'a.b' }, bodyStr: 'x' };
    assert.deepEqual(await valueOf('return $ctx.request', { request }), request);
  });

  it('has the response as the contract says', async () => {
    const headers = { 'content-type': 'application/json', 'set-cookie': ['a=1', 'b=2'] };
    const { control } = await parse(
      'return { variables: { r: { scope: "application", value: { ...$ctx.response } } } }',
      {
        statusCode: 201,
        statusMessage: 'Created',
        headers,
      },
    );
    const value = { statusCode: 201, statusMessage: 'Created', headers, body: { a: 1 }, bodyStr: '{"a":1}' };
    assert.deepEqual(control, { variables: { r: { scope: 'application', value } } });
  });

  it('gives null and "" for an empty body', async () => {
    const { control } = await parse(
      'return { variables: { v: [$ctx.response.body, $ctx.response.bodyStr] } }',
      {
        body: new Uint8Array(),
      },
    );
    assert.deepEqual(control, { variables: { v: [null, ''] } });
  });

  it('tells whether the script looked at the status', async () => {
    assert.equal((await parse('return null')).statusCodeRead, false);
    assert.equal((await parse('return { doWhile: $ctx.response.statusCode === 200 }')).statusCodeRead, true);
  });

  it('has Underscore 1.8.3 and the console', async () => {
    assert.deepEqual(
      await valueOf('return [_.VERSION, _.pluck([{ a: 1 }], "a"), _.template("<%= a %>")({ a: 2 })]'),
      ['1.8.3', [1], '2'],
    );
    const { console } = await run.evaluate(
      {
        property: 'p',
        text: 'console.log("a", 1, { b: [2n] }); console.warn(null); console.error(new Error("x")); return 1',
      },
      EMPTY,
    );
    assert.deepEqual(console, [
      { level: 'log', text: 'a 1 {"b":["2n"]}' },
      { level: 'warn', text: 'null' },
      { level: 'error', text: 'Error: x' },
    ]);
  });

  it('is strict, and has no timers, network or modules', async () => {
    assert.equal((await errorOf(valueOf('undeclared = 1; return 1'))).kind, 'script');
    const names = [
      'setTimeout',
      'setInterval',
      'fetch',
      'require',
      'process',
      'XMLHttpRequest',
      'WebAssembly',
    ];
    const types = await valueOf(`return [${names.map((name) => `typeof ${name}`).join()}]`);
    assert.deepEqual(
      types,
      names.map(() => 'undefined'),
    );
  });
});

describe('numbers', () => {
  it('reach the script exactly, as strings where a double would lose digits', async () => {
    const text =
      '[9007199254740993, 0.30000000000000004, 0.12345678901234567891, 1e400, 1.0, 12345678901234567890e-2, -0]';
    const exact = [
      '9007199254740993',
      0.30000000000000004,
      '0.12345678901234567891',
      '1e400',
      1,
      '12345678901234567890e-2',
      0,
    ];
    assert.deepEqual(await valueOf('return $ctx.data', { dataJson: text }), exact);
    const { blocks } = await parse('return { data: [{ data: [{ n: $ctx.response.body[0] }] }] }', {
      body: Buffer.from(text),
    });
    assert.deepEqual(blocks[0]?.columns, [{ name: 'n', kinds: ['digits'] }]);
    assert.equal(await valueOf('return $ctx.variables.n', { variables: { n: 2n ** 70n } }), `${2n ** 70n}`);
  });

  it('keep their digits as BigInt', async () => {
    assert.deepEqual(await valueOf('return [5n, 2n ** 64n, { a: -(2n ** 64n) }]'), [
      5,
      '18446744073709551616',
      { a: '-18446744073709551616' },
    ]);
  });

  it('are refused when JSON has no word for them', async () => {
    assert.equal(
      (await errorOf(valueOf('return { a: [1, NaN] }'))).reason,
      'the result.a[1] is NaN, which is no JSON value',
    );
  });
});

describe('the parsing result', () => {
  it('comes as control and one block a table', async () => {
    const { control, blocks } = await parse(
      'return { data: [{ tableName: "a", data: [{ x: 1, y: "é" }, { y: null, z: [1], d: new Date(0) }] },' +
        ' { format: "JSON", data: [] }], doWhile: { url: "/2" }, doWhileDelay: 5, variables: { v: "1" } }',
    );
    assert.deepEqual(control, {
      data: [{ tableName: 'a' }, { format: 'JSON' }],
      doWhile: { url: '/2' },
      doWhileDelay: 5,
      variables: { v: '1' },
    });
    assert.deepEqual(
      blocks.map(({ index, rowCount }) => [index, rowCount]),
      [
        [0, 2],
        [1, 0],
      ],
    );
    assert.deepEqual(rowsOf(blocks[0]?.rows), [
      { x: 1, y: 'é' },
      { y: null, z: [1], d: '1970-01-01T00:00:00.000Z' },
    ]);
    assert.deepEqual(blocks[0]?.columns, [
      { name: 'x', kinds: ['integer'] },
      { name: 'y', kinds: ['string', 'null'] },
      { name: 'z', kinds: ['array'] },
      { name: 'd', kinds: ['date'] },
    ]);
    assert.deepEqual(rowsOf(blocks[1]?.rows), []);
  });

  it('may be nothing', async () => {
    for (const text of ['return null', 'return undefined', 'return']) {
      const { control, blocks } = await parse(text);
      assert.deepEqual([control, blocks], [null, []]);
    }
  });

  it('keeps a changed row in its place', async () => {
    const { blocks } = await parse(
      'return { data: [{ data: [{ a: 1 }, { a: 2n ** 60n }, { a: 3 }, { a: new Date(0) }] }] }',
    );
    assert.deepEqual(rowsOf(blocks[0]?.rows), [
      { a: 1 },
      { a: '1152921504606846976' },
      { a: 3 },
      { a: '1970-01-01T00:00:00.000Z' },
    ]);
  });

  it('names table, row and column of what cannot be loaded', async () => {
    const reasons: [string, RegExp][] = [
      ['return 5', /must return an object, or null, but returned a number/],
      ['return { data: {} }', /data must be an array of table-data objects, but is an object/],
      ['return { data: [5] }', /data\[0\] must be a table-data object, but is a number/],
      ['return { data: [{}] }', /data\[0\]\.data must be an array of records, but is undefined/],
      [
        'return { data: [{ data: [{}] }, { data: [{}, [1]] }] }',
        /data\[1\]\.data\[1\] must be a record .* is an array/,
      ],
      ['return { data: [{ data: [new Map()] }] }', /data\[0\]\.data\[0\] must be a record .* a Map/],
      ['return { data: [{ data: [{ a: 1 }, { a: Infinity }] }] }', /data\[0\]\.data\[1\]\.a is Infinity/],
      ['return { data: [{ data: [{ "a b": () => 1 }] }] }', /data\[0\]\.data\[0\]\["a b"\] is a function/],
      [
        'return { data: [{ data: [{ a: { b: [Symbol("s")] } }] }] }',
        /data\[0\]\.data\[0\]\.a\.b\[0\] is a symbol/,
      ],
      ['return { data: [{ data: [{ a: new Date(NaN) }] }] }', /data\[0\]\.data\[0\]\.a is an invalid Date/],
      ['return { data: [{ data: [{ a: new Set([1]) }] }] }', /data\[0\]\.data\[0\]\.a is a Set/],
      ['return { variables: { a: NaN } }', /the result\.variables\.a is NaN/],
    ];
    for (const [text, reason] of reasons) assert.match((await errorOf(parse(text))).reason, reason);
  });

  it('of a mapping is one table-data object or an array of them', async () => {
    const map = (text: string) =>
      run.map({ property: 'target.mapping', text }, { ...EMPTY, dataJson: '[{"a":1}]' });
    const one = await map('return { format: "table", data: _.map($ctx.data, (r) => ({ b: r.a })) }');
    assert.deepEqual(
      [one.control, rowsOf(one.blocks[0]?.rows)],
      [{ data: [{ format: 'table' }] }, [{ b: 1 }]],
    );
    const two = await map('return [{ data: [] }, { data: $ctx.data }]');
    assert.deepEqual([two.control, rowsOf(two.blocks[1]?.rows)], [{ data: [{}, {}] }, [{ a: 1 }]]);
  });

  it('of the format objects may hold any JSON', async () => {
    const { blocks } = await parse(
      'return { data: [{ format: "objects", data: [[1, 5n], "x", { a: { b: 1 } }] }] }',
    );
    assert.deepEqual(rowsOf(blocks[0]?.rows), [[1, 5], 'x', { a: { b: 1 } }]);
  });
});

describe('errors', () => {
  it('name property, line and column, and show the line', async () => {
    const error = await errorOf(valueOf('const a = null;\n  return a.b.c'));
    assert.deepEqual(
      [error.kind, error.property, error.line, error.column],
      ['script', 'request.url', 2, 12],
    );
    assert.equal(error.excerpt, '      return a.b.c\n               ^');
    assert.equal(
      error.message,
      "request.url, line 2, column 12: TypeError: Cannot read properties of null (reading 'b')\n" +
        error.excerpt,
    );
  });

  it('of the syntax have a place too', async () => {
    const error = await errorOf(valueOf('let a;\nlet b = ;\nreturn 1'));
    assert.deepEqual([error.line, error.column, error.reason], [2, 9, "SyntaxError: Unexpected token ';'"]);
    const open = await errorOf(valueOf('if (true) {\n  return 1'));
    assert.deepEqual([open.line, open.column], [2, 11]);
  });

  it('of the time limit have a place, and the next call works', async () => {
    const error = await errorOf(valueOf('let a = 0;\nfor (;;) a++;\nreturn a'));
    assert.equal(error.kind, 'timeout');
    assert.equal(error.line, 2);
    assert.match(error.message, /longer than 1000 ms/);
    assert.equal(await valueOf('return 1'), 1);
  });

  it('carry what the script had written', async () => {
    assert.deepEqual(
      (await errorOf(valueOf('console.log("before"); throw new Error("x"); return 1'))).console,
      [{ level: 'log', text: 'before' }],
    );
  });

  it('of a malformed body say where, when the body is used', async () => {
    const body = Buffer.from('{"a": 1,\n "b": x}');
    const error = await errorOf(parse('return { doWhile: $ctx.response.body.b }', { body }));
    assert.match(
      error.reason,
      /not JSON: unexpected "x" at position 15 \(line 2, column 7\), near "{\\"a\\": 1,\\n \\"b\\": x}"/,
    );
    assert.deepEqual([error.line, error.column], [1, 33]);
    assert.deepEqual((await parse('return { variables: { v: $ctx.response.bodyStr } }', { body })).control, {
      variables: { v: '{"a": 1,\n "b": x}' },
    });
  });

  it('tell a script without a return before it runs', async () => {
    const error = await errorOf(valueOf('console.log("ran")\nconst a = 1'));
    assert.equal(error.reason, 'the last statement of a script must be a return statement');
    assert.deepEqual(error.console, []);
  });

  it('are found by a check, which runs nothing', async () => {
    await pool.check('app', { property: 'p', text: 'for (;;) {}\nreturn 1' });
    assert.equal((await errorOf(pool.check('app', { property: 'p', text: 'const a = 1' }))).kind, 'script');
    assert.equal((await errorOf(pool.check('app', { property: 'p', text: 'return ]' }))).column, 8);
  });
});

describe('limits', () => {
  it('of the output, the console and the script', async () => {
    assert.match(
      (await errorOf(valueOf('return "x".repeat(1000001)'))).reason,
      /larger than 1000000 characters/,
    );
    const { console } = await run.evaluate(
      { property: 'p', text: 'for (let i = 0; i < 1e4; i++) console.log("x".repeat(100)); return 1' },
      EMPTY,
    );
    assert.ok(JSON.stringify(console).length < 40_000);
    assert.match(console.at(-1)?.text ?? '', /more to the console than is kept/);
    assert.match(
      (await errorOf(valueOf(`return 1 //${'x'.repeat(262_144)}`))).reason,
      /larger than 262144 bytes/,
    );
  });

  it('of memory rise with the body', async () => {
    const record = JSON.stringify({ id: 123, name: 'x'.repeat(50), list: [1, 2, 3] });
    const body = Buffer.from(`[${Array(200_000).fill(record).join()}]`);
    const { control } = await parse('return { variables: { n: $ctx.response.body.length } }', { body });
    assert.deepEqual(control, { variables: { n: 200_000 } });
  });

  it('of memory end the call only', async () => {
    assert.equal(
      (await errorOf(valueOf('const a = []; for (;;) a.push(new Array(1000).fill(1)); return 1'))).kind,
      'memory',
    );
    assert.equal(await valueOf('return 1'), 1);
  });
});
