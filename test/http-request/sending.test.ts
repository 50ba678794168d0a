import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { startJobBench, type JobBench } from '../support/jobs.ts';

const ORDERS = 20;

/** Fills a table of the source `local`. */
async function seed({ app }: JobBench, table: string, records: unknown): Promise<void> {
  const { status, text } = await app('PUT', `/tables/local/main/${table}`, records);
  assert.equal(status, 201, text);
}

test('HTTPRequest: sending records to an external system', async (t) => {
  const bench = await startJobBench(t, { api: { orders: ORDERS } });
  await inserting(t, bench);
  await changingAndDeleting(t, bench);
  await uploading(t, bench);
  await refusedBeforeSending(t, bench);
});

async function inserting(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, rows } = bench;

  await t.test('one POST for each record, and the new ids come back into a table', async () => {
    await seed(bench, 'new_orders', [
      { number: 'A-1', amount: 12.5 },
      { number: 'A-2', amount: 0.1 },
    ]);
    const answer = await run({
      sourceTable: { source: 'local', table: 'new_orders' },
      request: {
        url: `${api.url}/orders`,
        method: 'POST',
        bodyType: 'JSON -> stringify()',
        body: { script: "return { amount: $ctx.data.amount, status: 'paid' };" },
      },
      target: {
        action: 'parse JSON',
        table: 'created',
        parsingScript:
          'return { data: [{ data: [{ number: $ctx.data.number, id: $ctx.response.body.id }] }] };',
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('created'), [
      { number: 'A-1', id: ORDERS + 1 },
      { number: 'A-2', id: ORDERS + 2 },
    ]);
    const sent = api.requestsTo('/orders');
    assert.deepEqual(
      sent.map(({ body, headers }) => [body.toString(), headers['content-type']]),
      [
        ['{"amount":12.5,"status":"paid"}', 'application/json'],
        ['{"amount":0.1,"status":"paid"}', 'application/json'],
      ],
    );
  });

  await t.test('a single POST without a source table and without a target', async () => {
    const answer = await run({
      request: {
        url: `${api.url}/orders`,
        method: 'POST',
        bodyType: 'JSON -> stringify()',
        body: '{"amount": 7, "status": "new"}',
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.body.result.output.pages, 1);
    assert.equal(api.requestsTo('/orders').at(-1)?.status, 201);
  });

  await t.test('bulk insert: batches of the batch size, $ctx.data an array', async () => {
    await seed(
      bench,
      'bulk',
      Array.from({ length: 250 }, (_, index) => ({
        number: index + 1,
        amount: index % 100 === 99 ? -1 : index,
      })),
    );
    const answer = await run({
      sourceTable: { source: 'local', table: 'bulk', batching: true, batchSize: 100 },
      request: {
        url: `${api.url}/orders/bulk`,
        method: 'POST',
        bodyType: 'JSON -> stringify()',
        body: { script: "return $ctx.data.map(({ amount }) => ({ amount, status: 'new' }));" },
      },
      target: {
        action: 'parse JSON',
        table: 'refused',
        parsingScript: `
          const refused = $ctx.response.body.results.filter(({ error }) => error);
          const data = refused.map(({ index, error }) => ({ number: $ctx.data[index].number, why: error.message }));
          return { data: [{ data }] };`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    const sizes = api
      .requestsTo('/orders/bulk')
      .map(({ body }) => JSON.parse(body.toString()).length as number);
    assert.deepEqual(sizes, [100, 100, 50]);
    assert.deepEqual([answer.body.result.stats.sourceRecords, answer.body.result.stats.total], [250, 250]);
    assert.deepEqual(
      (await rows('refused')).map(({ number }) => number),
      [100, 200],
      'each record that was refused is known by its own number',
    );
  });

  await t.test('the default batch size is 1000', async () => {
    await seed(
      bench,
      'many',
      Array.from({ length: 1001 }, (_, number) => ({ number })),
    );
    const before = api.requests.length;
    const answer = await run({
      sourceTable: { source: 'local', table: 'many', batching: true },
      request: {
        url: `${api.url}/echo`,
        method: 'POST',
        bodyType: 'JSON -> stringify()',
        body: { script: 'return $ctx.data;' },
      },
    });
    assert.equal(answer.status, 200, answer.text);
    const sizes = api.requests.slice(before).map(({ body }) => JSON.parse(body.toString()).length as number);
    assert.deepEqual(sizes, [1000, 1]);
  });

  await t.test('a batch that is refused fails the job with the status and what the system said', async () => {
    const before = api.requestsTo('/orders/bulk').length;
    const answer = await run({
      sourceTable: { source: 'local', table: 'bulk', batching: true, batchSize: 100 },
      request: {
        url: `${api.url}/orders/bulk?refuse=batch`,
        method: 'POST',
        bodyType: 'JSON -> stringify()',
        body: { script: "return $ctx.data.map(({ amount }) => ({ amount, status: 'new' }));" },
      },
    });
    assert.equal(answer.status, 502, answer.text);
    const { code, httpStatus, message } = answer.body.result;
    assert.deepEqual([code, httpStatus], ['http_status', 422]);
    assert.match(
      message,
      /POST .*\/orders\/bulk\?refuse=batch was answered by 422 .*1 of 100 orders are bad/,
    );
    assert.equal(api.requestsTo('/orders/bulk').length - before, 1, 'the batches behind it are not sent');
  });
}

async function changingAndDeleting(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, rows } = bench;

  await t.test('PATCH with a body', async () => {
    await seed(bench, 'changes', [
      { id: 1, status: 'shipped' },
      { id: 2, status: 'cancelled' },
    ]);
    const answer = await run({
      sourceTable: { source: 'local', table: 'changes' },
      request: {
        url: { script: `return '${api.url}/orders/' + $ctx.data.id;` },
        method: 'PATCH',
        bodyType: 'JSON -> stringify()',
        body: { script: "return _.pick($ctx.data, 'status');" },
        headers: "return { 'Content-Type': 'application/merge-patch+json' };",
      },
      target: {
        action: 'parse JSON',
        table: 'changed',
        parsingScript: "return { data: [{ data: [_.pick($ctx.response.body, 'id', 'status')] }] };",
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('changed'), [
      { id: 1, status: 'shipped' },
      { id: 2, status: 'cancelled' },
    ]);
    const [sent] = api.requestsTo('/orders/1');
    assert.deepEqual(
      [sent?.method, sent?.headers['content-type'], sent?.body.toString()],
      ['PATCH', 'application/merge-patch+json', '{"status":"shipped"}'],
    );
    assert.equal(api.orders.get(1)?.status, 'shipped');
  });

  await t.test('DELETE by id; a script that looks at the status takes charge of 404', async () => {
    await seed(bench, 'gone', [{ id: 3 }, { id: 4 }, { id: 9999 }]);
    const request = { url: { script: `return '${api.url}/orders/' + $ctx.data.id;` }, method: 'DELETE' };
    const answer = await run({
      sourceTable: { source: 'local', table: 'gone' },
      request,
      target: {
        action: 'parse JSON',
        table: 'deleted',
        parsingScript: `
          const { statusCode, body, bodyStr } = $ctx.response;
          if (statusCode !== 204 && statusCode !== 404) throw new Error('status ' + statusCode);
          return { data: [{ data: [{ id: $ctx.data.id, statusCode, empty: body === null && bodyStr === '' }] }] };`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await rows('deleted'), [
      { id: 3, statusCode: 204, empty: true },
      { id: 4, statusCode: 204, empty: true },
      { id: 9999, statusCode: 404, empty: false },
    ]);
    assert.equal(api.orders.get(3), undefined);

    const careless = await run({ sourceTable: { source: 'local', table: 'gone' }, request });
    assert.equal(careless.status, 502, careless.text);
    assert.equal(careless.body.result.httpStatus, 404, 'without such a script the first 404 fails the job');
  });

  await t.test('DELETE may carry a body', async () => {
    const answer = await run({
      request: { url: `${api.url}/echo`, method: 'DELETE', bodyType: 'string', body: 'why' },
    });
    assert.equal(answer.status, 200, answer.text);
    const sent = api.requestsTo('/echo').at(-1);
    assert.deepEqual(
      [sent?.method, sent?.body.toString(), sent?.headers['content-type']],
      ['DELETE', 'why', 'text/plain;charset=UTF-8'],
    );
  });
}

/** As the fake API describes it. */
interface Part {
  name: string;
  filename?: string;
  headers: Record<string, string>;
  sha256: string;
}

async function uploading(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, rows } = bench;
  const table = { sourceName: 'local', spaceName: 'main', tableName: 'upload' };
  const csv = 'id,name\r\n1,"Åse, the ""first"""\r\n2,\r\n';
  await seed(bench, 'upload', {
    records: [{ id: 1, name: 'Åse, the "first"' }, { id: 2 }],
    model: {
      columns: [
        { name: 'id', type: 'integer', position: 1 },
        { name: 'name', type: 'string', position: 2 },
      ],
    },
  });
  const target = {
    action: 'parse JSON',
    table: 'uploaded',
    parsingScript: `
      const parts = $ctx.response.body.parts ?? [$ctx.response.body];
      return { data: [{ data: parts.map((part) => ({ part })), mode: 'createThenAppend', format: 'JSON' }] };`,
    model: { columns: [{ name: 'part', type: 'json', position: 1 }] },
  };

  await t.test('multipart with a table as a file', async () => {
    const answer = await run({
      request: {
        url: `${api.url}/upload`,
        method: 'POST',
        bodyType: 'JSON -> form-data',
        body: JSON.stringify({
          comment: 'für Köln',
          list: { filename: 'list.csv', 'Content-Type': 'text/csv', file: table },
        }),
      },
      target,
    });
    assert.equal(answer.status, 200, answer.text);
    const parts = (await rows('uploaded')).map(({ part }) => part) as Part[];
    assert.deepEqual(
      parts.map(({ name, filename, headers, sha256 }) => [name, filename, headers['content-type'], sha256]),
      [
        ['comment', undefined, undefined, sha256('für Köln')],
        ['list', 'list.csv', 'text/csv', sha256(csv)],
      ],
    );
    const sent = api.requestsTo('/upload').at(-1);
    assert.match(sent?.headers['content-type'] ?? '', /^multipart\/form-data; ?boundary=/);
  });

  await t.test('a table as the body: its Content-Type builds the body and is no header', async () => {
    for (const [type, body] of [
      ['text/csv', csv],
      ['application/json', '[{"id":1,"name":"Åse, the \\"first\\""},{"id":2,"name":null}]'],
      ['application/x-ndjson', '{"id":1,"name":"Åse, the \\"first\\""}\n{"id":2,"name":null}\n'],
    ]) {
      const answer = await run({
        request: {
          url: `${api.url}/upload`,
          method: 'POST',
          headers: "return { 'Content-Type': 'application/octet-stream' };",
          bodyType: 'JSON -> transmitSourceTable()',
          body: JSON.stringify({ ...table, 'Content-Type': type }),
        },
      });
      assert.equal(answer.status, 200, answer.text);
      const sent = api.requestsTo('/upload').at(-1);
      assert.deepEqual(
        [sent?.body.toString(), sent?.headers['content-type']],
        [body, 'application/octet-stream'],
      );
    }
  });

  await t.test('a file that was saved is sent as its bytes are', async () => {
    const saved = await run({
      request: { url: `${api.url}/files/200000`, method: 'GET' },
      target: { action: 'save to file', space: 'in', table: 'data.bin' },
    });
    assert.equal(saved.status, 200, saved.text);
    const answer = await run({
      request: {
        url: `${api.url}/upload`,
        method: 'POST',
        bodyType: 'JSON -> transmitSourceTable()',
        body: JSON.stringify({ sourceName: 'files', spaceName: 'in', tableName: 'data.bin' }),
      },
      target,
    });
    assert.equal(answer.status, 200, answer.text);
    const [sent] = api.requestsTo('/upload').slice(-1);
    const download = await fetch(`${api.url}/files/200000`, { method: 'GET' });
    assert.equal(sent?.bodySha256, download.headers.get('x-checksum-sha256'));
    assert.equal(sent?.headers['content-length'], '200000', 'the length of a file is known');
  });
}

async function refusedBeforeSending(t: TestContext, { api, run }: JobBench): Promise<void> {
  const post = (more: Record<string, unknown>) =>
    run({ request: { url: `${api.url}/echo`, method: 'POST', ...more } });
  const cases: { name: string; request: Record<string, unknown>; status: number; message: RegExp }[] = [
    {
      name: 'a body of a JSON kind that is no JSON',
      request: { bodyType: 'JSON -> stringify()', body: '{"a": 1,}' },
      status: 422,
      message: /request\.body: .*JSON/,
    },
    {
      name: 'JSON -> octet-stream, with the contract’s advice',
      request: { bodyType: 'JSON -> octet-stream', body: '{}' },
      status: 400,
      message: /no longer supported\. Use "JSON -> transmitSourceTable\(\)"/,
    },
    {
      name: 'a body script that throws',
      request: { bodyType: 'JSON -> stringify()', body: { script: 'return $ctx.data.id;' } },
      status: 422,
      message: /request\.body.*TypeError/s,
    },
    {
      name: 'a table that is not there',
      request: {
        bodyType: 'JSON -> transmitSourceTable()',
        body: JSON.stringify({ sourceName: 'local', spaceName: 'main', tableName: 'uploat' }),
      },
      status: 422,
      message: /request.body.tableName: there is no table "uploat".*Did you mean "upload"/,
    },
    {
      name: 'a header with a line break',
      request: { headers: "return { 'X-A': 'a\\r\\nX-B: b' };" },
      status: 422,
      message: /request\.headers.*X-A/,
    },
    {
      name: 'a method that no setting allows',
      request: { method: 'PUT' },
      status: 400,
      message: /extraMethods/,
    },
  ];
  for (const { name, request, status, message } of cases) {
    await t.test(`refused before anything is sent: ${name}`, async () => {
      const before = api.requests.length;
      const answer = await post(request);
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.body.result.message, message);
      assert.equal(api.requests.length, before);
    });
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
