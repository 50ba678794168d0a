import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { badRequest, requestBench } from '../support/request-bench.ts';

/** Sends `$ctx.data` as it is. */
const post = {
  method: 'POST',
  bodyType: 'JSON -> stringify()',
  body: { script: 'return $ctx.data;' },
};

function numbered(count: number): { id: number }[] {
  return Array.from({ length: count }, (_, index) => ({ id: index + 1 }));
}

describe('Contract 2.3: source table (optional)', () => {
  const bench = requestBench();

  test('no source table: one request is made, and $ctx.data is null', async () => {
    const request = await bench().sendOne(post);
    assert.equal(request.body.toString(), 'null');
  });

  test('source, space, table: identify the source table', async () => {
    const { fill, send } = bench();
    await fill('customers', [{ name: 'main' }]);
    await fill('customers', [{ name: 'first of eu' }, { name: 'second of eu' }], 'eu');
    await fill('orders', [{ name: 'order' }], 'eu');
    const sent = await send(post, { sourceTable: { source: 'local', space: 'eu', table: 'customers' } });
    assert.deepEqual(
      sent.map(({ body }) => JSON.parse(body.toString())),
      [{ name: 'first of eu' }, { name: 'second of eu' }],
    );
  });

  test('source: one that is not there is refused, with the nearest name', async () => {
    const { refuse } = bench();
    const unknown = badRequest('sourceTable.source', /no TableSource "locl".*"local"/, 'unknown_source');
    await refuse(unknown, post, { sourceTable: { source: 'locl', table: 'customers' } });
  });

  test('source: one of another type is refused', async () => {
    const { refuse } = bench();
    const wrong = badRequest('sourceTable.source', /no TableSource "files".*Known: local/, 'unknown_source');
    await refuse(wrong, post, { sourceTable: { source: 'files', table: 'customers' } });
  });

  test('source: missing, or no string, is refused', async () => {
    const { refuse } = bench();
    for (const source of [undefined, 5, '']) {
      await refuse(badRequest('sourceTable.source', /sourceTable\.source/), post, {
        sourceTable: { source, table: 'customers' },
      });
    }
  });

  test('space: left out, it is the default space of the source', async () => {
    const { fill, sendOne } = bench();
    await fill('spaces', [{ space: 'main' }]);
    await fill('spaces', [{ space: 'eu' }], 'eu');
    const { body } = await sendOne(post, { sourceTable: { source: 'local', table: 'spaces' } });
    assert.deepEqual(JSON.parse(body.toString()), { space: 'main' });
  });

  test('space: in one that does not have the table, the table is refused', async () => {
    const { fill, refuse } = bench();
    await fill('here', [{ id: 1 }]);
    const unknown = badRequest('sourceTable.table', /no table "here" in the space "x"/, 'unknown_table');
    await refuse(unknown, post, { sourceTable: { source: 'local', space: 'x', table: 'here' } });
  });

  test('table: one that is not there is refused, with the nearest name', async () => {
    const { fill, refuse } = bench();
    await fill('invoices', [{ id: 1 }]);
    const unknown = badRequest('sourceTable.table', /no table "invoces".*mean "invoices"\?/, 'unknown_table');
    await refuse(unknown, post, { sourceTable: { source: 'local', table: 'invoces' } });
  });

  test('table: missing, it is refused', async () => {
    const missing = badRequest('sourceTable.table', /is needed; only the source "input"/);
    await bench().refuse(missing, post, { sourceTable: { source: 'local' } });
  });

  test('table: any name that the database takes', async () => {
    const { fill, sendOne } = bench();
    const table = 'Käufer "x"; DROP TABLE y --';
    await fill(table, [{ id: 1 }]);
    const { body } = await sendOne(post, { sourceTable: { source: 'local', table } });
    assert.deepEqual(JSON.parse(body.toString()), { id: 1 });
  });

  test('table: without records, no request is made and the job succeeds', async () => {
    const { app, send } = bench();
    await app('PUT', '/tables/local/main/nobody', {
      records: [],
      model: { columns: [{ name: 'id', type: 'integer', position: 1 }] },
    });
    for (const batching of [false, true]) {
      const sourceTable = { source: 'local', table: 'nobody', batching };
      assert.deepEqual(await send(post, { sourceTable }), []);
    }
  });

  test('batching: off by default, one request per source record, and $ctx.data is an object', async () => {
    const { fill, send } = bench();
    const records = [
      { id: 1, name: 'Ünal', active: true, credit: 1.5, note: null },
      { id: 2, name: '', active: false, credit: -2, note: 'n' },
    ];
    await fill('singly', records);
    for (const sourceTable of [
      { source: 'local', table: 'singly' },
      { source: 'local', table: 'singly', batching: false },
      { source: 'local', table: 'singly', batching: false, batchSize: 2 },
    ]) {
      const sent = await send(post, { sourceTable });
      assert.deepEqual(
        sent.map(({ body }) => JSON.parse(body.toString())),
        records,
      );
    }
  });

  test('batching: enables sending many source records in one request, and $ctx.data is an array', async () => {
    const { fill, sendOne } = bench();
    await fill('together', numbered(3));
    const sourceTable = { source: 'local', table: 'together', batching: true };
    const { body } = await sendOne(post, { sourceTable });
    assert.deepEqual(JSON.parse(body.toString()), numbered(3));
  });

  test('batching: an array also where the batch has one record', async () => {
    const { fill, sendOne } = bench();
    await fill('alone', [{ id: 7 }]);
    const { body } = await sendOne(post, {
      sourceTable: { source: 'local', table: 'alone', batching: true },
    });
    assert.deepEqual(JSON.parse(body.toString()), [{ id: 7 }]);
  });

  test('batching: all scripts of a request see the same record', async () => {
    const { fill, send } = bench();
    await fill('seen', numbered(2));
    const sent = await send(
      {
        ...post,
        url: { script: `return '${bench().api.url}/echo?url=' + $ctx.data.id;` },
        parameters: 'return { parameters: $ctx.data.id };',
        headers: 'return { "X-Headers": $ctx.data.id };',
        interceptors: 'return [{ name: "extendRequest", params: { headers: { "X-Last": $ctx.data.id } } }];',
      },
      { sourceTable: { source: 'local', table: 'seen' } },
    );
    assert.deepEqual(
      sent.map(({ query, headers, body }) => [
        query.get('url'),
        query.get('parameters'),
        headers['x-headers'],
        headers['x-last'],
        body.toString(),
      ]),
      ['1', '2'].map((id) => [id, id, id, id, `{"id":${id}}`]),
    );
  });

  test('batching: a boolean, else it is refused', async () => {
    const { refuse } = bench();
    for (const batching of ['true', 1, null]) {
      await refuse(badRequest('sourceTable.batching', /expected boolean/), post, {
        sourceTable: { source: 'local', table: 'customers', batching },
      });
    }
  });

  test('batch size: integer, default 1000', async () => {
    const { fill, send } = bench();
    await fill('many', numbered(2500));
    const sent = await send(post, { sourceTable: { source: 'local', table: 'many', batching: true } });
    const batches = sent.map(({ body }) => JSON.parse(body.toString()) as unknown[]);
    assert.deepEqual(
      batches.map(({ length }) => length),
      [1000, 1000, 500],
    );
    assert.deepEqual(batches.flat(), numbered(2500));
  });

  test('batch size: so many records in one request, the last one takes what is left', async () => {
    const { fill, send } = bench();
    await fill('sized', numbered(7));
    const sourceTable = { source: 'local', table: 'sized', batching: true, batchSize: 3 };
    const sent = await send(post, { sourceTable });
    assert.deepEqual(
      sent.map(({ body }) => JSON.parse(body.toString()).map(({ id }: { id: number }) => id)),
      [[1, 2, 3], [4, 5, 6], [7]],
    );
  });

  test('batch size: no integer above 0 is refused', async () => {
    const { refuse } = bench();
    for (const batchSize of ['1000', 1.5, 0, -1, null]) {
      await refuse(badRequest('sourceTable.batchSize', /sourceTable\.batchSize/), post, {
        sourceTable: { source: 'local', table: 'customers', batching: true, batchSize },
      });
    }
  });

  test('an unknown property is refused, with the nearest name', async () => {
    const unknown = badRequest('sourceTable.batchsize', /Did you mean "batchSize"\?/);
    await bench().refuse(unknown, post, {
      sourceTable: { source: 'local', table: 'customers', batchsize: 10 },
    });
  });

  test('doWhile runs to its end for each record, then the next one begins at the configured URL', async () => {
    const { fill, send, api } = bench();
    await fill('looped', numbered(2));
    const sent = await send(
      { ...post, url: '/echo?page=1' },
      {
        sourceTable: { source: 'local', table: 'looped' },
        target: {
          action: 'parse JSON',
          parsingScript: `
            const page = Number($ctx.response.body.query[0][1]);
            return { doWhile: page < 3 && { url: '${api.url}/echo?page=' + (page + 1) } };`,
        },
      },
    );
    assert.deepEqual(
      sent.map(({ query, body }) => [JSON.parse(body.toString()).id, query.get('page')]),
      [1, 2].flatMap((id) => ['1', '2', '3'].map((page) => [id, page])),
    );
  });
});
