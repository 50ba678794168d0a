import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Job } from '../../src/model/job.ts';
import { sqlitePlace } from '../support/databases.ts';
import { startExternalApi, type ExternalApi } from '../support/external-api.ts';
import { spawnService, type ServiceProcess } from '../support/service-process.ts';

const KILLS = 20;
const PAGES = 200;
const PAGE_SIZE = 20;
const APP_ID = 'shop';
const CLIENT = { client_id: 'crash-test', client_secret: 'crash-test-secret-1' };
const ENVIRONMENT = {
  MILLRACE_BOOTSTRAP_CLIENT_ID: CLIENT.client_id,
  MILLRACE_BOOTSTRAP_CLIENT_SECRET: CLIENT.client_secret,
  MILLRACE_ARGON2_MEMORY_KIB: '64',
  MILLRACE_ARGON2_PASSES: '1',
};

type Mode = 'append' | 'createThenAppend';

test(`SIGKILL at random moments of a ${PAGES}-page download, ${KILLS} times: each start goes on by itself`, async (t) => {
  // Both at once: while one starts, the other downloads.
  const [appended, created] = await Promise.all([killOften(t, 'append'), killOften(t, 'createThenAppend')]);
  t.diagnostic(`pages committed when the kill came: append ${appended.join(', ')}`);
  t.diagnostic(`createThenAppend ${created.join(', ')}`);
});

/** One job to its end, over many services that are killed. Gives the pages that were committed at each kill. */
async function killOften(t: TestContext, mode: Mode): Promise<number[]> {
  const api = await startExternalApi(t, { orders: PAGES * PAGE_SIZE });
  const { data, remove } = await sqlitePlace();
  t.after(remove);
  const committed: number[] = [];
  let jobId: string | undefined;
  for (let kill = 1; kill <= KILLS / 2; kill += 1) {
    const service = await spawnService(t, { data, env: ENVIRONMENT });
    const ready = performance.now();
    const asked = api.requests.length;
    jobId ??= await submit(service, api, mode);
    await api.until(() => api.requests.length > asked);
    const takenUpMs = performance.now() - ready;
    assert.ok(takenUpMs < 2_000, `the job went on ${takenUpMs} ms after the start`);
    // A moment after some page was asked for, whichever part of a page's way that hits.
    const until = asked + 1 + Math.floor(Math.random() * (PAGES / (KILLS / 2) - 2));
    await api.until(() => api.requests.length >= until);
    await delay(Math.random() * 15);
    const exited = once(service.child, 'exit');
    service.child.kill('SIGKILL');
    await exited;
    committed.push(pagesLeft(data, mode));
    assert.ok((committed.at(-1) ?? 0) >= (committed.at(-2) ?? 0), 'no page is lost');
  }
  const service = await spawnService(t, { data, env: ENVIRONMENT });
  const job = await ended(service, jobId as string);
  assert.equal(job.state, 'succeeded', JSON.stringify(job));
  assert.deepEqual(
    [job.stats.pages, job.stats.records, job.output],
    [
      PAGES,
      PAGES * PAGE_SIZE + PAGES,
      {
        ...(job.output as object),
        pages: PAGES,
        tables: [
          { source: 'local', space: 'main', table: 'orders', records: PAGES * PAGE_SIZE },
          { source: 'local', space: 'main', table: 'pages', records: PAGES },
        ],
      },
    ],
  );
  const exited = once(service.child, 'exit');
  service.child.kill('SIGTERM');
  await exited;
  assert.equal(pagesLeft(data, mode), PAGES);
  return committed;
}

async function submit(service: ServiceProcess, api: ExternalApi, mode: Mode): Promise<string> {
  const call = await caller(service);
  await call('POST', '/applications', { appId: APP_ID });
  if (mode === 'createThenAppend')
    await call('PUT', `/applications/${APP_ID}/tables/local/main/orders`, OLD_ROWS);
  const submitted = await call('POST', '/executeJob', {
    appId: APP_ID,
    isAsync: true,
    operation: { opName: 'HTTPRequest', opParams: download(api, mode) },
  });
  return (submitted as { jobId: string }).jobId;
}

async function ended(service: ServiceProcess, jobId: string): Promise<Job> {
  const call = await caller(service);
  for (;;) {
    const job = (await call('GET', `/jobs/${jobId}`)) as Job;
    if (job.endedAt !== null) return job;
    await delay(50);
  }
}

async function caller(service: ServiceProcess) {
  const grant = new URLSearchParams({ grant_type: 'client_credentials', ...CLIENT });
  const { access_token } = (await (await service.form(grant.toString())).json()) as { access_token: string };
  return async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const response = await fetch(`${service.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    assert.ok(response.ok, text);
    return (JSON.parse(text) as { result: unknown }).result;
  };
}

const OLD_ROWS = [{ id: -1, page: -1 }];

function download(api: ExternalApi, mode: Mode) {
  return {
    request: { url: `${api.url}/orders/by-next?size=${PAGE_SIZE}`, method: 'GET' },
    target: {
      action: 'parse JSON',
      table: 'orders',
      parsingScript: `
        const { items, next } = $ctx.response.body;
        const page = ($ctx.variables.page ?? 0) + 1;
        return {
          data: [
            { data: items.map(({ id }) => ({ id, page })), mode: '${mode}' },
            { data: items.slice(0, 1).map(({ id }) => ({ first: id, page })), mode: '${mode}', tableName: 'pages' },
          ],
          variables: { page: { value: page, scope: 'executionContext' } },
          doWhile: next === null ? false : { url: next },
        };`,
    },
  };
}

interface Cursor {
  source: { number: number };
  records: { iteration: number; next: string | null }[];
  executionContext: { page: number };
}

/** Checks what a kill left, and says how many pages that is. */
function pagesLeft(data: string, mode: Mode): number {
  assertSound(join(data, 'millrace.sqlite'));
  const file = join(data, 'applications', APP_ID, 'local.sqlite');
  if (!existsSync(file)) return 0;
  assertSound(file);
  const database = new DatabaseSync(file);
  try {
    const checkpoint = database.prepare('SELECT page, cursor FROM _checkpoint').get() as
      { page: number; cursor: string | null } | undefined;
    const isOver = checkpoint === undefined && visible(database, 'pages') !== null;
    const rowsOf = (table: string) =>
      mode === 'append' || isOver ? visible(database, table) : staged(database, table);
    if (mode === 'createThenAppend' && !isOver) {
      assert.deepEqual(
        visible(database, 'orders'),
        OLD_ROWS,
        'readers see the old table until the job succeeds',
      );
    }
    const pages = isOver ? PAGES : (checkpoint?.page ?? 0);
    assert.deepEqual(rowsOf('orders') ?? [], expectedOrders(pages));
    assert.deepEqual(rowsOf('pages') ?? [], expectedFirsts(pages));
    if (checkpoint && pages > 0) assertCursor(JSON.parse(checkpoint.cursor ?? '') as Cursor, pages);
    return pages;
  } finally {
    database.close();
  }
}

function assertCursor({ source, records: [record], executionContext }: Cursor, pages: number): void {
  assert.equal(executionContext.page, pages, 'the variable is that of the last page');
  if (pages === PAGES) {
    assert.deepEqual([source.number, record], [1, undefined], 'the loop has ended');
    return;
  }
  assert.equal(record?.iteration, pages);
  const nextPage = new URL(record.next ?? '').searchParams.get('page');
  assert.equal(nextPage, String(pages + 1), 'the next URL leads to the page after it');
}

function expectedOrders(pages: number) {
  return Array.from({ length: pages * PAGE_SIZE }, (_, index) => ({
    id: index + 1,
    page: Math.floor(index / PAGE_SIZE) + 1,
  }));
}

function expectedFirsts(pages: number) {
  return Array.from({ length: pages }, (_, index) => ({ first: index * PAGE_SIZE + 1, page: index + 1 }));
}

const visible = (database: DatabaseSync, table: string) => rows(database, table, 0);
const staged = (database: DatabaseSync, table: string) => rows(database, table, 1);

/** null: there is no such table. */
function rows(database: DatabaseSync, table: string, isStaged: 0 | 1): Record<string, unknown>[] | null {
  const found = database
    .prepare('SELECT physical FROM _table WHERE name = ? AND staged = ?')
    .all(table, isStaged) as { physical: string }[];
  assert.ok(found.length <= 1);
  const [only] = found;
  if (!only) return null;
  const all = database.prepare(`SELECT * FROM "${only.physical}" ORDER BY __row__`).all();
  return all.map(({ __row__, ...row }) => ({ ...row }));
}

function assertSound(file: string): void {
  const database = new DatabaseSync(file);
  try {
    assert.deepEqual({ ...database.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
    assert.deepEqual(database.prepare('PRAGMA foreign_key_check').all(), []);
  } finally {
    database.close();
  }
}
