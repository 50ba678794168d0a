import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startJobBench } from '../support/jobs.ts';

describe('HTTPRequest: paging', () => {
  test('by page number', async (t) => {
    const { run, rows, api, pages } = await startJobBench(t, { api: { orders: 250 } });
    const answer = await run({
      request: {
        url: `${api.url}/orders/by-page?size=100`,
        method: 'GET',
        parameters: 'return { page: $ctx.variables.page || 1 };',
      },
      target: {
        action: 'parse JSON',
        table: 'orders',
        parsingScript: `
          const { items, page, pages } = $ctx.response.body;
          return {
            data: [{ data: items.map(({ id, status, amount }) => ({ id, status, amount })) }],
            variables: { page: { value: page + 1, scope: 'executionContext' } },
            doWhile: page < pages,
          };`,
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal((await rows('orders')).length, 250);
  });
});
