import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { fileChecksum, multipartParts, type ReceivedRequest } from '../support/external-api.ts';
import { badConfiguration, badRequest, requestBench } from '../support/request-bench.ts';

const records = [
  { id: 1, name: 'Ünal, "the first"', credit: 1.5, note: null },
  { id: 2, name: 'two\nlines', credit: -2, note: '' },
];
const asCsv = 'id,name,credit,note\r\n1,"Ünal, ""the first""",1.5,\r\n2,"two\nlines",-2,""\r\n';

function json(content: unknown) {
  return { method: 'POST', body: JSON.stringify(content) };
}

describe('Contract 2.3: body types', () => {
  const bench = requestBench();

  test('a name that is none of the six is refused, with the nearest one and those that can be used', async () => {
    const { refuse } = bench();
    const message = new RegExp(
      'Did you mean "JSON -> stringify\\(\\)"\\? Known: string, JSON -> stringify\\(\\), JSON -> form-data, ' +
        'JSON -> x-www-form-urlencoded, JSON -> transmitSourceTable\\(\\)$',
    );
    await refuse(badRequest('request.bodyType', message), { ...json({}), bodyType: 'JSON -> stringify' });
    for (const bodyType of ['String', 'json', '', 5, null]) {
      await refuse(badRequest('request.bodyType', /is no body type/), { ...json({}), bodyType });
    }
  });

  // ---- string

  test('string: a string transmitted as it is', async () => {
    const body = 'a=1 & "b" \r\n\t{ é 😀';
    const request = await bench().sendOne({ method: 'POST', bodyType: 'string', body });
    assert.equal(request.body.toString(), body);
    assert.equal(request.headers['content-type'], 'text/plain;charset=UTF-8');
    assert.equal(request.headers['content-length'], String(Buffer.byteLength(body)));
  });

  test('string: a Content-Type of the Headers script stays', async () => {
    const { headers } = await bench().sendOne({
      method: 'POST',
      bodyType: 'string',
      body: '<a/>',
      headers: 'return { "content-type": "application/xml" };',
    });
    assert.equal(headers['content-type'], 'application/xml');
  });

  // ---- JSON -> stringify()

  test('JSON -> stringify(): an object serialized to a string', async () => {
    const { sendOne } = bench();
    const body = { script: 'return { id: $ctx.data, list: [1, { a: "é" }] };' };
    const request = await sendOne({ method: 'POST', bodyType: 'JSON -> stringify()', body });
    assert.equal(request.body.toString(), '{"id":null,"list":[1,{"a":"é"}]}');
    assert.equal(request.headers['content-type'], 'application/json');
  });

  test('JSON -> stringify(): a text that is JSON, with every digit of its numbers', async () => {
    const body = '{"id": 12345678901234567890, "price": 0.10000000000000000001}';
    const request = await bench().sendOne({ method: 'POST', bodyType: 'JSON -> stringify()', body });
    assert.equal(request.body.toString(), body);
  });

  test('JSON -> stringify(): a Content-Type of the Headers script stays', async () => {
    const { headers } = await bench().sendOne({
      ...json({}),
      bodyType: 'JSON -> stringify()',
      headers: 'return { "Content-Type": "application/vnd.api+json" };',
    });
    assert.equal(headers['content-type'], 'application/vnd.api+json');
  });

  // ---- JSON -> form-data

  const form = (content: unknown) => ({ ...json(content), url: '/upload', bodyType: 'JSON -> form-data' });

  function partsOf(request: ReceivedRequest) {
    const parts = multipartParts(request) ?? [];
    return parts.map(({ name, filename, headers, body }) => ({
      name,
      filename,
      type: headers['content-type'],
      text: body.toString(),
    }));
  }

  test('JSON -> form-data: each property name is a form field name and its value is the field value', async () => {
    const request = await bench().sendOne(
      form({ name: 'Ünal', count: 3, on: true, none: null, more: { a: 1 } }),
    );
    assert.match(request.headers['content-type'] ?? '', /^multipart\/form-data; boundary=/);
    assert.deepEqual(
      partsOf(request).map(({ name, text }) => [name, text]),
      [
        ['name', 'Ünal'],
        ['count', '3'],
        ['on', 'true'],
        ['none', ''],
        ['more', '{"a":1}'],
      ],
    );
  });

  test('JSON -> form-data: a source table as a field, by filename, Content-Type and file', async () => {
    const { fill, sendOne } = bench();
    await fill('form_csv', records);
    const file = { sourceName: 'local', spaceName: 'main', tableName: 'form_csv' };
    const request = await sendOne(
      form({ kind: 'orders', upload: { filename: 'orders "1".csv', 'Content-Type': 'text/csv', file } }),
    );
    assert.deepEqual(partsOf(request), [
      { name: 'kind', filename: undefined, type: undefined, text: 'orders' },
      { name: 'upload', filename: 'orders %221%22.csv', type: 'text/csv', text: asCsv },
    ]);
  });

  test('JSON -> form-data: this Content-Type is used to build the body and is not added to the headers', async () => {
    const { fill, sendOne } = bench();
    await fill('form_json', records);
    const file = { sourceName: 'local', tableName: 'form_json' };
    const request = await sendOne(
      form({ up: { filename: 'f.json', 'Content-Type': 'application/json', file } }),
    );
    assert.match(request.headers['content-type'] ?? '', /^multipart\/form-data; boundary=[^;]+$/);
    assert.deepEqual(
      partsOf(request).map(({ type, text }) => [type, JSON.parse(text)]),
      [['application/json', records]],
    );
  });

  test('JSON -> form-data: the default of this Content-Type is text/plain', async () => {
    const { fill, sendOne } = bench();
    await fill('form_plain', records);
    const file = { sourceName: 'local', tableName: 'form_plain' };
    const [part] = partsOf(await sendOne(form({ up: { filename: 'f.txt', file } })));
    assert.deepEqual([part?.type, part?.text], ['text/plain', asCsv]);
  });

  test('JSON -> form-data: a table of a file source is sent as its bytes are', async () => {
    const { send, sendOne, api } = bench();
    await send({ url: '/files/200000' }, { target: { action: 'save to file', table: 'form.bin' } });
    const file = { sourceName: 'files', tableName: 'form.bin' };
    const upload = { filename: 'f.bin', 'Content-Type': 'application/octet-stream', file };
    const request = await sendOne(form({ first: 1, upload, last: 2 }));
    assert.deepEqual(
      (multipartParts(request) ?? []).map(({ name }) => name),
      ['first', 'upload', 'last'],
    );
    const [, part] = multipartParts(request) ?? [];
    const sha256 = createHash('sha256')
      .update(part?.body ?? '')
      .digest('hex');
    assert.equal(sha256, await fileChecksum(200_000));
    assert.equal(
      request.headers['content-length'],
      String(request.bodyBytes),
      'its length is known beforehand',
    );
    assert.equal(api.requests.length, 1);
  });

  test('JSON -> form-data: an object, else it is refused', async () => {
    const { refuse } = bench();
    for (const content of [[1], 'text', 5, null]) {
      await refuse(badConfiguration('request.body', /must be an object/), form(content));
    }
  });

  test('JSON -> form-data: a wrong file is refused and named', async () => {
    const { refuse, fill } = bench();
    await fill('form_there', [{ id: 1 }]);
    const file = { sourceName: 'local', tableName: 'form_there' };
    for (const [up, path, message] of [
      [{ file }, 'filename', /is missing/],
      [{ filename: 'f', 'Content-type': 'text/csv', file }, 'Content-type', /Did you mean "Content-Type"/],
      [
        { filename: 'f', file: { sourceName: 'local', table: 'x', tableName: 'x' } },
        'file.table',
        /tableName/,
      ],
      [{ filename: 'f', file: { tableName: 'x' } }, 'file.sourceName', /is missing/],
    ] as const) {
      await refuse(badConfiguration(`request.body.up.${path}`, message), form({ up }));
    }
    const gone = { filename: 'f', file: { sourceName: 'local', tableName: 'form_here' } };
    const unknown = /no table "form_here".*Did you mean "form_there"/;
    await refuse(
      badConfiguration('request.body.up.file.tableName', unknown, 'unknown_table'),
      form({ up: gone }),
    );
    const elsewhere = { filename: 'f', file: { sourceName: 'locl', tableName: 'form_there' } };
    await refuse(
      badConfiguration('request.body.up.file.sourceName', /mean "local"/, 'unknown_source'),
      form({ up: elsewhere }),
    );
  });

  // ---- JSON -> x-www-form-urlencoded

  const urlencoded = (content: unknown) => ({ ...json(content), bodyType: 'JSON -> x-www-form-urlencoded' });

  test('JSON -> x-www-form-urlencoded: properties encoded as URL-encoded name/value pairs', async () => {
    const request = await bench().sendOne(
      urlencoded({ 'na me': 'a b&c=d', é: "'+*~", n: 1.5, on: false, none: null, list: ['x', 'y'] }),
    );
    assert.equal(
      request.body.toString(),
      'na%20me=a%20b%26c%3Dd&%C3%A9=%27%2B%2A~&n=1.5&on=false&none=&list=x&list=y',
    );
    assert.equal(request.headers['content-type'], 'application/x-www-form-urlencoded');
  });

  test('JSON -> x-www-form-urlencoded: an object, else it is refused', async () => {
    const { refuse } = bench();
    for (const content of [[1], 'a=1', null]) {
      await refuse(badConfiguration('request.body', /must be an object/), urlencoded(content));
    }
  });

  // ---- JSON -> octet-stream

  test('JSON -> octet-stream: no longer supported; the refusal gives the advice of the contract', async () => {
    const advice = new RegExp(
      'no longer supported\\. Use "JSON -> transmitSourceTable\\(\\)".*' +
        'add the header Content-Type with value application/octet-stream explicitly if needed',
    );
    await bench().refuse(badRequest('request.bodyType', advice), {
      ...json({ sourceName: 'local', tableName: 'x' }),
      bodyType: 'JSON -> octet-stream',
    });
  });

  test('JSON -> octet-stream: what the advice says works', async () => {
    const { send, sendOne } = bench();
    await send({ url: '/files/1000' }, { target: { action: 'save to file', table: 'advice.bin' } });
    const request = await sendOne({
      ...transmit({ sourceName: 'files', tableName: 'advice.bin' }),
      headers: 'return { "Content-Type": "application/octet-stream" };',
    });
    assert.equal(request.headers['content-type'], 'application/octet-stream');
    assert.equal(request.bodySha256, await fileChecksum(1000));
  });

  // ---- JSON -> transmitSourceTable()

  const transmit = (content: unknown) => ({ ...json(content), bodyType: 'JSON -> transmitSourceTable()' });

  test('JSON -> transmitSourceTable(): the content of the named source table, as its Content-Type asks', async () => {
    const { fill, sendOne } = bench();
    await fill('transmit', records);
    const content = async (contentType?: string) => {
      const table = { sourceName: 'local', spaceName: 'main', tableName: 'transmit' };
      const request = await sendOne(
        transmit({ ...table, ...(contentType && { 'Content-Type': contentType }) }),
      );
      return request.body.toString();
    };
    assert.equal(await content('text/csv'), asCsv);
    assert.equal(await content('text/csv; charset=UTF-8'), asCsv);
    assert.equal(await content('text/plain'), asCsv);
    assert.equal(await content(), asCsv);
    assert.deepEqual(JSON.parse(await content('application/json')), records);
    const lines = (await content('application/x-ndjson')).split('\n');
    assert.equal(lines.pop(), '');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      records,
    );
  });

  test('JSON -> transmitSourceTable(): the optional Content-Type is not added to the headers', async () => {
    const { fill, sendOne } = bench();
    await fill('transmit_type', records);
    const table = { sourceName: 'local', tableName: 'transmit_type', 'Content-Type': 'text/csv' };
    assert.equal((await sendOne(transmit(table))).headers['content-type'], undefined);
    const { headers } = await sendOne({
      ...transmit(table),
      headers: 'return { "Content-Type": "application/vnd.orders" };',
    });
    assert.equal(headers['content-type'], 'application/vnd.orders');
  });

  test('JSON -> transmitSourceTable(): all records of a large table, in their order', async () => {
    const { fill, sendOne } = bench();
    const many = Array.from({ length: 5000 }, (_, index) => ({ id: index + 1, text: `record ${index + 1}` }));
    await fill('transmit_many', many);
    const table = { sourceName: 'local', tableName: 'transmit_many', 'Content-Type': 'application/json' };
    const request = await sendOne(transmit(table));
    assert.deepEqual(JSON.parse(request.body.toString()), many);
  });

  test('JSON -> transmitSourceTable(): the content of a file is sent as its bytes are', async () => {
    const { send, sendOne } = bench();
    const target = { action: 'save to file', space: 'in/box', table: 'transmit.bin' };
    await send({ url: '/files/300000?chunked=true' }, { target });
    const request = await sendOne(
      transmit({
        sourceName: 'files',
        spaceName: 'in/box',
        tableName: 'transmit.bin',
        'Content-Type': 'text/csv',
      }),
    );
    assert.equal(request.bodySha256, await fileChecksum(300_000));
    assert.equal(request.headers['content-length'], '300000');
    assert.equal(request.headers['content-type'], undefined);
  });

  test('JSON -> transmitSourceTable(): the table may be chosen by a script', async () => {
    const { fill, send } = bench();
    await fill('chosen_1', [{ a: 1 }]);
    await fill('chosen_2', [{ a: 2 }]);
    await fill('choices', [{ choice: 'chosen_2' }, { choice: 'chosen_1' }]);
    const sent = await send(
      {
        method: 'POST',
        bodyType: 'JSON -> transmitSourceTable()',
        body: { script: 'return { sourceName: "local", tableName: $ctx.data.choice };' },
      },
      { sourceTable: { source: 'local', table: 'choices' } },
    );
    assert.deepEqual(
      sent.map(({ body }) => body.toString()),
      ['a\r\n2\r\n', 'a\r\n1\r\n'],
    );
  });

  test('JSON -> transmitSourceTable(): what is not there, or cannot be sent so, is refused and named', async () => {
    const { fill, refuse } = bench();
    await fill('transmit_there', [{ id: 1 }]);
    const table = { sourceName: 'local', tableName: 'transmit_there' };
    await refuse(
      badConfiguration('request.body.tableName', /Did you mean "transmit_there"/, 'unknown_table'),
      transmit({ ...table, tableName: 'transmit_here' }),
    );
    await refuse(
      badConfiguration('request.body.sourceName', /Did you mean "local"/, 'unknown_source'),
      transmit({ ...table, sourceName: 'locl' }),
    );
    await refuse(
      { status: 422, code: 'file_error', message: /the file "none.csv" does not exist/ },
      transmit({ sourceName: 'files', tableName: 'none.csv' }),
    );
    await refuse(
      badConfiguration('request.body.sourcename', /Did you mean "sourceName"/),
      transmit({ ...table, sourcename: 'local' }),
    );
    await refuse(badConfiguration('request.body.tableName', /is missing/), transmit({ sourceName: 'local' }));
    await refuse(
      badConfiguration(
        'request.body.Content-Type',
        /"application\/xml".*text\/csv, text\/plain, application\/json/,
      ),
      transmit({ ...table, 'Content-Type': 'application/xml' }),
    );
    await refuse(badConfiguration('request.body', /must be an object/), transmit([table]));
  });
});
