import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Job } from '../../src/model/job.ts';
import type { OutboxItem } from '../../src/model/outbox.ts';
import { sqlitePlace } from '../support/databases.ts';
import { startExternalApi, type ExternalApi } from '../support/external-api.ts';
import { spawnService, type ServiceProcess } from '../support/service-process.ts';

/** By far most of the time is that of starting the service: OUTBOX_RECORDS=10000 OUTBOX_KILLS=10 is the whole test. */
const RECORDS = Number(process.env['OUTBOX_RECORDS'] ?? 500);
const KILLS = Number(process.env['OUTBOX_KILLS'] ?? 3);
const AT_ONCE = 8;
const APP_ID = 'shop';
const CLIENT = { client_id: 'crash-test', client_secret: 'crash-test-secret-1' };
const ENVIRONMENT = {
  MILLRACE_BOOTSTRAP_CLIENT_ID: CLIENT.client_id,
  MILLRACE_BOOTSTRAP_CLIENT_SECRET: CLIENT.client_secret,
  MILLRACE_ARGON2_MEMORY_KIB: '64',
  MILLRACE_ARGON2_PASSES: '1',
};

// One sends while another one starts.
describe('The outbox, under SIGKILL', { concurrency: true }, () => {
  test(`SIGKILL ${KILLS} times while records are sent: with idempotency keys each is taken exactly once`, async (t) => {
    const { taken, api } = await receiver(t);
    const bench = await killable(t);
    await bench.run(api, RECORDS, KILLS, {
      sourceTable: { source: 'local', table: 'records' },
      request: {
        url: `${api.url}/take`,
        method: 'POST',
        body: { script: 'return $ctx.data;' },
        options: { concurrency: AT_ONCE, idempotencyKey: true, onUnknown: 'resend' },
      },
    });
    const job = await bench.ended();
    assert.equal(job.state, 'succeeded', JSON.stringify(job.error));
    assert.deepEqual(sorted(taken), upTo(RECORDS));
    assert.deepEqual((job.output as Record<string, unknown>)['outbox'], {
      ok: RECORDS,
      failed: 0,
      unknown: 0,
    });
    assert.equal(job.stats.sourceRecords, RECORDS);
    t.diagnostic(`${api.requests.length - RECORDS} of ${RECORDS} requests went out again with the same key`);
  });

  test(`SIGKILL ${KILLS} times, and no keys: what is in doubt is listed, and never sent again`, async (t) => {
    const { taken, api } = await receiver(t);
    const bench = await killable(t);
    await bench.run(api, RECORDS, KILLS, {
      sourceTable: { source: 'local', table: 'records' },
      request: {
        url: `${api.url}/take`,
        method: 'POST',
        body: { script: 'return $ctx.data;' },
        options: { concurrency: AT_ONCE },
      },
    });
    let job = await bench.ended();
    for (; job.state === 'failed'; job = await bench.ended()) await bench.resumeSkipping(job);
    assert.equal(job.state, 'succeeded', JSON.stringify(job.error));
    const unknown = (await bench.outbox('unknown')).map(({ number }) => number);
    assert.ok(unknown.length <= KILLS * AT_ONCE, `${unknown.length}`);
    const ok = (await bench.outbox('ok')).map(({ number }) => number);
    assert.deepEqual(sorted([...ok, ...unknown]), upTo(RECORDS), 'each record is one or the other');
    assert.equal(new Set(taken).size, taken.length, 'none was sent twice');
    assert.deepEqual(
      upTo(RECORDS).filter((id) => !taken.includes(id) && !unknown.includes(id)),
      [],
      'what never arrived is in doubt',
    );
    t.diagnostic(`${unknown.length} of ${RECORDS} records in doubt after ${KILLS} kills`);
  });

  test('SIGKILL in the middle of a bisection: it goes on, and delivers no record twice', async (t) => {
    const bad = [3, 250, 251, 499, 500];
    const { taken, api } = await receiver(t, bad);
    const bench = await killable(t);
    await bench.run(api, 45, KILLS, {
      sourceTable: { source: 'local', table: 'records', batching: true, batchSize: RECORDS },
      request: {
        url: `${api.url}/take`,
        method: 'POST',
        body: { script: 'return $ctx.data;' },
        options: { idempotencyKey: true, onUnknown: 'resend', onRejectedBatch: 'bisect' },
      },
    });
    const job = await bench.ended();
    assert.equal(job.state, 'succeeded', JSON.stringify(job.error));
    assert.deepEqual(
      taken,
      upTo(RECORDS).filter((id) => !bad.includes(id)),
      'once, and in order',
    );
    const rejected = await bench.call('GET', `/applications/${APP_ID}/tables/local/main/records_rejected`);
    assert.deepEqual(
      rejected['items'].map(({ number }: { number: number }) => number),
      bad,
    );
  });
});

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
const sorted = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b);

/** Counts what it takes: with a key that it knows, it only answers. */
async function receiver(t: TestContext, bad: readonly number[] = []) {
  const api = await startExternalApi(t);
  const taken: number[] = [];
  const keys = new Set<string>();
  api.answer('POST /take', async (exchange) => {
    const ids = [exchange.jsonBody()].flat().map((record) => (record as { id: number }).id);
    if (ids.some((id) => bad.includes(id))) {
      exchange.json(422, { error: 'a bad record is among them' });
      return;
    }
    const key = exchange.request.headers['idempotency-key'];
    if (key === undefined || !keys.has(String(key))) taken.push(...ids);
    if (key !== undefined) keys.add(String(key));
    await delay(Math.random() * 10); // so that a kill comes between taking and answering, too
    exchange.json(200, {});
  });
  return { api, taken };
}

/** One job, whichever process runs it. */
async function killable(t: TestContext) {
  const { data, remove } = await sqlitePlace();
  t.after(remove);
  let jobId = '';
  let call: Call = async () => ({});
  const start = async (): Promise<ServiceProcess> => {
    const service = await spawnService(t, { data, env: ENVIRONMENT });
    call = await caller(service);
    return service;
  };
  const ended = async (): Promise<Job> => {
    for (;;) {
      const job = (await call('GET', `/jobs/${jobId}`)) as Job;
      if (job.endedAt !== null) return job;
      await delay(50);
    }
  };
  const resumeSkipping = async ({ error }: Job): Promise<void> => {
    assert.equal(error?.code, 'outcome_unknown', JSON.stringify(error));
    await call('POST', `/jobs/${jobId}/resume`, { onUnknown: 'skip' });
  };
  /** Kills it after random shares of so many requests; the last service is left running. */
  const run = async (api: ExternalApi, requests: number, kills: number, opParams: unknown): Promise<void> => {
    const share = requests / (kills + 1);
    for (let kill = 0; kill < kills; kill += 1) {
      const service = await start();
      if (jobId === '') jobId = await submit(call, opParams);
      const until = api.requests.length + 1 + Math.floor(share * (0.5 + Math.random() / 2));
      await resumedUntil(() => api.requests.length >= until);
      const exited = once(service.child, 'exit');
      service.child.kill('SIGKILL');
      await exited;
    }
    await start();
  };
  /** A job that failed because records are in doubt is resumed on the way. */
  const resumedUntil = async (isThere: () => boolean): Promise<void> => {
    while (!isThere()) {
      const job = (await call('GET', `/jobs/${jobId}`)) as Job;
      if (job.state === 'failed') await resumeSkipping(job);
      if (job.state === 'succeeded') return;
      await delay(10);
    }
  };
  const outbox = async (status: string): Promise<OutboxItem[]> => {
    const items: OutboxItem[] = [];
    for (let after: string | null = ''; after !== null;) {
      const query = `limit=1000&status=${status}${after === '' ? '' : `&after=${after}`}`;
      const page = await call('GET', `/jobs/${jobId}/outbox?${query}`);
      items.push(...(page['items'] as OutboxItem[]));
      after = page['next'] as string | null;
    }
    return items;
  };
  return { run, ended, resumeSkipping, outbox, call: ((...args) => call(...args)) as Call };
}

// oxlint-disable-next-line typescript/no-explicit-any -- answers of any shape
type Call = (method: string, path: string, body?: unknown) => Promise<Record<string, any>>;

async function submit(call: Call, opParams: unknown): Promise<string> {
  await call('POST', '/applications', { appId: APP_ID });
  const rows = upTo(RECORDS).map((id) => ({ id }));
  await call('PUT', `/applications/${APP_ID}/tables/local/main/records`, rows);
  const operation = { opName: 'HTTPRequest', opParams };
  const { jobId } = await call('POST', '/executeJob', { appId: APP_ID, isAsync: true, operation });
  return jobId as string;
}

async function caller(service: ServiceProcess): Promise<Call> {
  const grant = new URLSearchParams({ grant_type: 'client_credentials', ...CLIENT });
  const { access_token } = (await (await service.form(grant.toString())).json()) as { access_token: string };
  return async (method, path, body) => {
    const response = await fetch(`${service.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    assert.ok(response.ok, text);
    // oxlint-disable-next-line typescript/no-explicit-any -- as above
    return (JSON.parse(text) as { result: Record<string, any> }).result;
  };
}
