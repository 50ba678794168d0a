import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { fileChecksum } from '../support/external-api.ts';
import { badRequest, requestBench } from '../support/request-bench.ts';

const saveTo = (table: string, more: object = {}) => ({ target: { action: 'save to file', table, ...more } });

describe('Contract 2.3: target', () => {
  const bench = requestBench();

  test('Action is one of: save to file, parse JSON; else it is refused', async () => {
    const { refuse } = bench();
    for (const action of ['parse json', 'parseJSON', 'save', '', null, undefined]) {
      const wrong = badRequest('target.action', /'save to file' \| 'parse JSON'/);
      await refuse(wrong, {}, { target: { action, table: 'x' } });
    }
  });

  // ---- save to file

  test('save to file: the response body is saved into the file, byte by byte', async () => {
    const { send, file } = bench();
    await send({ url: '/files/1234567?chunked=true' }, saveTo('bytes.bin'));
    const bytes = (await file('bytes.bin')) ?? Buffer.alloc(0);
    assert.equal(createHash('sha256').update(bytes).digest('hex'), await fileChecksum(1_234_567));
  });

  test('save to file: the file is named by Target source, Target space and Target table', async () => {
    const { run, file, api } = bench();
    const target = { action: 'save to file', source: 'files', space: 'a/b c', table: 'é "1".json' };
    const answer = await run({ request: { url: `${api.url}/echo?named`, method: 'GET' }, target });
    assert.equal(answer.status, 200, answer.text);
    const { bytes } = answer.body.result.stats;
    assert.deepEqual(answer.body.result.output.files, [{ space: 'a/b c', name: 'é "1".json', bytes }]);
    assert.match((await file('é "1".json', 'a/b c'))?.toString() ?? '', /\/echo\?named/);
    assert.equal(await file('é "1".json'), null);
  });

  test('save to file: without Target source and space it is the default space of the source files', async () => {
    const { send, file } = bench();
    await send({ url: '/echo?default' }, saveTo('default.json'));
    assert.match((await file('default.json'))?.toString() ?? '', /\/echo\?default/);
  });

  test('save to file: what was there before is replaced by a later job', async () => {
    const { send, file } = bench();
    await send({ url: '/files/5000' }, saveTo('again.bin'));
    await send({ url: '/files/10' }, saveTo('again.bin'));
    assert.equal((await file('again.bin'))?.byteLength, 10);
  });

  test('save to file: with a source table, a number goes before the extension of the 2nd and later files', async () => {
    const { fill, send, file } = bench();
    await fill('saves', [{ id: 'one' }, { id: 'two' }, { id: 'three' }]);
    for (const [table, names] of Object.entries({
      'page.json': ['page.json', 'page-2.json', 'page-3.json'],
      'archive.tar.gz': ['archive.tar.gz', 'archive-2.tar.gz', 'archive-3.tar.gz'],
      plain: ['plain', 'plain-2', 'plain-3'],
    })) {
      await send(
        { parameters: 'return { id: $ctx.data.id };' },
        { ...saveTo(table), sourceTable: { source: 'local', table: 'saves' } },
      );
      const ids: string[] = [];
      for (const name of names) ids.push(JSON.parse((await file(name))?.toString() ?? 'null').query[0][1]);
      assert.deepEqual(ids, ['one', 'two', 'three']);
    }
  });

  test('save to file: the body is decompressed and stays as it is otherwise', async () => {
    const { send, file } = bench();
    await send({ url: '/gzip' }, saveTo('gzip.json'));
    assert.equal(typeof JSON.parse((await file('gzip.json'))?.toString() ?? ''), 'object');
    await send({ url: '/malformed-json' }, saveTo('malformed.json'));
    assert.ok(((await file('malformed.json'))?.byteLength ?? 0) > 0);
    await send({ url: '/no-content' }, saveTo('empty'));
    assert.equal((await file('empty'))?.byteLength, 0);
  });

  test('save to file: a status other than 2xx fails the job, and no file is written', async () => {
    const { run, file, api } = bench();
    const answer = await run({
      request: { url: `${api.url}/status/404`, method: 'GET' },
      ...saveTo('missing'),
    });
    assert.deepEqual([answer.status, answer.body.result.httpStatus], [502, 404], answer.text);
    assert.equal(await file('missing'), null);
  });

  test('save to file: a body that is cut short fails the job, and what was there before stays', async () => {
    const { run, send, file, api } = bench();
    await send({ url: '/files/77' }, saveTo('kept.bin'));
    const options = { retry: false };
    const url = `${api.url}/files/500000?cut=250000`;
    const answer = await run({ request: { url, method: 'GET', options }, ...saveTo('kept.bin') });
    assert.deepEqual([answer.status, answer.body.result.code], [502, 'malformed_response'], answer.text);
    assert.equal((await file('kept.bin'))?.byteLength, 77);
  });

  test('save to file: a name that leaves the folder, or is none, is refused', async () => {
    const { refuse } = bench();
    for (const table of ['../x', 'a/b', '..', '.', 'a\\b', 'a\u0000b']) {
      await refuse(badRequest('target.table', /target\.table/), {}, saveTo(table));
    }
    for (const space of ['..', '/etc', 'a/../b', 'a//b']) {
      await refuse(badRequest('target.space', /target\.space/), {}, saveTo('x', { space }));
    }
    await refuse(badRequest('target.table', /expected string/), {}, { target: { action: 'save to file' } });
  });

  test('save to file: a source of another type is refused', async () => {
    const { refuse } = bench();
    const wrong = badRequest('target.source', /no FileSource "local".*Known: files/, 'unknown_source');
    await refuse(wrong, {}, saveTo('x', { source: 'local' }));
  });

  // ---- parse JSON

  test('parse JSON: the response body is parsed as JSON and passed to a Parsing script', async () => {
    const { send, rows } = bench();
    await send(
      { url: '/orders/by-page?size=3&page=1' },
      {
        target: {
          action: 'parse JSON',
          table: 'parsed',
          parsingScript: `
            const { body, bodyStr } = $ctx.response;
            const same = JSON.stringify(JSON.parse(bodyStr)) === JSON.stringify(body);
            return { data: [{ data: body.items.map(({ id }) => ({ id, same: String(same) })) }] };`,
        },
      },
    );
    const parsed = await rows('parsed');
    assert.equal(parsed.length, 3);
    assert.ok(parsed.every(({ same }) => same === 'true'));
  });

  test('parse JSON: Target source, space, table and model are where the records go', async () => {
    const { send, rows, columns } = bench();
    const model = {
      columns: [
        { name: 'b', type: 'string', position: 2 },
        { name: 'a', type: 'integer', position: 1 },
      ],
    };
    const parsingScript = 'return { data: [{ data: [{ a: 1, b: "x", c: true }] }] };';
    const target = {
      action: 'parse JSON',
      source: 'local',
      space: 'eu',
      table: 'placed',
      model,
      parsingScript,
    };
    await send({}, { target });
    assert.deepEqual(await rows('placed', 'eu'), [{ a: 1, b: 'x' }]);
    assert.deepEqual(
      (await columns('placed', 'eu'))?.map(({ name }) => name),
      ['a', 'b'],
    );
  });

  test('parse JSON: a model by its name', async () => {
    const { app, send, rows } = bench();
    const columns = [{ name: 'only', type: 'string', position: 1 }];
    const written = await app('PUT', '/models/onlyOne', { name: 'onlyOne', columns });
    assert.ok(written.status < 300, written.text);
    const parsingScript = 'return { data: [{ data: [{ only: "x", more: 1 }] }] };';
    const target = { action: 'parse JSON', table: 'modelled', model: 'onlyOne', parsingScript };
    await send({}, { target });
    assert.deepEqual(await rows('modelled'), [{ only: 'x' }]);
  });

  test('parse JSON: a model that is not there is refused, with the nearest name', async () => {
    const { app, refuse } = bench();
    const columns = [{ name: 'id', type: 'integer', position: 1 }];
    await app('PUT', '/models/customer', { name: 'customer', columns });
    const unknown = badRequest(
      'target.model',
      /no model "custmer".*Did you mean "customer"/,
      'unknown_model',
    );
    const target = { action: 'parse JSON', table: 'x', model: 'custmer', parsingScript: 'return {};' };
    await refuse(unknown, {}, { target });
  });

  test('parse JSON: a model of the wrong form is refused and named', async () => {
    const { refuse } = bench();
    const column = { name: 'a', type: 'string', position: 1 };
    for (const [model, path, message] of [
      [5, 'model', /expected string or object/],
      [{ columns: [] }, 'model.columns', /model\.columns/],
      [{ column: [column] }, 'model.column', /Did you mean "columns"\?/],
      [{ columns: [{ ...column, type: 'text' }] }, 'model.columns[0].type', /"string".*"integer"/],
      [{ columns: [{ ...column, position: 1.5 }] }, 'model.columns[0].position', /expected int/],
      [{ columns: [{ ...column, psition: 1 }] }, 'model.columns[0].psition', /Did you mean "position"\?/],
      [{ columns: [column, column] }, 'model.columns', /names of the columns must differ/],
    ] as const) {
      await refuse(
        badRequest(`target.${path}`, message),
        {},
        {
          target: { action: 'parse JSON', table: 'x', model, parsingScript: 'return {};' },
        },
      );
    }
  });

  test('parse JSON: a source that is not there, or of another type, is refused', async () => {
    const { refuse } = bench();
    for (const [source, message] of [
      ['files', /no TableSource "files".*Known: local/],
      ['locale', /Did you mean "local"\?/],
    ] as const) {
      await refuse(
        badRequest('target.source', message, 'unknown_source'),
        {},
        {
          target: { action: 'parse JSON', source, table: 'x', parsingScript: 'return {};' },
        },
      );
    }
  });

  test('parse JSON: without a Parsing script nothing is loaded', async () => {
    const { send, columns } = bench();
    await send({ url: '/orders/by-page' }, { target: { action: 'parse JSON', table: 'unparsed' } });
    assert.equal(await columns('unparsed'), undefined);
  });

  test('parse JSON: a body that is no JSON fails the job, with position and excerpt', async () => {
    const { run, api } = bench();
    const answer = await run({
      request: { url: `${api.url}/malformed-json`, method: 'GET' },
      target: {
        action: 'parse JSON',
        table: 'x',
        parsingScript: 'return { data: [{ data: $ctx.response.body }] };',
      },
    });
    assert.deepEqual([answer.status, answer.body.result.code], [502, 'malformed_response'], answer.text);
    assert.match(answer.body.result.message, /position|line \d+/);
  });

  // ---- both

  test('an unknown property is refused, with the nearest name of its action', async () => {
    const { refuse } = bench();
    const parse = { action: 'parse JSON', table: 'x' };
    const known =
      /Did you mean "parsingScript"\? Known: action, source, space, table, model, parsingScript, mapping$/;
    await refuse(
      badRequest('target.parsingScripts', known),
      {},
      { target: { ...parse, parsingScripts: 'return' } },
    );
    await refuse(
      badRequest('target.tabel', /mean "table"\? Known: action, source, space, table$/),
      {},
      {
        target: { action: 'save to file', table: 'x', tabel: 'y' },
      },
    );
    await refuse(
      badRequest('target.parsingScript', /not known here/),
      {},
      saveTo('x', { parsingScript: 'return' }),
    );
  });
});
