import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Job } from '../../src/model/job.ts';
import { onEachDatabase } from '../support/databases.ts';
import { eventually, failure, sharedBench } from '../support/shared-bench.ts';

const ITEMS = 'return { data: [{ data: $ctx.response.body.items.map(({ id }) => ({ id })) }]';
/** Follows `next` to the last page. */
const ALL_PAGES = `${ITEMS}, doWhile: $ctx.response.body.next === null ? false : { url: $ctx.response.body.next } };`;

onEachDatabase('Life of a job', (newPlace) => {
  const bench = sharedBench({ settings: { jobsAtOnce: 2 }, api: { orders: 50 }, newPlace });

  const job = async (jobId: string, path = '', method = 'GET') => {
    const { service, token } = bench();
    const { status, body, text } = await service.call(method, `/api/v1/jobs/${jobId}${path}`, token);
    assert.ok(status < 300, text);
    return body.result as Job;
  };
  const settled = async (jobId: string): Promise<Job> => {
    for (;;) {
      const found = await job(jobId);
      if (found.endedAt !== null) return found;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const until = async (jobId: string, state: string) => {
    for (let found = await job(jobId); found.state !== state; found = await job(jobId)) {
      assert.equal(found.endedAt, null, JSON.stringify(found));
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const submit = async (opParams: unknown, policy: Record<string, unknown> = {}): Promise<string> => {
    const answer = await bench().run(opParams, { isAsync: true, job: policy });
    assert.equal(answer.status, 202, answer.text);
    return answer.body.result.jobId;
  };
  const download = (table: string, more: Record<string, unknown> = {}, script = ALL_PAGES) => ({
    request: { url: `${bench().api.url}/orders/by-next?size=10`, method: 'GET', ...more },
    target: { action: 'parse JSON', table, parsingScript: script },
  });
  /** What the pages say, and how often each was asked for. */
  const ids = async (table: string) => (await bench().rows(table)).map(({ id }) => id);
  const fifty = Array.from({ length: 50 }, (_, index) => index + 1);

  /** The first `times` requests for this page are answered by 500. */
  const failAtPage = (page: string, times: number) => {
    const asked: string[] = [];
    let left = times;
    bench().api.beforeAnswer = ({ query, path }) => {
      if (path !== '/orders/by-next') return;
      const asks = query.get('page') ?? '1';
      asked.push(asks);
      if (asks !== page || left === 0) return;
      left -= 1;
      throw new Error('a page that fails');
    };
    return asked;
  };

  describe('resume', () => {
    test('a failed job goes on at the page that failed; no page is asked for or loaded twice', async () => {
      const asked = failAtPage('3', 1);
      const failed = await bench().run(download('resumed', { options: { retry: false } }));
      assert.equal(failed.status, 502, failed.text);
      const { jobId } = failed.body.result;
      assert.deepEqual((await job(jobId, '/resume', 'POST')).state === 'failed', false);
      const resumed = await settled(jobId);
      assert.equal(resumed.state, 'succeeded', JSON.stringify(resumed));
      assert.deepEqual(asked, ['1', '2', '3', '3', '4', '5']);
      assert.deepEqual(await ids('resumed'), fifty);
      assert.deepEqual([resumed.stats.pages, resumed.stats.records], [5, 50]);
      const numbers = (await bench().pages(jobId)).map(({ n }) => n);
      assert.deepEqual(numbers, [1, 2, 3, 4, 5, 6], 'with the page that failed');
    });

    test('events are numbered without gaps over failure and resume', async () => {
      failAtPage('2', 1);
      const failed = await bench().run(download('numbered', { options: { retry: false } }));
      const { jobId } = failed.body.result;
      await job(jobId, '/resume', 'POST');
      await settled(jobId);
      const events = await bench().service.system.jobs.history.events(jobId, { limit: 1000 });
      assert.deepEqual(
        events.map(({ n }) => n),
        events.map((_, index) => index + 1),
      );
      const states = events.filter(({ type }) => type === 'state').map(({ data }) => data['state']);
      assert.deepEqual(states, ['running', 'failed', 'queued', 'running', 'succeeded']);
    });

    test('a cancelled job goes on; with createThenAppend the old table stays until it succeeds', async () => {
      const { api, app } = bench();
      await app('PUT', '/tables/local/main/swapped', [{ id: -1 }]);
      let arrived = () => {};
      const atThird = new Promise<void>((resolve) => (arrived = resolve));
      let goOn = () => {};
      const held = new Promise<void>((resolve) => (goOn = resolve));
      api.beforeAnswer = async ({ query }) => {
        if (query.get('page') !== '3') return;
        arrived();
        await held;
      };
      const script = ALL_PAGES.replace('({ id })) }', "({ id })), mode: 'createThenAppend' }");
      const jobId = await submit(download('swapped', {}, script));
      await atThird;
      await job(jobId, '/cancel', 'POST');
      goOn();
      assert.equal((await settled(jobId)).state, 'cancelled');
      assert.deepEqual(await ids('swapped'), [-1]);
      await job(jobId, '/resume', 'POST');
      assert.equal((await settled(jobId)).state, 'succeeded');
      assert.deepEqual(await ids('swapped'), fifty);
    });

    test('variables are those of the last committed page', async () => {
      const asked = failAtPage('2', 1);
      const script = `
        const { seen = 0 } = $ctx.variables;
        const { items, next } = $ctx.response.body;
        return {
          data: [{ data: items.map(({ id }) => ({ id, seen })) }],
          variables: { seen: { value: seen + items.length, scope: 'executionContext' } },
          doWhile: next === null ? false : { url: next },
        };`;
      const failed = await bench().run(download('with_variables', { options: { retry: false } }, script));
      const { jobId } = failed.body.result;
      await job(jobId, '/resume', 'POST');
      assert.equal((await settled(jobId)).state, 'succeeded');
      assert.deepEqual(asked, ['1', '2', '2', '3', '4', '5']);
      const seen = new Set((await bench().rows('with_variables')).map((row) => row['seen']));
      assert.deepEqual([...seen], [0, 10, 20, 30, 40]);
    });

    test('only a job that failed or was cancelled', async () => {
      bench().api.beforeAnswer = undefined;
      const done = await bench().run(download('done'));
      const { service, token } = bench();
      const { status, body } = await service.call(
        'POST',
        `/api/v1/jobs/${done.body.result.jobId}/resume`,
        token,
      );
      assert.deepEqual([status, body.result.code], [409, 'conflict']);
      assert.match(body.result.message, /is succeeded: only/);
    });
  });

  test('rerun does the same once more, as a job of its own', async () => {
    bench().api.beforeAnswer = undefined;
    const first = await bench().run(download('again'));
    const { jobId } = first.body.result;
    const second = await job(jobId, '/rerun', 'POST');
    assert.notEqual(second.jobId, jobId);
    assert.equal(second.rerunOf, jobId);
    assert.equal((await settled(second.jobId)).state, 'succeeded');
    assert.equal((await ids('again')).length, 100);
  });

  describe('retry policy', () => {
    test('a transient failure sends the job to wait, and on at its last page', async () => {
      const asked = failAtPage('4', 2);
      const policy = { retry: { tries: 3, delaySeconds: 0.05 } };
      const jobId = await submit(download('retried', { options: { retry: false } }), policy);
      const ended = await settled(jobId);
      assert.equal(ended.state, 'succeeded', JSON.stringify(ended));
      assert.deepEqual(asked, ['1', '2', '3', '4', '4', '4', '5']);
      assert.deepEqual(await ids('retried'), fifty);
    });

    test('after the last try it fails; what cannot pass is not tried again', async () => {
      const asked = failAtPage('1', 10);
      const policy = { retry: { tries: 2, delaySeconds: 0.01 } };
      const jobId = await submit(download('never', { options: { retry: false } }), policy);
      assert.equal((await settled(jobId)).error?.code, 'http_status');
      assert.deepEqual(asked, ['1', '1']);
      bench().api.beforeAnswer = undefined;
      const wrong = await submit(download('never', {}, 'throw new Error("mine")\nreturn null'), policy);
      const ended = await settled(wrong);
      assert.equal(ended.error?.code, 'script_error');
      assert.deepEqual(
        (await bench().service.system.jobs.history.events(wrong, { limit: 100 }))
          .filter(({ type }) => type === 'state')
          .map(({ data }) => data['state']),
        ['running', 'failed'],
      );
    });
  });

  describe('a durable pause', () => {
    test('during doWhileDelay the job waits without a worker, and goes on by itself', async () => {
      bench().api.beforeAnswer = undefined;
      const script = ALL_PAGES.replace(
        ' };',
        ', doWhileDelay: $ctx.response.body.items[0].id === 1 ? 5200 : 0 };',
      );
      // All places of the service are taken by jobs that wait: others run all the same.
      const waiting = await Promise.all([
        submit(download('paused_1', {}, script)),
        submit(download('paused_2', {}, script)),
      ]);
      for (const jobId of waiting) await until(jobId, 'waiting');
      assert.ok((await job(waiting[0])).wakesAt);
      const other = await bench().run(download('meanwhile'));
      assert.equal(other.status, 200, other.text);
      for (const [index, jobId] of waiting.entries()) {
        assert.equal((await settled(jobId)).state, 'succeeded');
        assert.deepEqual(await ids(`paused_${index + 1}`), fifty);
      }
    });

    test('a Retry-After of more than a few seconds is waited for in the same way', async () => {
      const { api } = bench();
      let asked = 0;
      api.answer('GET /busy', (exchange) => {
        asked += 1;
        if (asked === 1) exchange.json(429, { error: 'busy' }, { 'retry-after': '6' });
        else exchange.json(200, { items: [{ id: 1 }] });
      });
      const jobId = await submit({
        request: { url: `${api.url}/busy`, method: 'GET' },
        target: { action: 'parse JSON', table: 'after_busy', parsingScript: `${ITEMS} };` },
      });
      await until(jobId, 'waiting');
      assert.equal((await settled(jobId)).state, 'succeeded');
      assert.equal(asked, 2);
    });

    test('a job that waits is cancelled at once', async () => {
      const script = ALL_PAGES.replace(' };', ', doWhileDelay: 3600000 };');
      const jobId = await submit(download('cancelled_waiting', {}, script));
      await until(jobId, 'waiting');
      assert.equal((await job(jobId, '/cancel', 'POST')).state, 'cancelled');
    });
  });

  test('a time limit ends the job with an error of its own', async () => {
    bench().api.beforeAnswer = () => new Promise(() => {});
    const jobId = await submit(download('too_slow'), { timeLimitSeconds: 0.2 });
    const ended = await settled(jobId);
    bench().api.beforeAnswer = undefined;
    assert.deepEqual([ended.state, ended.error?.code], ['failed', 'job_time_limit']);
  });

  describe('who runs when', () => {
    /** Holds all requests until it is told to let them go; notes their tables. */
    const gate = () => {
      const order: string[] = [];
      let open = () => {};
      const opened = new Promise<void>((resolve) => (open = resolve));
      bench().api.beforeAnswer = async ({ query }) => {
        order.push(query.get('name') ?? '');
        await opened;
      };
      return { order, open };
    };
    const named = (name: string, table = name) => ({
      request: { url: `${bench().api.url}/orders/by-page?page=1&size=1&name=${name}`, method: 'GET' },
      target: { action: 'parse JSON', table, parsingScript: 'return null;' },
    });

    test('the higher priority first, then in the order of submission', async () => {
      const { order, open } = gate();
      const busy = [await submit(named('busy_1')), await submit(named('busy_2'))];
      await eventually(() => assert.ok(order.length === 2));
      const later = [
        await submit(named('low'), { priority: -1 }),
        await submit(named('usual')),
        await submit(named('usual_too')),
        await submit(named('high'), { priority: 10 }),
      ];
      open();
      for (const jobId of [...busy, ...later]) await settled(jobId);
      assert.ok(order.slice(2, 4).includes('high'), order.join());
      assert.ok(order.slice(-2).includes('low'), order.join());
    });

    test('of jobs with the same target table, or the same key, one at a time where they ask for it', async () => {
      for (const exclusive of [true, 'a key']) {
        const { order, open } = gate();
        const jobs = [
          await submit(named('first', 'one_table'), { exclusive }),
          await submit(named('second', 'one_table'), { exclusive }),
          await submit(named('other', 'other_table')),
        ];
        await eventually(() => assert.ok(order.includes('first') && order.includes('other')));
        assert.ok(!order.includes('second'));
        open();
        for (const jobId of jobs) assert.equal((await settled(jobId)).state, 'succeeded');
        assert.ok(order.includes('second'));
      }
    });

    test('exclusive without a target table is refused, with the path of the field', async () => {
      bench().api.beforeAnswer = undefined;
      const answer = await bench().run(
        { request: { url: bench().api.url, method: 'GET' } },
        { job: { exclusive: true } },
      );
      assert.deepEqual([answer.status, failure(answer)['path']], [400, 'job.exclusive']);
    });
  });

  describe('concurrency', () => {
    const customers = Array.from({ length: 40 }, (_, index) => ({ customer: index + 1 }));
    const lookups = (table: string, options: Record<string, unknown>, size = 100) => ({
      sourceTable: { source: 'local', table: 'customers' },
      request: {
        url: {
          script: `return "${bench().api.url}/customers/" + $ctx.data.customer + "/orders?size=${size}";`,
        },
        method: 'GET',
        options,
      },
      target: {
        action: 'parse JSON',
        table,
        parsingScript: `
          const { items, next } = $ctx.response.body;
          const { round = 1 } = $ctx.variables;
          return {
            data: [{ data: [{ customer: $ctx.data.customer, round, orders: items.length }] }],
            variables: { round: { value: round + 1, scope: 'executionContext' } },
            doWhile: next ? { url: next } : false,
          };`,
      },
    });

    test('so many records at once, each with an execution context of its own, and each result once', async () => {
      const { api, app, rows } = bench();
      await app('PUT', '/tables/local/main/customers', customers);
      api.mostAtOnce = 0;
      let open = () => {};
      const together = new Promise<void>((resolve) => (open = resolve));
      let there = 0;
      api.beforeAnswer = async () => {
        there += 1;
        if (there === 8) open();
        await together;
      };
      const answer = await bench().run(lookups('looked_up', { concurrency: 8 }));
      assert.equal(answer.status, 200, answer.text);
      assert.equal(api.mostAtOnce, 8);
      const found = await rows('looked_up');
      assert.deepEqual(
        found.map(({ customer }) => customer as number).toSorted((a, b) => a - b),
        customers.map(({ customer }) => customer),
      );
      assert.ok(
        found.every(({ round }) => round === 1),
        'no record sees the variables of another',
      );
      assert.equal(answer.body.result.stats.sourceRecords, 40);
    });

    test('a resumed job does only what was not done', async () => {
      const { api, app, rows } = bench();
      await app('PUT', '/tables/local/main/customers', customers);
      let broken = true;
      const asked: string[] = [];
      api.beforeAnswer = ({ path }) => {
        asked.push(path);
        if (broken && path === '/customers/20/orders') throw new Error('not this one');
      };
      const failed = await bench().run(lookups('looked_up_again', { concurrency: 4, retry: false }));
      assert.equal(failed.status, 502, failed.text);
      const before = await rows('looked_up_again');
      assert.ok(before.length < 40);
      broken = false;
      asked.length = 0;
      const { jobId } = failed.body.result;
      await job(jobId, '/resume', 'POST');
      assert.equal((await settled(jobId)).state, 'succeeded');
      assert.equal(asked.length, 40 - before.length);
      const found = (await rows('looked_up_again')).map(({ customer }) => customer as number);
      assert.deepEqual(
        found.toSorted((a, b) => a - b),
        customers.map(({ customer }) => customer),
      );
    });
  });
});
