import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Answer } from '../support/service.ts';
import { failure, sharedBench } from '../support/shared-bench.ts';

const TWO_ROUNDS = `
  const { round = 1 } = $ctx.variables;
  return {
    data: [{ data: [{ round }] }],
    variables: { round: { value: round + 1, scope: 'executionContext' } },
    doWhile: round < 2,
  };`;

interface SseEvent {
  id: number;
  event: string;
  data: Record<string, unknown>;
}

describe('API: jobs', () => {
  const bench = sharedBench({ settings: { jobsAtOnce: 4 } });

  const opParams = (path: string, parsingScript = 'return null;', more: Record<string, unknown> = {}) => ({
    request: { url: bench().api.url + path, method: 'GET', ...more },
    target: { action: 'parse JSON', parsingScript, table: 'jobs' },
  });
  const body = (params: unknown, more: Record<string, unknown> = {}) => ({
    appId: bench().appId,
    operation: { opName: 'HTTPRequest', opParams: params },
    ...more,
  });
  const execute = (given: unknown, headers: Record<string, string> = {}, token = bench().token) =>
    fetch(`${bench().service.url}/api/v1/executeJob`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(given),
    });
  const call = (method: string, path: string, token = bench().token): Promise<Answer> =>
    bench().service.call(method, `/api/v1/jobs${path}`, token);
  const startAsync = async (params: unknown): Promise<string> => {
    const answer = await bench().run(params, { isAsync: true });
    assert.equal(answer.status, 202, answer.text);
    return answer.body.result.jobId as string;
  };
  const streamOf = (jobId: string, headers: Record<string, string> = {}) =>
    fetch(`${bench().service.url}/api/v1/jobs/${jobId}/events`, {
      headers: { authorization: `Bearer ${bench().token}`, ...headers },
    });
  const parseEvents = (text: string): SseEvent[] =>
    text
      .split('\n\n')
      .filter((block) => block.startsWith('id:'))
      .map((block) => {
        const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? '';
        return { id: Number(field('id')), event: field('event'), data: JSON.parse(field('data')) };
      });
  /** All events; the stream ends when the job is over. */
  const eventsOf = async (jobId: string, headers: Record<string, string> = {}) => {
    const response = await streamOf(jobId, headers);
    assert.equal(response.status, 200);
    return parseEvents(await response.text());
  };
  const ended = async (jobId: string) => {
    await eventsOf(jobId);
    return (await call('GET', `/${jobId}`)).body.result;
  };
  /** Answers this path only when it is let go. */
  const hold = (path: string) => {
    const gate = Promise.withResolvers<void>();
    bench().api.answer(`GET ${path}`, async (exchange) => {
      await gate.promise;
      exchange.json(200, {});
    });
    return gate.resolve;
  };
  const asked = (path: string) => bench().api.until(() => bench().api.requestsTo(path).length > 0);

  describe('executeJob that waits', () => {
    test('200 with jobId, state, output and stats in the success envelope', async () => {
      const response = await execute(
        body(opParams('/orders?size=3', 'return { data: [{ data: [{ a: 1 }] }] };')),
      );
      assert.equal(response.status, 200);
      const answer = (await response.json()) as { status: string; result: Record<string, unknown> };
      assert.equal(answer.status, 'success');
      assert.deepEqual(Object.keys(answer.result).toSorted(), ['jobId', 'output', 'state', 'stats']);
      assert.equal(answer.result['state'], 'succeeded');
      const { durationMs, bytes, ...stats } = answer.result['stats'] as Record<string, number>;
      assert.deepEqual(stats, { requests: 1, pages: 1, records: 1, sourceRecords: 0, total: null });
      assert.ok(Number(bytes) > 100 && Number(durationMs) >= 0);
    });

    test('responseFormat text, the default: output is a string of JSON text', async () => {
      for (const more of [{}, { responseFormat: 'text' }]) {
        const response = await execute(body(opParams('/echo', 'return {};'), more));
        const { result } = (await response.json()) as { result: { output: string } };
        assert.equal(typeof result.output, 'string');
        assert.equal(JSON.parse(result.output).pages, 1);
      }
    });

    test('responseFormat json: output is a JSON value; anything else is 400', async () => {
      const response = await execute(body(opParams('/echo'), { responseFormat: 'json' }));
      const { result } = (await response.json()) as { result: { output: { pages: number } } };
      assert.equal(result.output.pages, 1);
      for (const responseFormat of ['xml', 'JSON', '', 7, null]) {
        const refused = await execute(body(opParams('/echo'), { responseFormat }));
        assert.equal(refused.status, 400);
        assert.match(await refused.text(), /responseFormat/);
      }
    });

    test('a job that failed: status error, code, message and jobId, never 200', async () => {
      const slow = opParams('/slow-headers/echo?ms=5000', 'return null;', {
        options: { readTimeout: '0.2', retry: false },
      });
      const cases: [unknown, number, string][] = [
        [opParams('/echo', 'return nothing.there;'), 422, 'script_error'],
        [opParams('/echo', 'return { x: 1 };'), 422, 'invalid_result'],
        [opParams('/status/400'), 502, 'http_status'],
        [opParams('/malformed-json', 'return { data: $ctx.response.body };'), 502, 'malformed_response'],
        [slow, 504, 'http_timeout'],
      ];
      for (const [params, status, code] of cases) {
        const response = await execute(body(params));
        const answer = (await response.json()) as { status: string; result: Record<string, unknown> };
        assert.equal(response.status, status, code);
        assert.equal(answer.status, 'error');
        assert.equal(answer.result['code'], code);
        assert.equal(typeof answer.result['message'], 'string');
        const job = (await call('GET', `/${String(answer.result['jobId'])}`)).body.result;
        assert.equal(job.state, 'failed');
        assert.equal(job.error.code, code);
        assert.equal(job.error.message, answer.result['message']);
      }
    });

    test('unknown application 404, unknown operation 400 with the known ones', async () => {
      const unknownApp = await execute(body(opParams('/echo'), { appId: 'nowhere' }));
      assert.equal(unknownApp.status, 404);
      assert.equal(
        failure({ status: 404, body: await unknownApp.json() } as Answer).code,
        'unknown_application',
      );
      const unknownOperation = await execute(
        body({}, { operation: { opName: 'HttpRequest', opParams: {} } }),
      );
      assert.equal(unknownOperation.status, 400);
      const error = failure({ status: 400, body: await unknownOperation.json() } as Answer);
      assert.equal(error.code, 'unknown_operation');
      assert.match(error.message, /HTTPRequest/);
    });
  });

  describe('executeJob with isAsync', () => {
    test('202 at once with Location, jobId, state and statusUrl; the job goes on', async () => {
      const release = hold('/held-async');
      const response = await execute(body(opParams('/held-async'), { isAsync: true }));
      assert.equal(response.status, 202);
      const { status, result } = (await response.json()) as {
        status: string;
        result: Record<string, string>;
      };
      assert.equal(status, 'success');
      assert.deepEqual(Object.keys(result).toSorted(), ['jobId', 'state', 'statusUrl']);
      assert.ok(['queued', 'running'].includes(String(result['state'])));
      assert.equal(response.headers.get('location'), `/api/v1/jobs/${result['jobId']}`);
      assert.equal(result['statusUrl'], response.headers.get('location'));
      await asked('/held-async');
      assert.equal((await call('GET', `/${result['jobId']}`)).body.result.state, 'running');
      release();
      assert.equal((await ended(String(result['jobId']))).state, 'succeeded');
    });
  });

  describe('Idempotency-Key', () => {
    test('the same key and body is the same job, run once', async () => {
      const given = body(opParams('/echo?idempotent=1'));
      const before = bench().api.requestsTo('/echo').length;
      const ids = new Set<string>();
      for (let turn = 0; turn < 3; turn += 1) {
        const response = await execute(given, { 'idempotency-key': 'key-1' });
        assert.equal(response.status, 200);
        ids.add(((await response.json()) as { result: { jobId: string } }).result.jobId);
      }
      assert.equal(ids.size, 1);
      assert.equal(bench().api.requestsTo('/echo').length, before + 1);
    });

    test('calls at the same time are one job', async () => {
      const given = body(opParams('/echo?idempotent=2'));
      const answers = await Promise.all(
        Array.from({ length: 6 }, async () => (await execute(given, { 'idempotency-key': 'key-2' })).json()),
      );
      const ids = (answers as { result: { jobId: string } }[]).map(({ result }) => result.jobId);
      assert.equal(new Set(ids).size, 1);
      const sent = bench()
        .api.requestsTo('/echo')
        .filter(({ query }) => query.get('idempotent') === '2');
      assert.equal(sent.length, 1);
    });

    test('the same key with another body is 409', async () => {
      const first = await execute(body(opParams('/echo?a=1')), { 'idempotency-key': 'key-3' });
      assert.equal(first.status, 200);
      const second = await execute(body(opParams('/echo?a=2')), { 'idempotency-key': 'key-3' });
      assert.equal(second.status, 409);
      assert.equal(failure({ status: 409, body: await second.json() } as Answer).code, 'conflict');
    });

    test('the same key of another client is another job', async () => {
      const given = body(opParams('/echo?a=1'));
      const jobOf = async (token: string) => {
        const response = await execute(given, { 'idempotency-key': 'key-4' }, token);
        return ((await response.json()) as { result: { jobId: string } }).result.jobId;
      };
      assert.notEqual(await jobOf(bench().token), await jobOf(await bench().service.tokenOf('editor')));
    });

    test('an empty or very long one is refused', async () => {
      for (const key of ['', 'k'.repeat(256)]) {
        const response = await execute(body(opParams('/echo')), { 'idempotency-key': key });
        assert.equal(response.status, 400);
        assert.match(await response.text(), /Idempotency-Key/);
      }
    });
  });

  describe('the record of a job', () => {
    test('has its application, operation, state, times, submitter, stats and output', async () => {
      const { run, appId } = bench();
      const { jobId } = (await run(opParams('/echo', TWO_ROUNDS))).body.result;
      const job = (await call('GET', `/${jobId}`)).body.result;
      assert.equal(job.jobId, jobId);
      assert.equal(job.appId, appId);
      assert.equal(job.opName, 'HTTPRequest');
      assert.equal(job.state, 'succeeded');
      assert.equal(job.error, null);
      assert.equal(job.output.pages, 2);
      assert.deepEqual(job.output.tables, [{ source: 'local', space: 'main', table: 'jobs', records: 2 }]);
      assert.equal(job.stats.pages, 2);
      assert.equal(job.stats.requests, 2);
      assert.ok(job.createdAt <= job.startedAt && job.startedAt <= job.endedAt);
      assert.equal(typeof job.submittedBy.clientId, 'string');
    });

    test('an unknown one is 404, one of another application 403', async () => {
      assert.equal((await call('GET', '/nothing')).status, 404);
      const { jobId } = (await bench().run(opParams('/echo'))).body.result;
      const stranger = await bench().service.tokenOf('administrator', { applications: ['another'] });
      for (const path of ['', '/pages', '/events']) {
        assert.equal((await call('GET', `/${jobId}${path}`, stranger)).status, 403, path);
      }
      assert.equal((await call('POST', `/${jobId}/cancel`, stranger)).status, 403);
    });

    test('the list: the newest first, by state and application, in keyset pages', async () => {
      const ids: string[] = [];
      for (let n = 0; n < 3; n += 1) ids.push((await bench().run(opParams('/echo'))).body.result.jobId);
      const failed = failure(await bench().run(opParams('/status/400')))['jobId'];
      const first = (await call('GET', '?limit=2')).body.result;
      assert.deepEqual(
        first.items.map(({ jobId }: { jobId: string }) => jobId),
        [failed, ids[2]],
      );
      const second = (await call('GET', `?limit=2&after=${first.next}`)).body.result;
      assert.deepEqual(
        second.items.map(({ jobId }: { jobId: string }) => jobId),
        [ids[1], ids[0]],
      );
      const failures = (await call('GET', '?state=failed&limit=1')).body.result;
      assert.equal(failures.items[0].jobId, failed);
      assert.deepEqual((await call('GET', '?appId=another')).body.result.items, []);
      assert.equal((await call('GET', '?state=done')).status, 400);
    });
  });

  describe('cancel', () => {
    test('the first time: after the page that is under way, which is kept', async () => {
      const { api, service } = bench();
      const release = Promise.withResolvers<void>();
      api.answer('GET /held-page', async (exchange) => {
        await release.promise;
        exchange.json(200, {});
      });
      const script =
        'return { data: [{ data: [{ page: 1 }], tableName: "cancelled" }], doWhile: { url: "?next" } };';
      const waiting = bench().run(opParams('/held-page', script));
      await asked('/held-page');
      const [{ jobId }] = (await call('GET', '?state=running&limit=1')).body.result.items;
      const cancelling = await call('POST', `/${jobId}/cancel`);
      assert.equal(cancelling.status, 200);
      assert.equal(cancelling.body.result.state, 'running');
      release.resolve();
      const answer = await waiting;
      assert.equal(answer.status, 409, answer.text);
      assert.equal(failure(answer).code, 'cancelled');
      assert.equal(failure(answer)['jobId'], jobId);
      assert.equal((await call('GET', `/${jobId}`)).body.result.state, 'cancelled');
      assert.deepEqual(await bench().rows('cancelled'), [{ page: 1 }]);
      assert.equal(api.requestsTo('/held-page').length, 1, 'no further page');
      assert.ok(service.url);
    });

    test('the second time: at once, the request under way is broken off', async () => {
      const release = hold('/never-answered');
      const jobId = await startAsync(opParams('/never-answered'));
      await asked('/never-answered');
      await call('POST', `/${jobId}/cancel`);
      await call('POST', `/${jobId}/cancel`);
      const job = await ended(jobId);
      assert.equal(job.state, 'cancelled');
      assert.equal(job.error, null);
      release();
    });

    test('in a pause of doWhileDelay: at once, as no page is under way', async () => {
      const jobId = await startAsync(
        opParams('/echo?pause', 'return { doWhile: true, doWhileDelay: 3600000 };'),
      );
      const reader = (await streamOf(jobId)).body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ''; !text.includes('event: page');) text += (await reader?.read())?.value ?? '';
      await reader?.cancel();
      await call('POST', `/${jobId}/cancel`);
      const job = await ended(jobId);
      assert.equal(job.state, 'cancelled');
      assert.equal(job.stats.pages, 1);
    });

    test('a job that is over stays as it is; an unknown one is 404', async () => {
      const { jobId } = (await bench().run(opParams('/echo'))).body.result;
      const answer = await call('POST', `/${jobId}/cancel`);
      assert.equal(answer.status, 200);
      assert.equal(answer.body.result.state, 'succeeded');
      assert.equal((await call('POST', '/nothing/cancel')).status, 404);
    });
  });

  describe('events', () => {
    test('server-sent events with ids without gaps, from running to the end', async () => {
      const { jobId } = (await bench().run(opParams('/echo', `console.log('hello');${TWO_ROUNDS}`))).body
        .result;
      const response = await streamOf(jobId);
      assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
      const events = parseEvents(await response.text());
      assert.deepEqual(
        events.map(({ id }) => id),
        events.map((_, index) => index + 1),
      );
      // The next page is asked for while one is loaded, so a log line may come before the page that it follows.
      const told = (kind: string, property: string) =>
        events.filter(({ event }) => event === kind).map(({ data }) => data[property]);
      assert.deepEqual(told('state', 'state'), ['running', 'succeeded']);
      assert.deepEqual(told('page', 'n'), [1, 2]);
      assert.deepEqual(told('log', 'text'), ['hello', 'hello']);
      assert.deepEqual([events[0]?.data['state'], events.at(-1)?.data['state']], ['running', 'succeeded']);
    });

    test('Last-Event-ID goes on behind it, wherever the stream broke', async () => {
      const { jobId } = (await bench().run(opParams('/echo', TWO_ROUNDS))).body.result;
      const all = await eventsOf(jobId);
      for (let last = 0; last <= all.length; last += 1) {
        const rest = await eventsOf(jobId, { 'last-event-id': String(last) });
        assert.deepEqual(rest, all.slice(last));
      }
      assert.equal((await streamOf(jobId, { 'last-event-id': 'x' })).status, 400);
    });

    test('a running job is followed, and a listener that comes back misses nothing', async () => {
      const { api } = bench();
      const release = Promise.withResolvers<void>();
      api.answer('GET /followed', async (exchange) => {
        if (exchange.query.has('second')) await release.promise;
        exchange.json(200, {});
      });
      const script =
        "const more = $ctx.variables.more !== 'no'; return { variables: { more: { value: 'no', scope: 'executionContext' } }, doWhile: more ? { url: '?second' } : false };";
      const jobId = await startAsync(opParams('/followed', script));
      const reader = (await streamOf(jobId)).body?.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      while (!/event: page\n.*\n\n/.test(text)) text += (await reader?.read())?.value ?? '';
      await reader?.cancel();
      const seen = parseEvents(text);
      release.resolve();
      const rest = await eventsOf(jobId, { 'last-event-id': String(seen.at(-1)?.id) });
      const whole = [...seen, ...rest];
      assert.deepEqual(whole, await eventsOf(jobId));
      assert.equal(whole.at(-1)?.data['state'], 'succeeded');
    });

    test('many events come in order and without gaps', async () => {
      const script = `
        for (let n = 0; n < 120; n += 1) console.log(n);
        const { round = 1 } = $ctx.variables;
        return { variables: { round: { value: round + 1, scope: 'executionContext' } }, doWhile: round < 10 };`;
      const { jobId } = (await bench().run(opParams('/echo', script))).body.result;
      const events = await eventsOf(jobId);
      assert.deepEqual(
        events.map(({ id }) => id),
        events.map((_, index) => index + 1),
      );
      assert.ok(events.length > 1000);
    });
  });

  describe('pages', () => {
    test('what was sent and received, in order and in keyset pages', async () => {
      const params = opParams('/echo?a=1', TWO_ROUNDS, { headers: 'return { "X-Mine": "1" };' });
      const { jobId } = (await bench().run(params)).body.result;
      const [first, second] = (await call('GET', `/${jobId}/pages`)).body.result.items;
      const { n, iteration, record, status, statusMessage, records, tries, error } = first;
      assert.deepEqual([n, iteration, record, records, tries, error], [1, 1, null, 1, 1, null]);
      assert.deepEqual([status, statusMessage], [200, 'OK']);
      assert.equal(first.request.url, `${bench().api.url}/echo?a=1`);
      assert.ok(first.request.headers.some(({ name }: { name: string }) => name === 'X-Mine'));
      assert.match(first.next.why, /doWhile is true/);
      assert.deepEqual(first.tables, [{ source: 'local', space: 'main', table: 'jobs', records: 1 }]);
      assert.equal(second.next, null);
      const page = (await call('GET', `/${jobId}/pages?limit=1`)).body.result;
      assert.equal(page.items.length, 1);
      const rest = (await call('GET', `/${jobId}/pages?limit=1&after=${page.next}`)).body.result;
      assert.equal(rest.items[0].n, 2);
      assert.equal(rest.next, null);
    });

    test('a page that failed is there with its error and its response', async () => {
      const error = failure(await bench().run(opParams('/status/400')));
      const jobId = String(error['jobId']);
      const [page] = (await call('GET', `/${jobId}/pages`)).body.result.items;
      assert.equal(page.status, 400);
      assert.equal(page.error.code, 'http_status');
      const kept = await call('GET', `/${jobId}/pages/1/body`);
      assert.match(kept.text, /this is 400/);
      assert.match(kept.headers.get('content-type') ?? '', /^text\/plain/);
      assert.equal((await call('GET', `/${jobId}/pages/2/body`)).status, 404);
    });

    test('secrets are blotted out of pages, bodies, events, errors and logs', async () => {
      const { putSource, run, service, api } = bench();
      const secrets: Record<string, Record<string, string>> = {
        basic: { type: 'basic', username: 'ada', password: 'sesame-basic' },
        query: { type: 'apiKey', name: 'api_key', in: 'query', value: 'sesame-query' },
        cookie: { type: 'apiKey', name: 'sid', in: 'cookie', value: 'sesame-cookie' },
        header: { type: 'apiKey', name: 'X-Api-Key', in: 'header', value: 'sesame-header' },
        bearer: { type: 'bearer', token: 'sesame-bearer' },
      };
      api.answer('GET /mirror', (exchange) =>
        exchange.json(
          exchange.query.has('bad') ? 400 : 200,
          exchange.request.rawHeaders.concat(exchange.request.url),
          {
            'set-cookie': 'session=sesame-set',
            'x-mirror': exchange.request.url,
          },
        ),
      );
      const hidden = Object.values(secrets)
        .flatMap((auth) => [auth['password'], auth['value'], auth['token']])
        .filter((secret) => secret !== undefined)
        .concat(Buffer.from('ada:sesame-basic').toString('base64'), 'sesame-set');
      for (const [name, auth] of Object.entries(secrets)) {
        await putSource({ name, auth: auth as never });
        for (const path of ['/mirror', '/mirror?bad=1']) {
          const answer = await run(opParams(path, 'return { variables: {} };', { source: name }));
          const sent = api.requestsTo('/mirror').at(-1);
          assert.match(JSON.stringify([sent?.rawHeaders, sent?.url]), /sesame|Basic /, `${name} is sent`);
          const jobId: string = answer.body.result.jobId;
          const shown = [
            answer.text,
            (await call('GET', `/${jobId}`)).text,
            (await call('GET', `/${jobId}/pages`)).text,
            (await call('GET', `/${jobId}/pages/1/body`)).text,
            await (await streamOf(jobId)).text(),
            service.log.join('\n'),
          ].join('\n');
          for (const secret of hidden) assert.ok(!shown.includes(secret), `${name} ${path} shows ${secret}`);
          assert.match(shown, /\*\*\*/);
        }
      }
    });
  });
});

describe('API: jobs that wait for each other', () => {
  const bench = sharedBench({ settings: { jobsAtOnce: 1, syncWaitSeconds: 1 } });
  const held = (path: string) => {
    const gate = Promise.withResolvers<void>();
    bench().api.answer(`GET ${path}`, async (exchange) => {
      await gate.promise;
      exchange.json(200, {});
    });
    return {
      release: gate.resolve,
      params: {
        request: { url: bench().api.url + path, method: 'GET' },
        target: { action: 'parse JSON', parsingScript: 'return null;' },
      },
    };
  };
  const job = async (jobId: string) => {
    const { service, token } = bench();
    return (await service.call('GET', `/api/v1/jobs/${jobId}`, token)).body.result;
  };
  const stream = (jobId: string) =>
    fetch(`${bench().service.url}/api/v1/jobs/${jobId}/events`, {
      headers: { authorization: `Bearer ${bench().token}` },
    }).then((response) => response.text());

  test('over the number that run at once they are queued, and run in their order', async () => {
    const { run, api } = bench();
    const one = held('/order-1');
    const two = held('/order-2');
    const first = (await run(one.params, { isAsync: true })).body.result.jobId;
    const second = (await run(two.params, { isAsync: true })).body.result.jobId;
    await api.until(() => api.requestsTo('/order-1').length === 1);
    assert.equal((await job(first)).state, 'running');
    const queued = await job(second);
    assert.equal(queued.state, 'queued');
    assert.equal(queued.startedAt, null);
    two.release();
    one.release();
    await stream(second);
    assert.equal((await job(first)).state, 'succeeded');
    assert.equal((await job(second)).state, 'succeeded');
  });

  test('a queued job is cancelled at once, and never run', async () => {
    const { run, api, service, token } = bench();
    const one = held('/before-1');
    const two = held('/before-2');
    const first = (await run(one.params, { isAsync: true })).body.result.jobId;
    const second = (await run(two.params, { isAsync: true })).body.result.jobId;
    const cancelled = await service.call('POST', `/api/v1/jobs/${second}/cancel`, token);
    assert.equal(cancelled.body.result.state, 'cancelled');
    assert.notEqual(cancelled.body.result.endedAt, null);
    one.release();
    await stream(first);
    await stream(second);
    const after = held('/after');
    after.release();
    assert.equal((await run(after.params)).status, 200);
    assert.equal(api.requestsTo('/before-2').length, 0);
    assert.equal((await job(second)).state, 'cancelled');
  });

  test('a call that waits longer than the limit is answered by 202 like an async one; the job goes on', async () => {
    const { run } = bench();
    const slow = held('/over-the-limit');
    const answer = await run(slow.params);
    assert.equal(answer.status, 202, answer.text);
    const { jobId, state, statusUrl } = answer.body.result;
    assert.equal(state, 'running');
    assert.equal(statusUrl, `/api/v1/jobs/${jobId}`);
    assert.equal(answer.headers.get('location'), statusUrl);
    slow.release();
    await stream(jobId);
    assert.equal((await job(jobId)).state, 'succeeded');
  });

  test('an Idempotency-Key is forgotten after 24 hours', async () => {
    const { service, api, appId } = bench();
    const { newClient } = service;
    const given = {
      appId,
      isAsync: true,
      operation: {
        opName: 'HTTPRequest',
        opParams: { request: { url: `${api.url}/echo`, method: 'GET' } },
      },
    };
    const client = await newClient();
    const jobOf = async () => {
      const token = await service.form({ grant_type: 'client_credentials', ...client });
      const response = await fetch(`${service.url}/api/v1/executeJob`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token.body.access_token}`,
          'content-type': 'application/json',
          'idempotency-key': 'daily',
        },
        body: JSON.stringify(given),
      });
      assert.equal(response.status, 202);
      return ((await response.json()) as { result: { jobId: string } }).result.jobId;
    };
    const first = await jobOf();
    service.clock.advance(23 * 3600);
    assert.equal(await jobOf(), first);
    service.clock.advance(3600 + 60);
    assert.notEqual(await jobOf(), first);
  });
});
