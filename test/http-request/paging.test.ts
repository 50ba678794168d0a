import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { startJobBench, type JobBench } from '../support/jobs.ts';

const ORDERS = 250;

/** What every way of paging must have loaded: all orders, each once, in their order. */
async function assertAllLoaded({ rows }: JobBench, table: string): Promise<void> {
  const ids = (await rows(table)).map(({ id }) => id);
  assert.deepEqual(
    ids,
    Array.from({ length: ORDERS }, (_, index) => index + 1),
  );
}

/** Runs one download and gives the job's result. */
async function download(
  { run }: JobBench,
  request: Record<string, unknown>,
  target: Record<string, unknown>,
) {
  const answer = await run({
    request: { method: 'GET', ...request },
    target: { action: 'parse JSON', ...target },
  });
  assert.equal(answer.status, 200, answer.text);
  return answer.body.result;
}

const ROWS = 'map(({ id, status, amount, created_at }) => ({ id, status, amount, created_at }))';

test('HTTPRequest: paging', async (t) => {
  const bench = await startJobBench(t, { api: { orders: ORDERS, customers: 5 } });
  await pagingThatScriptsCount(t, bench);
  await pagingThatAnswersLead(t, bench);
  await masterAndDetail(t, bench);
  await wherePagingGoesWrong(t, bench);
});

async function pagingThatScriptsCount(t: TestContext, bench: JobBench): Promise<void> {
  const { api, pages } = bench;

  await t.test('by page number', async () => {
    const result = await download(
      bench,
      {
        url: `${api.url}/orders/by-page?size=100&page=7`,
        parameters: 'return { page: $ctx.variables.page || 1 };',
      },
      {
        table: 'by_page',
        parsingScript: `
          const { items, page, pages } = $ctx.response.body;
          return {
            data: [{ data: items.${ROWS} }],
            variables: { page: { value: page + 1, scope: 'executionContext' } },
            doWhile: page < pages,
          };`,
      },
    );
    await assertAllLoaded(bench, 'by_page');
    assert.deepEqual([result.output.pages, result.output.records, result.stats.requests], [3, ORDERS, 3]);
    const log = await pages(result.jobId);
    assert.deepEqual(
      log.map(({ n, iteration, records, next }) => [n, iteration, records, next !== null]),
      [
        [1, 1, 100, true],
        [2, 2, 100, true],
        [3, 3, 50, false],
      ],
    );
    const [first] = log;
    assert.deepEqual(first?.['request']?.['overriddenParameters'], ['page'], 'the script overrides the URL');
  });

  await t.test('by offset, which an application variable carries', async () => {
    await download(
      bench,
      {
        url: `${api.url}/orders/by-offset`,
        parameters: 'return { limit: 60, offset: $ctx.variables.offset ?? 0 };',
      },
      {
        table: 'by_offset',
        parsingScript: `
          const { data, offset, limit, total } = $ctx.response.body;
          return {
            data: [{ data: data.${ROWS} }],
            variables: { offset: String(offset + limit) },
            doWhile: offset + limit < total,
          };`,
      },
    );
    await assertAllLoaded(bench, 'by_offset');
    const { body } = await bench.app('GET', '/variables/offset');
    assert.deepEqual(
      body.result,
      { name: 'offset', value: '300' },
      'an application variable outlives the job',
    );
  });

  await t.test('by a cursor in the body', async () => {
    await download(
      bench,
      {
        url: `${api.url}/orders/by-cursor?size=40`,
        parameters: 'return { cursor: $ctx.variables.cursor };',
      },
      {
        table: 'by_cursor',
        parsingScript: `
          const { items, next_cursor } = $ctx.response.body;
          return {
            data: [{ data: items.${ROWS} }],
            variables: { cursor: { value: next_cursor, scope: 'executionContext' } },
            doWhile: next_cursor !== null,
          };`,
      },
    );
    await assertAllLoaded(bench, 'by_cursor');
  });

  await t.test('until a page is empty', async () => {
    const before = api.requestsTo('/orders/until-empty').length;
    await download(
      bench,
      {
        url: `${api.url}/orders/until-empty?size=125`,
        parameters: 'return { page: $ctx.variables.page ?? 1 };',
      },
      {
        table: 'until_empty',
        parsingScript: `
          const page = $ctx.variables.page ?? 1;
          return {
            data: [{ data: $ctx.response.body.${ROWS} }],
            variables: { page: { value: page + 1, scope: 'executionContext' } },
            doWhile: $ctx.response.body.length > 0,
          };`,
      },
    );
    await assertAllLoaded(bench, 'until_empty');
    assert.equal(
      api.requestsTo('/orders/until-empty').length - before,
      3,
      'two full pages and the empty one',
    );
  });
}

async function pagingThatAnswersLead(t: TestContext, bench: JobBench): Promise<void> {
  const { api } = bench;

  await t.test('by the Link header', async () => {
    await download(
      bench,
      { url: `${api.url}/orders/by-link?size=80` },
      {
        table: 'by_link',
        parsingScript: `
          const [, next] = /<([^>]+)>; rel="next"/.exec($ctx.response.headers.link) ?? [];
          return { data: [{ data: $ctx.response.body.${ROWS} }], doWhile: next ? { url: next } : false };`,
      },
    );
    await assertAllLoaded(bench, 'by_link');
  });

  for (const form of ['absolute', 'relative']) {
    await t.test(`by the next URL in the body, ${form}`, async () => {
      const result = await download(
        bench,
        { url: `${api.url}/orders/by-next?size=90&form=${form}` },
        {
          table: `by_next_${form}`,
          parsingScript: `
            const { items, next } = $ctx.response.body;
            return { data: [{ data: items.${ROWS} }], doWhile: next === null ? false : { url: next } };`,
        },
      );
      await assertAllLoaded(bench, `by_next_${form}`);
      const [first] = await bench.pages(result.jobId);
      const next = first?.['next'] as unknown as { url: string; why: string };
      assert.ok(next.url.startsWith(`${api.url}/orders/by-next?`), 'the log shows the resolved URL');
      assert.match(next.why, /^doWhile\.url is /);
    });
  }

  await t.test('a script that overrides a parameter of the next URL is warned of', async () => {
    const result = await download(
      bench,
      { url: `${api.url}/orders/by-next`, parameters: 'return { size: 125 };' },
      {
        table: 'overriding',
        parsingScript: `
          const { items, next } = $ctx.response.body;
          return { data: [{ data: items.${ROWS} }], doWhile: next === null ? false : { url: next } };`,
      },
    );
    await assertAllLoaded(bench, 'overriding');
    const warnings = (await bench.log(result.jobId)).filter((line) => line.startsWith('warn: '));
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /the Parameters script overrides size of the URL that doWhile gave/);
  });

  await t.test('doWhileDelay lies between the rounds, not after the last one', async () => {
    const before = api.requests.length;
    await download(
      bench,
      { url: `${api.url}/orders/by-next?size=200` },
      {
        table: 'delayed',
        parsingScript: `
          const { items, next } = $ctx.response.body;
          const doWhile = next === null ? false : { url: next };
          return { data: [{ data: items.${ROWS} }], doWhile, doWhileDelay: 150 };`,
      },
    );
    await assertAllLoaded(bench, 'delayed');
    const [first, second] = api.requests.slice(before).map(({ atMs }) => atMs);
    assert.ok((second ?? 0) - (first ?? 0) >= 150, `${(second ?? 0) - (first ?? 0)} ms between the rounds`);
  });
}

async function masterAndDetail(t: TestContext, bench: JobBench): Promise<void> {
  const { api } = bench;

  await t.test('master and detail: a URL script makes one paged download for each record', async () => {
    await download(
      bench,
      { url: `${api.url}/customers` },
      {
        table: 'customers',
        parsingScript: 'return { data: [{ data: $ctx.response.body.items }] };',
      },
    );
    const before = api.requests.length;
    const answer = await bench.run({
      sourceTable: { source: 'local', table: 'customers' },
      request: {
        url: { script: `return '${api.url}/customers/' + $ctx.data.id + '/orders?size=30';` },
        method: 'GET',
        parameters: 'return { page: $ctx.variables["page" + $ctx.data.id] ?? 1 };',
      },
      target: {
        action: 'parse JSON',
        table: 'customer_orders',
        parsingScript: `
          const { items, page, pages } = $ctx.response.body;
          const { id: customer } = $ctx.data;
          return {
            data: [{ data: items.map(({ id }) => ({ id, customer, page })) }],
            variables: { ['page' + customer]: { value: page + 1, scope: 'executionContext' } },
            doWhile: page < pages,
          };`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    const { output, stats } = answer.body.result;
    assert.deepEqual([output.pages, output.records], [10, ORDERS]);
    assert.deepEqual([stats.sourceRecords, stats.total], [5, 5]);
    assert.deepEqual(
      api.requests.slice(before).map(({ path, query }) => [path, query.get('page')]),
      [1, 2, 3, 4, 5].flatMap((id) => ['1', '2'].map((page) => [`/customers/${id}/orders`, page])),
      'the loop of a record runs to its end before the next record begins',
    );
    const rows = await bench.rows('customer_orders');
    assert.equal(rows.length, ORDERS);
    assert.ok(rows.every(({ id, customer }) => ((Number(id) - 1) % 5) + 1 === customer));
  });

  await t.test('one answer fills several tables, which a suffix names', async () => {
    const result = await download(
      bench,
      { url: `${api.url}/orders/by-page?size=100`, parameters: 'return { page: $ctx.variables.seen ?? 1 };' },
      {
        table: 'sales',
        parsingScript: `
          const { items, page, pages } = $ctx.response.body;
          const lines = items.flatMap(({ id, lines }) => lines.map((line) => ({ order: id, ...line })));
          return {
            data: [
              { data: items.map(({ id, amount }) => ({ id, amount })) },
              { data: lines, tableNameSuffix: '_lines', spaceName: 'details' },
            ],
            variables: { seen: { value: page + 1, scope: 'executionContext' } },
            doWhile: page < pages,
          };`,
      },
    );
    const lines = await bench.rows('sales_lines', 'details');
    assert.equal(lines.length, 500);
    assert.deepEqual(result.output.tables, [
      { source: 'local', space: 'main', table: 'sales', records: ORDERS },
      { source: 'local', space: 'details', table: 'sales_lines', records: 500 },
    ]);
  });
}

async function wherePagingGoesWrong(t: TestContext, bench: JobBench): Promise<void> {
  const { api, run, rows } = bench;
  const loop = (more: string, options: Record<string, unknown> = {}) => ({
    request: { url: `${api.url}/repeat`, method: 'GET', options },
    target: { action: 'parse JSON', table: 'loop', parsingScript: more },
  });

  await t.test('an API that leads in a circle is left after three rounds', async () => {
    const answer = await run(
      loop('return { data: [{ data: [{ id: 1 }] }], doWhile: { url: $ctx.response.body.next } };'),
    );
    assert.equal(answer.status, 422, answer.text);
    assert.equal(answer.body.result.code, 'paging_loop');
    assert.match(answer.body.result.message, /same request brought the same response 3 times/);
    assert.equal((await rows('loop')).length, 2, 'the rounds before it are committed');
  });

  await t.test('unless that is wanted; polling that loads nothing is none', async () => {
    const count = `
      const round = ($ctx.variables.round ?? 0) + 1;
      const variables = { round: { value: round, scope: 'executionContext' } };`;
    const wanted = await run(
      loop(`${count} return { data: [{ data: [{ id: 2 }] }], variables, doWhile: round < 5 };`, {
        onRepeat: 'continue',
      }),
    );
    assert.equal(wanted.body.result.output.records, 5, wanted.text);
    const polling = await run(loop(`${count} return { variables, doWhile: round < 5 ? {} : false };`));
    assert.equal(polling.body.result.output.pages, 5, polling.text);
  });

  await t.test('a next URL that is none', async () => {
    const answer = await run(loop("return { doWhile: { url: 'http://[' } };"));
    assert.equal(answer.status, 422, answer.text);
    assert.match(answer.body.result.message, /doWhile/);
  });
}
