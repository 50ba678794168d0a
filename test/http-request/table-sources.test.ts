import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { mariadbDatabase, postgresDatabase, type TestDatabase } from '../support/databases.ts';
import { eventually, failure, sharedBench } from '../support/shared-bench.ts';

const RECORDS = Array.from({ length: 25 }, (_, index) => ({ id: index + 1, name: `name ${index + 1}` }));

const kinds = { postgres: await postgresDatabase(), mariadb: await mariadbDatabase() };

describe('Tables of other databases', () => {
  const bench = sharedBench({ api: { orders: 50 } });
  after(async () => {
    for (const kind of Object.values(kinds)) if ('remove' in kind) await kind.remove();
  });

  const spaceOf = (kind: string, { url }: TestDatabase) =>
    kind === 'postgres' ? 'public' : new URL(url).pathname.slice(1);

  for (const [kind, database] of Object.entries(kinds)) {
    const skip = 'missing' in database ? database.missing : false;
    describe(kind, { skip }, () => {
      if ('missing' in database) return;
      const space = spaceOf(kind, database);
      const rowsOf = async (table: string) => {
        const { body, text } = await bench().app('GET', `/tables/${kind}/${space}/${table}?limit=1000`);
        assert.ok(body.result, text);
        return body.result.items as Record<string, unknown>[];
      };

      before(async () => {
        const { app } = bench();
        const { status, text } = await app('PUT', `/sources/${kind}`, {
          name: kind,
          type: 'TableSource',
          url: database.url,
        });
        assert.equal(status, 201, text);
        assert.equal((await app('PUT', `/tables/${kind}/${space}/people`, RECORDS)).status, 201);
      });

      test('a download goes into its tables: createThenAppend, then append', async () => {
        const { run, api } = bench();
        for (const [mode, count] of [
          ['createThenAppend', 50],
          ['append', 100],
          ['createThenAppend', 50],
        ]) {
          const answer = await run({
            request: { url: `${api.url}/orders/by-next?size=20`, method: 'GET' },
            target: {
              action: 'parse JSON',
              source: kind,
              table: 'orders',
              parsingScript: `
                const { items, next } = $ctx.response.body;
                return {
                  data: [{ data: items.map(({ id, amount }) => ({ id, amount })), mode: '${mode}' }],
                  doWhile: next && { url: next },
                };`.replace('next && { url: next }', 'next === null ? false : { url: next }'),
            },
          });
          assert.equal(answer.status, 200, answer.text);
          assert.deepEqual(answer.body.result.output.tables, [
            { source: kind, space, table: 'orders', records: 50 },
          ]);
          assert.equal((await rowsOf('orders')).length, count);
        }
      });

      test('its tables are sources: one request a record, and in batches', async () => {
        const { run, api } = bench();
        api.answer('POST /count', (exchange) => {
          const body = exchange.jsonBody() as unknown[] | object;
          exchange.json(200, { got: Array.isArray(body) ? body.length : 1 });
        });
        const send = (sourceTable: Record<string, unknown>) =>
          run({
            sourceTable: { source: kind, table: 'people', ...sourceTable },
            request: {
              url: `${api.url}/count`,
              method: 'POST',
              bodyType: 'JSON -> stringify()',
              body: { script: 'return $ctx.data;' },
            },
            target: {
              action: 'parse JSON',
              table: `counts_${kind}`,
              parsingScript:
                "return { data: [{ data: [{ got: $ctx.response.body.got }], mode: 'createThenAppend' }] };",
            },
          });
        const single = await send({});
        assert.equal(single.status, 200, single.text);
        assert.deepEqual(
          [single.body.result.stats.requests, single.body.result.stats.sourceRecords],
          [25, 25],
        );
        const batched = await send({ batching: true, batchSize: 10 });
        assert.equal(batched.status, 200, batched.text);
        const got = (await bench().rows(`counts_${kind}`)).map((row) => row['got']);
        assert.deepEqual(got, [10, 10, 5]);
      });

      test('one page goes into several databases, each in full', async () => {
        const { run, api, rows } = bench();
        const answer = await run({
          request: { url: `${api.url}/orders/by-next?size=20`, method: 'GET' },
          target: {
            action: 'parse JSON',
            table: `here_${kind}`,
            parsingScript: `
              const { items, next } = $ctx.response.body;
              const data = items.map(({ id }) => ({ id }));
              return {
                data: [
                  { data, mode: 'createThenAppend' },
                  { data, sourceName: '${kind}', tableName: 'there', mode: 'createThenAppend' },
                ],
                doWhile: next === null ? false : { url: next },
              };`,
          },
        });
        assert.equal(answer.status, 200, answer.text);
        assert.equal((await rows(`here_${kind}`)).length, 50);
        assert.deepEqual(
          (await rowsOf('there')).map(({ id }) => id),
          Array.from({ length: 50 }, (_, index) => index + 1),
        );
      });

      test('a failure in the middle, and a resume: no database gets a page twice', async () => {
        const { run, api, service, token, rows } = bench();
        let broken = true;
        api.beforeAnswer = ({ query }) => {
          if (broken && query.get('page') === '3') throw new Error('a page that fails');
        };
        const answer = await run({
          request: { url: `${api.url}/orders/by-next?size=10`, method: 'GET', options: { retry: false } },
          target: {
            action: 'parse JSON',
            source: kind,
            table: 'both_there',
            parsingScript: `
              const { items, next } = $ctx.response.body;
              const data = items.map(({ id }) => ({ id }));
              return {
                data: [{ data }, { data, sourceName: 'local', tableName: 'both_here_${kind}' }],
                doWhile: next === null ? false : { url: next },
              };`,
          },
        });
        assert.equal(failure(answer).code, 'http_status');
        broken = false;
        const { jobId } = answer.body.result;
        await service.call('POST', `/api/v1/jobs/${jobId}/resume`, token);
        for (;;) {
          const { body } = await service.call('GET', `/api/v1/jobs/${jobId}`, token);
          if (body.result.endedAt === null) continue;
          assert.equal(body.result.state, 'succeeded', JSON.stringify(body.result));
          break;
        }
        const ids = Array.from({ length: 50 }, (_, index) => index + 1);
        assert.deepEqual(
          (await rowsOf('both_there')).map(({ id }) => id),
          ids,
        );
        assert.deepEqual(
          (await rows(`both_here_${kind}`)).map(({ id }) => id),
          ids,
        );
      });

      test('records at once, a bad value among them, and a resume: no database gets a page twice', async () => {
        const { run, api, app, service, token, rows } = bench();
        const people = Array.from({ length: 60 }, (_, index) => ({ id: index + 1 }));
        await app('PUT', '/tables/local/main/sixty', people);
        await app('PUT', '/variables/wrong', { name: 'wrong', value: 30 });
        // All answers at the same moment, so that their pages are committed together.
        let open = () => {};
        const together = new Promise<void>((resolve) => (open = resolve));
        let there = 0;
        api.beforeAnswer = async () => {
          there += 1;
          if (there === 30) open();
          await together;
        };
        const model = { columns: [{ name: 'id', type: 'integer', position: 1 }] };
        const answer = await run({
          sourceTable: { source: 'local', table: 'sixty' },
          request: { url: `${api.url}/empty`, method: 'GET', options: { concurrency: 30 } },
          target: {
            action: 'parse JSON',
            table: `sixty_here_${kind}`,
            model,
            parsingScript: `
              const { id } = $ctx.data;
              return { data: [
                { data: [{ id: id === $ctx.variables.wrong ? 'no number' : id }] },
                { data: [{ id }], sourceName: '${kind}', tableName: 'sixty_there' },
              ] };`,
          },
        });
        assert.equal(failure(answer).code, 'value_error');
        await app('PUT', '/variables/wrong', { name: 'wrong', value: 0 });
        const { jobId } = answer.body.result;
        await service.call('POST', `/api/v1/jobs/${jobId}/resume`, token);
        await eventually(async () => {
          const { body } = await service.call('GET', `/api/v1/jobs/${jobId}`, token);
          assert.equal(body.result.state, 'succeeded', JSON.stringify(body.result));
        });
        const sorted = (found: Record<string, unknown>[]) =>
          found.map(({ id }) => id as number).toSorted((a, b) => a - b);
        const ids = people.map(({ id }) => id);
        assert.deepEqual(sorted(await rows(`sixty_here_${kind}`)), ids);
        assert.deepEqual(sorted(await rowsOf('sixty_there')), ids);
      });

      test('a table is sent as a body, straight from the database', async () => {
        const { run, api } = bench();
        const answer = await run({
          request: {
            url: `${api.url}/upload`,
            method: 'POST',
            bodyType: 'JSON -> transmitSourceTable()',
            body: JSON.stringify({ sourceName: kind, tableName: 'people', 'Content-Type': 'text/csv' }),
          },
        });
        assert.equal(answer.status, 200, answer.text);
        const sent = api.requestsTo('/upload').at(-1)?.body.toString() ?? '';
        assert.equal(sent.trim().split(/\r?\n/).length, 26);
      });
    });
  }

  test('its password is write-only, and must be given again for another server', async () => {
    const { app } = bench();
    const source = { type: 'TableSource', name: 'far', url: 'postgres://me@db.example/warehouse' };
    assert.equal((await app('PUT', '/sources/far', { ...source, password: 'not-to-be-shown' })).status, 201);
    const { text } = await app('GET', '/sources/far');
    assert.ok(!text.includes('not-to-be-shown'));
    assert.match(text, /"path":"password"/);
    const moved = await app('PUT', '/sources/far', {
      ...source,
      url: 'postgres://me@evil.example/warehouse',
    });
    assert.deepEqual([moved.status, moved.body.result.path], [400, 'password']);
    const inUrl = await app('PUT', '/sources/far', { ...source, url: 'postgres://me:secret@db.example/x' });
    assert.deepEqual([inUrl.status, inUrl.body.result.path], [400, 'url']);
  });

  test('an HTTPSource is no TableSource, and the other way round', async () => {
    const { run, api, putSource, app } = bench();
    await putSource({ name: 'web' });
    await app('PUT', '/sources/base', {
      name: 'base',
      type: 'TableSource',
      url: 'mariadb://me@db.example/x',
    });
    const request = { url: api.url, method: 'GET' };
    const asTable = await run({
      request,
      target: { action: 'parse JSON', source: 'web', table: 't', parsingScript: 'return null;' },
    });
    assert.deepEqual([asTable.status, failure(asTable).code], [400, 'unknown_source']);
    assert.match(failure(asTable).message, /no TableSource "web".*Known: local, .*base/);
    const asHttp = await run({ request: { ...request, source: 'base' } });
    assert.deepEqual([asHttp.status, failure(asHttp).code], [400, 'unknown_source']);
  });

  test('a database that cannot be reached is an error of its own', async () => {
    const { run, api, app } = bench();
    await app('PUT', '/sources/nowhere', {
      name: 'nowhere',
      type: 'TableSource',
      url: 'postgres://me@127.0.0.1:1/x',
    });
    const answer = await run({
      request: { url: `${api.url}/orders/by-page`, method: 'GET' },
      target: { action: 'parse JSON', source: 'nowhere', table: 't', parsingScript: 'return null;' },
    });
    assert.deepEqual([answer.status, failure(answer).code], [503, 'table_unavailable']);
  });
});
