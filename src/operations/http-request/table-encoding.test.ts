import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { encodeTable, tableContentTypes, TableEncodingError, type TableRows } from './table-encoding.ts';

async function encoded(rows: TableRows, contentType: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of encodeTable(rows, contentType)) chunks.push(chunk);
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
}

/** RFC 4180 to the letter; null is a field without quotes and characters. */
function parseCsv(text: string): (string | null)[][] {
  const records: (string | null)[][] = [];
  let record: (string | null)[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y;
  while (field.lastIndex < text.length) {
    const match = field.exec(text);
    assert.ok(match, 'no CSV of RFC 4180');
    const [, quoted, bare, end] = match;
    record.push(quoted?.replaceAll('""', '"') ?? (bare === '' ? null : (bare ?? null)));
    if (end === ',') continue;
    records.push(record);
    record = [];
  }
  assert.deepEqual(record, [], 'the last line is closed');
  return records;
}

function inBatches(rows: unknown[], sizes: number): string[] {
  const batches: string[] = [];
  for (let start = 0; start < rows.length; start += sizes)
    batches.push(JSON.stringify(rows.slice(start, start + sizes)));
  return batches;
}

describe('CSV', () => {
  test('a header row, CRLF, quotes only where needed', async () => {
    const rows = [
      { id: 1, name: 'plain', note: 'a "quoted", text', extra: 'not a column' },
      { id: 2.5, name: '', note: null },
      { id: true, name: ' spaces ', note: 'two\r\nlines' },
      { id: null, name: 'ä€😀', note: { a: [1, 'x'] } },
      {},
    ];
    for (const contentType of [
      'text/csv',
      'text/plain',
      'Text/CSV; charset=UTF-8',
      'text/csv;charset="utf-8"',
    ]) {
      assert.equal(
        await encoded({ columns: ['id', 'name', 'note'], batches: inBatches(rows, 2) }, contentType),
        'id,name,note\r\n' +
          '1,plain,"a ""quoted"", text"\r\n' +
          '2.5,"",\r\n' +
          'true," spaces ","two\r\nlines"\r\n' +
          ',ä€😀,"{""a"":[1,""x""]}"\r\n' +
          ',,\r\n',
      );
    }
  });

  test('a table without rows still has its header', async () => {
    assert.equal(await encoded({ columns: ['a', 'b,c'], batches: [] }, 'text/csv'), 'a,"b,c"\r\n');
    assert.equal(await encoded({ columns: ['a'], batches: ['[]', ' [ ] '] }, 'text/csv'), 'a\r\n');
  });

  test('a null in the only column is no empty line', async () => {
    assert.equal(
      await encoded({ columns: ['a'], batches: ['[{"a":null},{"a":"x"}]'] }, 'text/csv'),
      'a\r\n""\r\nx\r\n',
    );
  });

  test('no digit is lost', async () => {
    const numbers = [
      '9007199254740993',
      '-12345678901234567890.10',
      '0.1000000000000000055511151231257827',
      '1e400',
      '1.5e3',
      '7',
    ];
    const batch = `[${numbers.map((number) => `{"n": ${number}, "t": {"n":${number}}}`).join(',')}]`;
    const shortest = (number: string) => (number === '1.5e3' ? '1500' : number);
    const lines = numbers.map(shortest).map((number) => `${number},"{""n"":${number}}"`);
    assert.equal(
      await encoded({ columns: ['n', 't'], batches: [batch] }, 'text/csv'),
      `n,t\r\n${lines.join('\r\n')}\r\n`,
    );
  });

  test('a strict reader gets back what was written', async () => {
    const text = fc.string({
      unit: fc.oneof(
        fc.constantFrom('"', ',', '\r', '\n', ' ', ';', '\ufeff'),
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
      ),
    });
    const cell = fc.oneof(text, fc.constant(null), fc.integer(), fc.boolean());
    const table = fc.uniqueArray(text, { minLength: 2, maxLength: 5 }).chain((columns) =>
      fc.record({
        columns: fc.constant(columns),
        rows: fc.array(fc.tuple(...columns.map(() => cell)), { maxLength: 8 }),
        size: fc.integer({ min: 1, max: 4 }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(table, async ({ columns, rows, size }) => {
        const records = rows.map((row) =>
          Object.fromEntries(columns.map((column, index) => [column, row[index]])),
        );
        const csv = await encoded({ columns, batches: inBatches(records, size) }, 'text/csv');
        const expected = rows.map((row) => row.map((value) => (value === null ? null : String(value))));
        assert.deepEqual(parseCsv(csv), [columns, ...expected]);
      }),
      { numRuns: 500 },
    );
  });
});

describe('JSON', () => {
  const rows = fc.array(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), { maxLength: 10 });

  test('an array, and a line for each row', async () => {
    await fc.assert(
      fc.asyncProperty(rows, fc.integer({ min: 1, max: 4 }), async (given, size) => {
        const table = { columns: [], batches: inBatches(given, size) };
        const asWritten: unknown = JSON.parse(JSON.stringify(given));
        assert.deepEqual(JSON.parse(await encoded(table, 'application/json')), asWritten);
        const lines = (await encoded(table, 'application/x-ndjson')).split('\n');
        assert.equal(lines.pop(), '');
        assert.deepEqual(
          lines.map((line) => JSON.parse(line) as unknown),
          asWritten,
        );
      }),
    );
  });

  test('exact bytes; no digit is lost', async () => {
    const table = {
      columns: ['a'],
      batches: ['[]', ' [{"a": 12345678901234567890},\n{"a":1}] ', '[ ]', '[{"a":"x"}]'],
    };
    assert.equal(
      await encoded(table, 'application/json'),
      '[{"a": 12345678901234567890},\n{"a":1},{"a":"x"}]',
    );
    assert.equal(
      await encoded(table, 'application/x-ndjson'),
      '{"a":12345678901234567890}\n{"a":1}\n{"a":"x"}\n',
    );
    assert.equal(await encoded({ columns: ['a'], batches: [] }, 'application/json'), '[]');
    assert.equal(await encoded({ columns: ['a'], batches: [] }, 'application/x-ndjson'), '');
  });
});

test('one batch is read at a time, and the source is closed when the reader stops', async () => {
  for (const contentType of tableContentTypes) {
    let read = 0;
    let closed = false;
    async function* batches() {
      try {
        for (;;) {
          read += 1;
          yield '[{"a":1}]';
        }
      } finally {
        closed = true;
      }
    }
    let chunks = 0;
    for await (const chunk of encodeTable({ columns: ['a'], batches: batches() }, contentType)) {
      assert.ok(chunk.length > 0);
      chunks += 1;
      assert.ok(read <= chunks, `${contentType}: ${read} batches read for ${chunks} chunks`);
      if (chunks === 5) break;
    }
    assert.ok(closed, contentType);
  }
});

describe('refused', () => {
  for (const contentType of ['application/pdf', 'text', '', 'constructor', 'text/csv; charset=iso-8859-1']) {
    test(`${JSON.stringify(contentType)}, before anything is read`, () => {
      const batches = { [Symbol.iterator]: (): Iterator<string> => assert.fail('read') };
      assert.throws(
        () => encodeTable({ columns: ['a'], batches }, contentType),
        (error) => error instanceof TableEncodingError && error.kind === 'unsupported_content_type',
      );
    });
  }

  test('the message lists what is possible', () => {
    assert.throws(
      () => encodeTable({ columns: [], batches: [] }, 'application/pdf'),
      /"application\/pdf"; possible: text\/csv, text\/plain, application\/json, application\/x-ndjson/,
    );
  });

  test('rows that are no rows, and half of a surrogate pair', async () => {
    for (const contentType of tableContentTypes) {
      await assert.rejects(
        encoded({ columns: ['a'], batches: ['{"a":1}'] }, contentType),
        /no|not the JSON text/,
      );
    }
    for (const batch of ['[1]', '[[1]]', '[null]']) {
      await assert.rejects(
        encoded({ columns: ['a'], batches: [batch] }, 'text/csv'),
        /not the JSON text of an array of objects/,
      );
    }
    const bad = { columns: ['a', 'b'], batches: ['[{"a":1},{}]', '[{"b":"ok"},{"b":"\\ud83d"}]'] };
    await assert.rejects(encoded(bad, 'text/csv'), /surrogate pair.*: row 4, column "b"$/);
    assert.match(await encoded(bad, 'application/x-ndjson'), /"\\ud83d"/, 'JSON can carry it');
  });
});
