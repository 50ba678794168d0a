import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { bodyTypes } from '../../model/http-request.ts';
import {
  BodyError,
  buildBody,
  type BodyContent,
  type RequestBody,
  type TableReference,
  type TransmitSource,
} from './body.ts';
import { HeaderList } from './header-list.ts';

const noTables: TransmitSource = { open: () => Promise.reject(new Error('no table was asked for')) };

/** Gives the same bytes in two chunks, and remembers what was asked for. */
function tablesWith(content: string | Uint8Array, knowsLength = true) {
  const bytes = Buffer.from(content);
  const asked: [TableReference, string][] = [];
  let opened = 0;
  const source: TransmitSource = {
    open(table, contentType) {
      asked.push([table, contentType]);
      return Promise.resolve({
        async *stream() {
          opened += 1;
          yield bytes.subarray(0, 3);
          yield bytes.subarray(3);
        },
        ...(knowsLength && { length: bytes.length }),
      });
    },
  };
  return { source, asked, openedTimes: () => opened };
}

function build(
  bodyType: string | undefined,
  content: BodyContent | undefined,
  headers: object = {},
  tables = noTables,
) {
  const list = new HeaderList();
  list.setFromObject(headers, 'script');
  return buildBody(bodyType, content, list, tables);
}

async function bytesOf(body: RequestBody): Promise<Buffer<ArrayBuffer>> {
  if (body === null) return Buffer.alloc(0);
  if (typeof body === 'string' || body instanceof Uint8Array) return Buffer.from(body);
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.open()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function readForm({ body, headers }: Awaited<ReturnType<typeof build>>): Promise<FormData> {
  const contentType = headers.get('content-type') ?? '';
  return new Response(await bytesOf(body), { headers: { 'Content-Type': contentType } }).formData();
}

function refused(kind: BodyError['kind'], path: string, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof BodyError, String(error));
    assert.equal(error.kind, kind);
    assert.equal(error.path, path);
    assert.match(error.message, message);
    return true;
  };
}

describe('body types', () => {
  test('the names of the contract', () => {
    assert.deepEqual(bodyTypes, [
      'string',
      'JSON -> stringify()',
      'JSON -> form-data',
      'JSON -> x-www-form-urlencoded',
      'JSON -> octet-stream',
      'JSON -> transmitSourceTable()',
    ]);
  });

  test('octet-stream is refused with advice, an unknown one with the nearest and all', async () => {
    await assert.rejects(
      build('JSON -> octet-stream', { text: '{}' }),
      refused(
        'invalid_body_type',
        'request.bodyType',
        /no longer supported.*transmitSourceTable\(\).*Content-Type.*application\/octet-stream/,
      ),
    );
    await assert.rejects(
      build('JSON -> stringify', { text: '{}' }),
      refused(
        'invalid_body_type',
        'request.bodyType',
        /Did you mean "JSON -> stringify\(\)"\? Known: string, JSON -> stringify\(\), /,
      ),
    );
    await assert.rejects(build('JSON -> octet-stream', undefined), BodyError);
  });

  test('no body', async () => {
    for (const type of [undefined, 'string', 'JSON -> form-data']) {
      const { body, headers } = await build(type, undefined);
      assert.equal(body, null);
      assert.deepEqual([...headers], []);
    }
  });

  test('a script must return something', async () => {
    await assert.rejects(
      build('string', { value: undefined }),
      refused('invalid_body', 'request.body', /returned undefined/),
    );
  });
});

describe('string', () => {
  test('as it is, with its Content-Type', async () => {
    for (const type of ['string', undefined]) {
      const { body, headers } = await build(type, { text: '<a>ä</a> ' });
      assert.equal(body, '<a>ä</a> ');
      assert.deepEqual(
        [...headers],
        [{ name: 'Content-Type', value: 'text/plain;charset=UTF-8', setBy: 'body type' }],
      );
    }
  });

  test('the Content-Type of the Headers script stays', async () => {
    const { headers } = await build('string', { text: '<a/>' }, { 'content-type': 'text/xml' });
    assert.deepEqual([...headers], [{ name: 'content-type', value: 'text/xml', setBy: 'script' }]);
  });

  test('what a script returned is serialized with JSON.stringify', async () => {
    assert.equal((await build('string', { value: { a: 1 } })).body, '{"a":1}');
    assert.equal((await build('string', { value: 'x' })).body, '"x"');
    assert.equal((await build('string', { value: null })).body, 'null');
  });

  test('half of a surrogate pair cannot be sent', async () => {
    await assert.rejects(
      build('string', { text: '\ud800' }),
      refused('invalid_body', 'request.body', /surrogate/),
    );
  });
});

describe('JSON -> stringify()', () => {
  test('a text is checked and sent as it is: no digit and no order changes', async () => {
    const text = '{ "b": 12345678901234567890, "2": 1.50, "1": 1 }\n';
    const { body, headers } = await build('JSON -> stringify()', { text });
    assert.equal(body, text);
    assert.equal(headers.get('Content-Type'), 'application/json');
  });

  test("a script's result, with whatever type of JSON", async () => {
    for (const value of [{ a: [1, 'ä', null] }, [1], 'x', 5, true, null]) {
      for (const type of ['JSON -> stringify()', undefined]) {
        const { body, headers } = await build(type, { value });
        assert.equal(body, JSON.stringify(value));
        assert.equal(headers.get('Content-Type'), 'application/json');
      }
    }
  });

  test('another Content-Type of the Headers script stays', async () => {
    const { headers } = await build(
      'JSON -> stringify()',
      { text: '{}' },
      { 'CONTENT-TYPE': 'application/vnd.api+json' },
    );
    assert.deepEqual(headers.getAll('content-type'), ['application/vnd.api+json']);
  });

  test('a text that is no JSON is an error with its position, for every JSON type', async () => {
    for (const type of bodyTypes.filter(
      (name) => name.startsWith('JSON') && !name.endsWith('octet-stream'),
    )) {
      await assert.rejects(
        build(type, { text: '{\n  "a": 1,\n  "b": top-secret\n}' }),
        refused(
          'invalid_json',
          'request.body',
          /^request\.body: is no JSON: line 3, column 8, unexpected "t"$/,
        ),
      );
      await assert.rejects(
        build(type, { text: '{"a":[1' }),
        refused('invalid_json', 'request.body', /line 1, column 8, it ends too early/),
      );
      await assert.rejects(
        build(type, { text: '' }),
        refused('invalid_json', 'request.body', /line 1, column 1, it ends too early/),
      );
    }
  });
});

describe('JSON -> x-www-form-urlencoded', () => {
  const type = 'JSON -> x-www-form-urlencoded';

  test('names and values', async () => {
    const value = {
      a: 'b c',
      "it's": '*~+&=',
      n: 1.5,
      t: true,
      none: null,
      list: [1, 'x', null, { y: 1 }],
      o: { a: [1] },
      out: undefined,
      gone: [],
    };
    const { body, headers } = await build(type, { value });
    assert.equal(
      body,
      'a=b%20c&it%27s=%2A~%2B%26%3D&n=1.5&t=true&none=&list=1&list=x&list=&list=%7B%22y%22%3A1%7D&o=%7B%22a%22%3A%5B1%5D%7D',
    );
    assert.equal(headers.get('content-type'), 'application/x-www-form-urlencoded');
  });

  test('a text: no digit is lost', async () => {
    const { body } = await build(type, {
      text: '{"id": 12345678901234567890, "o": {"id": 0.12345678901234567890}}',
    });
    assert.equal(body, 'id=12345678901234567890&o=%7B%22id%22%3A0.12345678901234567890%7D');
  });

  test('URLSearchParams reads back what was given', async () => {
    const text = fc.string({ unit: 'grapheme' });
    await fc.assert(
      fc.asyncProperty(fc.dictionary(text, fc.oneof(text, fc.array(text))), async (fields) => {
        const { body } = await build(type, { value: fields });
        const expected = Object.entries(fields).flatMap(([name, value]) =>
          [value].flat().map((item) => [name, item]),
        );
        assert.deepEqual([...new URLSearchParams(body as string)], expected);
      }),
    );
  });

  test('must be an object', async () => {
    for (const value of [[1], 'a=b', 5, null]) {
      await assert.rejects(
        build(type, { value }),
        refused('invalid_body', 'request.body', /must be an object for this body type/),
      );
    }
    await assert.rejects(
      build(type, { text: '12345678901234567890' }),
      refused('invalid_body', 'request.body', /must be an object/),
    );
    await assert.rejects(
      build(type, { value: { a: ['\udfff'] } }),
      refused('invalid_body', 'request.body.a', /surrogate/),
    );
  });
});

describe('JSON -> form-data', () => {
  const type = 'JSON -> form-data';
  const file = { sourceName: 'warehouse', spaceName: 'public', tableName: 'orders' };

  test('fields: a string as it is, numbers and booleans as text, null empty, the rest as JSON text', async () => {
    const built = await build(type, {
      value: { a: 'ä\nb\r\n', n: 1.5, t: false, none: null, o: { x: [1] }, list: [1, 'a'], out: undefined },
    });
    assert.match(
      built.headers.get('content-type') ?? '',
      /^multipart\/form-data; boundary=----millrace-[\w-]{24}$/,
    );
    assert.equal(built.headers.setBy('content-type'), 'body type');
    assert.deepEqual(
      [...(await readForm(built))],
      [
        ['a', 'ä\nb\r\n'],
        ['n', '1.5'],
        ['t', 'false'],
        ['none', ''],
        ['o', '{"x":[1]}'],
        ['list', '[1,"a"]'],
      ],
    );
  });

  test('an independent parser reads back names and values', async () => {
    // A literal %22, %0D or %0A in a name cannot be told from an escaped one, in browsers neither.
    const text = fc.string({
      unit: fc.oneof(
        fc.constantFrom('"', '\r', '\n', '\\', ';', '-', '=', 'ä', '😀'),
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
      ),
    });
    const name = text.filter((given) => !/%(?:22|0[ad])/i.test(given));
    await fc.assert(
      fc.asyncProperty(fc.dictionary(name, text, { minKeys: 1 }), async (fields) => {
        assert.deepEqual([...(await readForm(await build(type, { value: fields })))], Object.entries(fields));
      }),
      { numRuns: 300 },
    );
  });

  test('the bytes of a form with a file', async () => {
    const tables = tablesWith('id\r\n1\r\n');
    const value = {
      'a"b': 'x',
      upload: { filename: 'ä "1"\r\n.csv', 'Content-Type': 'text/csv', file },
      end: 1,
    };
    const { body, headers } = await build(type, { value }, {}, tables.source);
    const boundary = /boundary=(.*)$/.exec(headers.get('content-type') ?? '')?.[1];
    assert.equal(
      String(await bytesOf(body)),
      [
        `--${boundary}`,
        'Content-Disposition: form-data; name="a%22b"',
        '',
        'x',
        `--${boundary}`,
        'Content-Disposition: form-data; name="upload"; filename="ä %221%22%0D%0A.csv"',
        'Content-Type: text/csv',
        '',
        'id\r\n1\r\n',
        `--${boundary}`,
        'Content-Disposition: form-data; name="end"',
        '',
        '1',
        `--${boundary}--`,
        '',
      ].join('\r\n'),
    );
    assert.deepEqual(tables.asked, [[file, 'text/csv']]);
  });

  test('files are streamed, can be sent again, and their length counts', async () => {
    const content = Buffer.from([0, 13, 10, 45, 45, 255, 0]);
    for (const knowsLength of [true, false]) {
      const tables = tablesWith(content, knowsLength);
      const value = {
        one: { filename: '1.bin', file },
        text: 'ä',
        two: { filename: '2.bin', 'Content-Type': 'application/octet-stream', file },
      };
      const built = await build(type, { value }, {}, tables.source);
      const { body } = built;
      assert.ok(body !== null && typeof body === 'object' && 'open' in body);
      assert.equal(tables.openedTimes(), 0, 'nothing is read before it is sent');
      const sent = await bytesOf(body);
      assert.equal(body.length, knowsLength ? sent.length : undefined);
      assert.deepEqual(await bytesOf(body), sent);
      assert.equal(tables.openedTimes(), 4);

      const form = await readForm(built);
      const [one, two] = [form.get('one'), form.get('two')];
      assert.ok(one instanceof File && two instanceof File);
      assert.deepEqual(
        [one.name, one.type, two.name, two.type],
        ['1.bin', 'text/plain', '2.bin', 'application/octet-stream'],
      );
      assert.deepEqual(Buffer.from(await one.arrayBuffer()), content);
      assert.deepEqual(Buffer.from(await two.arrayBuffer()), content);
      assert.deepEqual(
        tables.asked.map(([, contentType]) => contentType),
        ['text/plain', 'application/octet-stream'],
      );
    }
  });

  test('who stops reading closes the table', async () => {
    let closed = false;
    const source: TransmitSource = {
      open: () =>
        Promise.resolve({
          async *stream() {
            try {
              for (;;) yield Buffer.from('x');
            } finally {
              closed = true;
            }
          },
        }),
    };
    const { body } = await build(type, { value: { a: { filename: 'f', file } } }, {}, source);
    assert.ok(body !== null && typeof body === 'object' && 'open' in body);
    let chunks = 0;
    for await (const chunk of body.open()) {
      chunks += chunk.length > 0 ? 1 : 0;
      if (chunks === 10) break;
    }
    assert.ok(closed);
  });

  test('a Content-Type of the Headers script: with a boundary it is used, without one it is completed', async () => {
    const value = { a: '1' };
    const own = await build(type, { value }, { 'Content-Type': 'multipart/form-data; boundary="my own"' });
    assert.equal(own.headers.get('content-type'), 'multipart/form-data; boundary="my own"');
    assert.match(String(await bytesOf(own.body)), /^--my own\r\n/);
    assert.deepEqual([...(await readForm(own))], [['a', '1']]);

    const completed = await build(type, { value }, { 'Content-Type': 'multipart/form-data' });
    assert.match(
      completed.headers.get('content-type') ?? '',
      /^multipart\/form-data; boundary=----millrace-/,
    );
    assert.equal(completed.headers.setBy('content-type'), 'script');
    assert.deepEqual([...(await readForm(completed))], [['a', '1']]);

    const other = await build(type, { value }, { 'Content-Type': 'application/x-mine' });
    assert.equal(other.headers.get('content-type'), 'application/x-mine');
    await assert.rejects(
      build(type, { value }, { 'Content-Type': 'multipart/form-data; boundary=a@b' }),
      refused('invalid_body', 'request.headers.Content-Type', /"a@b" is no multipart boundary/),
    );
  });

  const wrong: [part: unknown, path: string, message: RegExp][] = [
    [{ file }, 'request.body.up.filename', /is missing/],
    [{ filename: 5, file }, 'request.body.up.filename', /must be a string/],
    [
      { filename: 'f', file, contentType: 'text/csv' },
      'request.body.up.contentType',
      /Did you mean "Content-Type"\?/,
    ],
    [{ filename: 'f', fiel: file }, 'request.body.up.fiel', /Did you mean "file"\?/],
    [
      { filename: 'f', file: { ...file, tableName: undefined } },
      'request.body.up.file.tableName',
      /is missing/,
    ],
    [
      { filename: 'f', file: { spaceName: 's', tableName: 't' } },
      'request.body.up.file.sourceName',
      /is missing/,
    ],
    [
      { filename: 'f', file: { ...file, table: 't' } },
      'request.body.up.file.table',
      /Known: sourceName, spaceName, tableName$/,
    ],
    [
      { filename: 'f', file, 'Content-Type': 'text/csv\r\nX: 1' },
      'request.body.up.Content-Type',
      /is no media type/,
    ],
    [
      { filename: 'f', file, 'Content-Type': 'csv' },
      'request.body.up.Content-Type',
      /"csv" is no media type/,
    ],
  ];
  for (const [part, path, message] of wrong) {
    test(`refused: ${JSON.stringify(part)}`, async () => {
      await assert.rejects(build(type, { value: { up: part } }), refused('invalid_body', path, message));
    });
  }

  test('an object that only has a filename is JSON text like any other', async () => {
    const form = await readForm(
      await build(type, { value: { meta: { filename: 'f.pdf', size: 5, file: 'x' } } }),
    );
    assert.equal(form.get('meta'), '{"filename":"f.pdf","size":5,"file":"x"}');
  });
});

describe('JSON -> transmitSourceTable()', () => {
  const type = 'JSON -> transmitSourceTable()';
  const table = { sourceName: 'files', spaceName: 'out', tableName: 'a.bin' };

  test('streams the table; its Content-Type is not added to the headers', async () => {
    const tables = tablesWith('content ä');
    for (const content of [
      { value: { ...table, 'Content-Type': 'text/csv' } },
      { text: JSON.stringify(table) },
    ]) {
      const { body, headers } = await build(type, content, { Accept: 'x' }, tables.source);
      assert.deepEqual(headers.toFlatArray(), ['Accept', 'x']);
      assert.ok(body !== null && typeof body === 'object' && 'open' in body);
      assert.equal(body.length, 10);
      assert.equal(String(await bytesOf(body)), 'content ä');
      assert.equal(String(await bytesOf(body)), 'content ä');
    }
    assert.deepEqual(tables.asked, [
      [table, 'text/csv'],
      [table, 'text/plain'],
    ]);
  });

  test('without a space', async () => {
    const tables = tablesWith('x');
    await build(type, { value: { sourceName: 's', tableName: 't' } }, {}, tables.source);
    assert.deepEqual(tables.asked, [[{ sourceName: 's', tableName: 't' }, 'text/plain']]);
  });

  test('what the source refuses is refused before anything is sent', async () => {
    await assert.rejects(build(type, { value: table }), /no table was asked for/);
  });

  test('wrong fields are named', async () => {
    const cases: [value: unknown, path: string, message: RegExp][] = [
      [{ ...table, tableName: '' }, 'request.body.tableName', /not empty/],
      [{ sourceName: 's' }, 'request.body.tableName', /is missing/],
      [{ ...table, spaceName: null }, 'request.body.spaceName', /not null/],
      [{ ...table, 'content-type': 'x' }, 'request.body.content-type', /Did you mean "Content-Type"\?/],
      [{ ...table, 'Content-Type': 5 }, 'request.body.Content-Type', /must be a string/],
      [[], 'request.body', /must be an object/],
    ];
    for (const [value, path, message] of cases) {
      await assert.rejects(build(type, { value }), refused('invalid_body', path, message));
    }
  });
});
