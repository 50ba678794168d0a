import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Job } from '../../src/model/job.ts';
import type { OutboxItem } from '../../src/model/outbox.ts';
import { deleteOutboxOf } from '../../src/system/outbox.ts';
import { onEachDatabase } from '../support/databases.ts';
import type { ReceivedRequest } from '../support/external-api.ts';
import { Refusal } from '../support/external-api/exchange.ts';
import { startJobBench, type JobBench } from '../support/jobs.ts';
import { failure, sharedBench } from '../support/shared-bench.ts';

type Params = Record<string, unknown>;

/** What a test does with the jobs of a bench. */
function withJobs(bench: () => JobBench) {
  const call = async (method: string, path: string, body?: unknown) => {
    const { service, token } = bench();
    const answer = await service.call(method, `/api/v1/jobs/${path}`, token, body);
    assert.ok(answer.status < 300, answer.text);
    return answer.body.result;
  };
  const ended = async (jobId: string): Promise<Job> => {
    for (;;) {
      const job = (await call('GET', jobId)) as Job;
      if (job.endedAt !== null) return job;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  return {
    seed: async (table: string, ids: readonly number[]) => {
      const rows = ids.map((id) => ({ id }));
      const { status, text } = await bench().app('PUT', `/tables/local/main/${table}`, rows);
      assert.equal(status, 201, text);
    },
    outbox: async (jobId: string, query = ''): Promise<OutboxItem[]> =>
      (await call('GET', `${jobId}/outbox?limit=1000${query}`)).items,
    outboxPage: (jobId: string, query: string) => call('GET', `${jobId}/outbox?${query}`),
    resume: async (jobId: string, body?: unknown): Promise<Job> => {
      await call('POST', `${jobId}/resume`, body);
      return ended(jobId);
    },
    rerun: async (jobId: string): Promise<Job> => ended((await call('POST', `${jobId}/rerun`)).jobId),
  };
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

/** One POST for each record, of its id. */
function sending(
  url: string,
  table: string,
  { options, ...more }: { options?: Params; [more: string]: unknown } = {},
) {
  return {
    sourceTable: { source: 'local', table },
    request: {
      url,
      method: 'POST',
      body: { script: 'return $ctx.data;' },
      options: { retry: false, ...options },
      ...more,
    },
  };
}

/** One POST for a batch. */
function batches(url: string, table: string, batchSize: number, options: Params = {}) {
  const { request } = sending(url, table, { options: { onRejectedBatch: 'bisect', ...options } });
  return { sourceTable: { source: 'local', table, batching: true, batchSize }, request };
}

const idsOf = ({ body }: ReceivedRequest): number[] =>
  [JSON.parse(body.toString())].flat().map(({ id }: { id: number }) => id);

describe('Outbox', () => {
  const bench = sharedBench();
  const { seed, outbox, outboxPage, resume, rerun } = withJobs(bench);
  const url = (path: string) => `${bench().api.url}${path}`;
  const sentTo = (path: string) => bench().api.requestsTo(path).flatMap(idsOf);
  let paths = 0;
  /** A path that takes records, unless `refuse` throws. */
  const taking = (
    refuse: (ids: number[], request: ReceivedRequest) => void | Promise<void> = () => {},
  ): string => {
    paths += 1;
    const path = `/taking-${paths}`;
    bench().api.answer(`POST ${path}`, async (exchange) => {
      const ids = idsOf(exchange.request);
      await refuse(ids, exchange.request);
      if (!exchange.response.destroyed) exchange.json(201, { id: `made-${ids[0]}` });
    });
    return path;
  };
  const tally = (items: OutboxItem[]) => {
    const counts: Record<string, number> = {};
    for (const { status, count } of items) counts[status] = (counts[status] ?? 0) + count;
    return counts;
  };

  test('tells of each record what became of it, with status and response id, page by page', async () => {
    await seed('told', upTo(5));
    const path = taking();
    const answer = await bench().run(sending(url(path), 'told'));
    assert.equal(answer.status, 200, answer.text);
    const { jobId, output } = answer.body.result;
    assert.deepEqual(output.outbox, { ok: 5, failed: 0, unknown: 0 });
    const items = await outbox(jobId);
    assert.deepEqual(
      items.map(({ number, status, httpStatus, responseId }) => [number, status, httpStatus, responseId]),
      upTo(5).map((id) => [id, 'ok', 201, `made-${id}`]),
    );
    const first = await outboxPage(jobId, 'limit=3&status=ok');
    const second = await outboxPage(jobId, `limit=3&status=ok&after=${first.next}`);
    assert.deepEqual([...first.items, ...second.items], items);
    assert.equal(second.next, null);
    assert.deepEqual(await outbox(jobId, '&status=unknown'), []);
  });

  test('the header Location is the response id; a wrong key is refused by its name', async () => {
    await seed('located', [1]);
    const { jobId } = (
      await bench().run(
        sending(url('/orders'), 'located', {
          body: { script: "return { amount: 1, status: 'new' };" },
        }),
      )
    ).body.result;
    assert.match((await outbox(jobId))[0]?.responseId ?? '', /\/orders\/\d+$/);
    const { service, token } = bench();
    const { status, body } = await service.call('GET', `/api/v1/jobs/${jobId}/outbox?after=nonsense`, token);
    assert.deepEqual([status, body.result.path], [400, 'after']);
  });

  test('a GET for each record and a POST without a source table have none', async () => {
    await seed('looked_up', upTo(2));
    const found = await bench().run(sending(url('/empty'), 'looked_up', { method: 'GET', body: undefined }));
    assert.equal(found.status, 200, found.text);
    assert.deepEqual(await outbox(found.body.result.jobId), []);
    assert.equal('outbox' in found.body.result.output, false);
  });

  for (const concurrency of [1, 4]) {
    test(`a rerun sends only what had not succeeded (concurrency ${concurrency})`, async () => {
      const table = `partly_${concurrency}`;
      await seed(table, upTo(20));
      let isMended = false;
      const path = taking(([id]) => {
        if (id === 7 && !isMended) throw new Refusal(422, 'bad', 'no seven');
      });
      const failed = await bench().run(sending(url(path), table, { options: { concurrency } }));
      assert.equal(failed.status, 502, failed.text);
      const { jobId } = failed.body.result;
      const refused = (await outbox(jobId)).filter(({ status }) => status === 'failed');
      assert.deepEqual(
        refused.map(({ number, httpStatus }) => [number, httpStatus]),
        [[7, 422]],
      );
      assert.match(refused[0]?.error ?? '', /no seven/);
      const sentAtFirst = sentTo(path);
      isMended = true;
      const again = await rerun(jobId);
      assert.equal(again.state, 'succeeded', JSON.stringify(again));
      assert.deepEqual([again.stats.sourceRecords, again.stats.total], [20, 20]);
      assert.deepEqual(
        sentTo(path).toSorted((a, b) => a - b),
        [...upTo(20), 7].toSorted((a, b) => a - b),
      );
      assert.deepEqual(sentTo(path).slice(sentAtFirst.length).includes(7), true);
      assert.deepEqual((again.output as Params)['outbox'], { ok: 20, failed: 0, unknown: 0 });
      assert.deepEqual(tally(await outbox(again.jobId)), { ok: 20 });
      const once = await rerun(again.jobId);
      assert.equal(once.state, 'succeeded');
      assert.equal(sentTo(path).length, 21, 'nothing is left to be sent');
    });
  }

  describe('no answer', () => {
    const breakOff = async (table: string, more: Params = {}) => {
      await seed(table, upTo(6));
      paths += 1;
      const path = `/breaking-${paths}`;
      let isBroken = false;
      const method = (more['method'] as string | undefined) ?? 'POST';
      bench().api.answer(`${method} ${path}`, (exchange) => {
        const breaks = idsOf(exchange.request)[0] === 4 && !isBroken;
        if (breaks) isBroken = true;
        if (breaks) exchange.response.destroy();
        else exchange.json(200, {});
      });
      const answer = await bench().run(sending(url(path), table, more));
      assert.equal(failure(answer).code, 'http_failure', answer.text);
      return { path, jobId: answer.body.result.jobId as string };
    };

    test('of a POST: the record is unknown, and nothing is sent again unasked', async () => {
      const { path, jobId } = await breakOff('doubtful');
      assert.deepEqual(tally(await outbox(jobId)), { ok: 3, unknown: 1 });
      const resumed = await resume(jobId);
      assert.equal(resumed.error?.code, 'outcome_unknown');
      assert.match(resumed.error?.message ?? '', /1 source record .* \(number 4\).*"onUnknown": "skip"/);
      const again = await rerun(jobId);
      assert.equal(again.error?.code, 'outcome_unknown');
      assert.deepEqual(sentTo(path), [1, 2, 3, 4]);

      const skipped = await resume(jobId, { onUnknown: 'skip' });
      assert.equal(skipped.state, 'succeeded', JSON.stringify(skipped));
      assert.deepEqual(sentTo(path), upTo(6));
      assert.deepEqual((skipped.output as Params)['outbox'], { ok: 5, failed: 0, unknown: 1 });
      assert.equal(skipped.stats.sourceRecords, 6);
      const listed = await outbox(jobId, '&status=unknown');
      assert.deepEqual(
        listed.map(({ number }) => number),
        [4],
      );
    });

    test('asked to, it is sent again; a wrong policy is refused', async () => {
      const { path, jobId } = await breakOff('resent');
      const { service, token } = bench();
      const wrong = await service.call('POST', `/api/v1/jobs/${jobId}/resume`, token, { onUnknown: 'retry' });
      assert.deepEqual([wrong.status, wrong.body.result.path], [400, 'onUnknown']);
      const resumed = await resume(jobId, { onUnknown: 'resend' });
      assert.equal(resumed.state, 'succeeded', JSON.stringify(resumed));
      assert.deepEqual(sentTo(path), [1, 2, 3, 4, 4, 5, 6]);
      assert.deepEqual(tally(await outbox(jobId)), { ok: 6 });
    });

    test('options.onUnknown says it beforehand; DELETE is sent again anyway', async () => {
      const skipping = await breakOff('skipping', { options: { onUnknown: 'skip' } });
      assert.equal((await resume(skipping.jobId)).state, 'succeeded');
      assert.deepEqual(sentTo(skipping.path), upTo(6));
      const deleting = await breakOff('deleting', { method: 'DELETE' });
      assert.equal((await resume(deleting.jobId)).state, 'succeeded');
      assert.deepEqual(sentTo(deleting.path), [1, 2, 3, 4, 4, 5, 6]);
    });

    test('an answer that cannot be processed leaves the record unknown: the system has taken it', async () => {
      await seed('unprocessed', upTo(3));
      const path = taking();
      const parsingScript = 'if ($ctx.data.id === 2) throw new Error("oops"); return {};';
      const target = { action: 'parse JSON', parsingScript };
      const failed = await bench().run({ ...sending(url(path), 'unprocessed'), target });
      assert.equal(failure(failed).code, 'script_error');
      const [, second] = await outbox(failed.body.result.jobId);
      assert.deepEqual([second?.status, second?.httpStatus], ['unknown', 201]);
      assert.equal((await resume(failed.body.result.jobId)).error?.code, 'outcome_unknown');
      assert.deepEqual(sentTo(path), [1, 2]);
    });

    test('the same Idempotency-Key goes with a record that is sent again, and another one with others', async () => {
      const { path, jobId } = await breakOff('keyed', {
        options: { idempotencyKey: true, onUnknown: 'resend' },
      });
      assert.equal((await resume(jobId)).state, 'succeeded');
      const keys = bench()
        .api.requestsTo(path)
        .map(({ headers }) => headers['idempotency-key']);
      assert.equal(keys.length, 7);
      assert.equal(keys[3], keys[4]);
      assert.equal(new Set(keys).size, 6);
      assert.match(String(keys[0]), /^[0-9a-f]{64}$/);
    });
  });

  test('a key of the Headers script stays; interceptors see the one of the option', async () => {
    await seed('own_key', [1]);
    const path = taking();
    const options = { idempotencyKey: true };
    await bench().run(
      sending(url(path), 'own_key', { options, headers: "return { 'idempotency-key': 'mine' };" }),
    );
    const copied =
      "return [{ name: 'extendRequest', params: { headers: { copy: $ctx.request.headers['Idempotency-Key'] } } }];";
    await bench().run(sending(url(path), 'own_key', { options, interceptors: copied }));
    const [own, seen] = bench()
      .api.requestsTo(path)
      .map(({ headers }) => headers);
    assert.equal(own?.['idempotency-key'], 'mine');
    assert.equal(seen?.['copy'], seen?.['idempotency-key']);
    assert.ok(seen?.['copy']);
  });

  test('with doWhile a record counts as taken when its loop is over', async () => {
    await seed('looped', upTo(3));
    const path = taking((_, { headers }) => {
      if (headers['x-round'] === '2 of 2' && bench().api.requestsTo(path).length === 4)
        throw new Refusal(400, 'bad', 'not now');
    });
    const request = sending(url(path), 'looped', {
      headers: "return { 'x-round': ($ctx.variables.round ?? 1) + ' of ' + $ctx.data.id };",
    });
    const parsingScript = `
      const round = $ctx.variables.round ?? 1;
      const isOver = round === 2;
      return {
        doWhile: !isOver,
        variables: { round: { value: isOver ? 1 : round + 1, scope: 'executionContext' } },
      };`;
    const failed = await bench().run({ ...request, target: { action: 'parse JSON', parsingScript } });
    const { jobId } = failed.body.result;
    assert.deepEqual(tally(await outbox(jobId)), { ok: 1, failed: 1 });
    assert.equal((await resume(jobId)).state, 'succeeded');
    const rounds = bench()
      .api.requestsTo(path)
      .map(({ headers }) => headers['x-round']);
    assert.deepEqual(rounds, ['1 of 1', '2 of 1', '1 of 2', '2 of 2', '2 of 2', '1 of 3', '2 of 3']);
  });

  test('the records of a scenario’s data are known by their numbers', async () => {
    const path = taking(([id]) => {
      if (id === 2 && sentTo(path).length === 2) throw new Refusal(409, 'bad', 'not now');
    });
    const step = { ...sending(url(path), ''), sourceTable: { source: 'input' } };
    const steps = [{ name: 'send', operation: { opName: 'HTTPRequest', opParams: step } }];
    await bench().app('PUT', '/scenarios/sends', { name: 'sends', steps });
    const { service, token, appId } = bench();
    const operation = {
      opName: 'RunScenario',
      opParams: { scenario: 'sends', data: [{ id: 1 }, { id: 2 }] },
    };
    const failed = await service.call('POST', '/api/v1/executeJob', token, { appId, operation });
    const again = await rerun(failed.body.result.jobId);
    assert.equal(again.state, 'succeeded', JSON.stringify(again));
    assert.deepEqual(sentTo(path), [1, 2, 2]);
  });

  describe('bisection', () => {
    const refusing = (bad: readonly number[], status = 422) =>
      taking((ids) => {
        const found = ids.filter((id) => bad.includes(id));
        if (found.length > 0) throw new Refusal(status, 'bad_batch', `bad: ${found.join(' ')}`);
      });
    const delivered = (path: string) =>
      bench()
        .api.requestsTo(path)
        .filter(({ status }) => status === 201)
        .flatMap(idsOf);

    test('7 bad records of 1,000 are found within 80 requests; all others are delivered once, in order', async () => {
      await seed('batch', upTo(1000));
      const bad = [1, 77, 78, 400, 555, 999, 1000];
      const path = refusing(bad);
      const answer = await bench().run(batches(url(path), 'batch', 1000));
      assert.equal(answer.status, 200, answer.text);
      const { jobId, output, stats } = answer.body.result;
      assert.deepEqual(
        delivered(path),
        upTo(1000).filter((id) => !bad.includes(id)),
      );
      const requests = bench().api.requestsTo(path).length;
      assert.ok(requests <= 80, `${requests}`);
      assert.deepEqual(output.outbox, { ok: 993, failed: 7, unknown: 0 });
      assert.deepEqual([stats.sourceRecords, stats.pages], [1000, requests]);
      const rejected = await bench().rows('batch_rejected');
      assert.deepEqual(
        rejected.map(({ number, record, status, job_id }) => [number, record, status, job_id]),
        bad.map((id) => [id, { id }, 422, jobId]),
      );
      assert.match(String(rejected[3]?.['reason']), /422 .*bad: 400/);
      assert.equal((await outbox(jobId, '&status=failed')).length, 7);
    });

    test('of several batches, several at once; the reject table has another name', async () => {
      await seed('batches', upTo(60));
      const path = refusing([5, 25, 26, 60], 400);
      const options = { concurrency: 3, rejectTable: 'bad ones' };
      const answer = await bench().run(batches(url(path), 'batches', 20, options));
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(
        delivered(path).toSorted((a, b) => a - b),
        upTo(60).filter((id) => ![5, 25, 26, 60].includes(id)),
      );
      const numbers = (await bench().rows('bad ones')).map(({ number }) => number as number);
      assert.deepEqual(
        numbers.toSorted((a, b) => a - b),
        [5, 25, 26, 60],
      );
    });

    test('a rerun sends the rejected records alone', async () => {
      await seed('mended', upTo(50));
      const bad = [10, 30];
      const path = refusing(bad);
      const { jobId } = (await bench().run(batches(url(path), 'mended', 25))).body.result;
      const before = sentTo(path).length;
      bad.length = 0;
      const again = await rerun(jobId);
      assert.equal(again.state, 'succeeded', JSON.stringify(again));
      assert.deepEqual(sentTo(path).slice(before), [10, 30]);
      assert.deepEqual((again.output as Params)['outbox'], { ok: 50, failed: 0, unknown: 0 });
    });

    test('413: smaller parts are sent', async () => {
      await seed('large', upTo(100));
      const path = taking(({ length }) => {
        if (length > 30) throw new Refusal(413, 'too_large', 'at most 30');
      });
      const answer = await bench().run(batches(url(path), 'large', 100));
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(delivered(path), upTo(100));
    });

    test('a script that looks at the status has taken charge of it', async () => {
      await seed('charged', upTo(10));
      const path = refusing([3]);
      const parsingScript = 'return { data: [{ data: [{ status: $ctx.response.statusCode }] }] };';
      const target = { action: 'parse JSON', table: 'charged_answers', parsingScript };
      const answer = await bench().run({ ...batches(url(path), 'charged', 10), target });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await bench().rows('charged_answers'), [{ status: 422 }]);
      assert.equal(bench().api.requestsTo(path).length, 1);
    });

    test('another refusal ends the job; a resume goes on in the middle and delivers nothing twice', async () => {
      await seed('stopped', upTo(100));
      let left = 6;
      const path = taking((ids) => {
        left -= 1;
        if (left === 0) throw new Refusal(403, 'forbidden', 'not now');
        if (ids.includes(40)) throw new Refusal(422, 'bad', 'no');
      });
      const failed = await bench().run(batches(url(path), 'stopped', 100));
      assert.equal(failure(failed)['httpStatus'], 403);
      const requests = bench().api.requestsTo(path).length;
      const resumed = await resume(failed.body.result.jobId);
      assert.equal(resumed.state, 'succeeded', JSON.stringify(resumed));
      assert.deepEqual(
        delivered(path),
        upTo(100).filter((id) => id !== 40),
      );
      assert.ok(bench().api.requestsTo(path).length <= requests + 5, 'the search is not begun anew');
      assert.deepEqual(
        (await bench().rows('stopped_rejected')).map(({ number }) => number),
        [40],
      );
    });

    test('without batching it is refused, naming the field', async () => {
      await seed('single', [1]);
      const answer = await bench().run(
        sending(url('/orders'), 'single', { options: { onRejectedBatch: 'bisect' } }),
      );
      assert.equal(answer.status, 400);
      assert.match(failure(answer)['path'] as string, /options\.onRejectedBatch$/);
    });
  });
});

onEachDatabase('The records of an outbox', (newPlace) => {
  test('are not written by a worker that has lost the job', async (t) => {
    const place = await newPlace();
    t.after(() => place.remove());
    const { service, run, api } = await startJobBench(t, {
      settings: { data: place.data, database: place.database },
    });
    const { jobId } = (await run({ request: { url: `${api.url}/empty`, method: 'GET' } })).body.result;
    const owner = { originId: jobId, step: 'main' };
    const entry = { record: 'r', first: 0, count: 1, number: 1, request: 1, status: 'sent' as const };
    const unanswered = { ...entry, decision: null, httpStatus: null, responseId: null, error: null };
    const { outbox } = service.system;
    assert.equal(await outbox.write(owner, { jobId, epoch: 0 }, [unanswered]), false);
    assert.deepEqual(await outbox.sent(owner), []);
    assert.equal(await outbox.write(owner, { jobId, epoch: 1 }, [unanswered]), true);
    assert.deepEqual(await outbox.sent(owner), [unanswered]);
  });

  test('go when the last job goes that works on them', async (t) => {
    const place = await newPlace();
    t.after(() => place.remove());
    const bench = await startJobBench(t, { settings: { data: place.data, database: place.database } });
    const { seed, outbox, rerun } = withJobs(() => bench);
    await seed('kept', upTo(3));
    bench.api.answer('POST /kept', (exchange) => exchange.json(200, {}));
    const answer = await bench.run(sending(`${bench.api.url}/kept`, 'kept'));
    assert.equal(answer.status, 200, answer.text);
    const { jobId } = answer.body.result;
    const again = await rerun(jobId);
    const { database } = bench.service.system;
    await database.query.deleteFrom('job').where('job_id', '=', jobId).execute();
    await deleteOutboxOf(database, [jobId]);
    assert.equal((await outbox(again.jobId)).length, 3, 'the rerun still goes on from them');
    await database.query.deleteFrom('job').where('job_id', '=', again.jobId).execute();
    await deleteOutboxOf(database, [jobId]);
    assert.deepEqual(await database.query.selectFrom('outbox').selectAll().execute(), []);
  });
});
