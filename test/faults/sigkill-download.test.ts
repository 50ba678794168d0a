import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { sqlitePlace } from '../support/databases.ts';
import { startExternalApi, type ExternalApi } from '../support/external-api.ts';
import { spawnService } from '../support/service-process.ts';

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

test(`SIGKILL at random moments of a ${PAGES}-page download, ${KILLS} times: whole pages, and the checkpoint agrees`, async (t) => {
  // Both at once: while one starts, the other downloads.
  const [appended, created] = await Promise.all([killOften(t, 'append'), killOften(t, 'createThenAppend')]);
  t.diagnostic(`pages committed when the kill came: append ${appended.join(', ')}`);
  t.diagnostic(`createThenAppend ${created.join(', ')}`);
  const hits = [...appended, ...created].filter((pages) => pages > 0 && pages < PAGES);
  assert.ok(hits.length > KILLS / 2, 'most kills hit the download');
});

async function killOften(t: TestContext, mode: Mode): Promise<number[]> {
  const api = await startExternalApi(t, { orders: PAGES * PAGE_SIZE });
  const committed: number[] = [];
  for (let kill = 0; kill < KILLS / 2; kill += 1) {
    const { data, remove } = await sqlitePlace();
    try {
      await downloadUntilKilled(t, api, data, mode);
      committed.push(pagesLeft(data, mode));
    } finally {
      await remove();
    }
  }
  return committed;
}

/** The kill comes a moment after some page was asked for, whichever part of a page's way that hits. */
async function downloadUntilKilled(
  t: TestContext,
  api: ExternalApi,
  data: string,
  mode: Mode,
): Promise<void> {
  const service = await spawnService(t, { data, env: ENVIRONMENT });
  const grant = new URLSearchParams({ grant_type: 'client_credentials', ...CLIENT });
  const { access_token } = (await (await service.form(grant.toString())).json()) as { access_token: string };
  const call = async (method: string, path: string, body: unknown) => {
    const response = await fetch(`${service.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.ok(response.ok, await response.text());
  };
  await call('POST', '/applications', { appId: APP_ID });
  if (mode === 'createThenAppend')
    await call('PUT', `/applications/${APP_ID}/tables/local/main/orders`, OLD_ROWS);
  const before = api.requests.length;
  await call('POST', '/executeJob', {
    appId: APP_ID,
    isAsync: true,
    operation: { opName: 'HTTPRequest', opParams: download(api, mode) },
  });
  const asked = before + Math.ceil(Math.random() * PAGES);
  await api.until(() => api.requests.length >= asked);
  await delay(Math.random() * 15);
  const exited = once(service.child, 'exit');
  service.child.kill('SIGKILL');
  await exited;
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
  iteration: number;
  next: string | null;
  changes: { executionContext: { page: number } };
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

function assertCursor({ iteration, next, changes }: Cursor, pages: number): void {
  assert.equal(iteration, pages);
  assert.equal(changes.executionContext.page, pages, 'the variable is that of the last page');
  const nextPage = next === null ? null : new URL(next).searchParams.get('page');
  assert.equal(
    nextPage,
    pages === PAGES ? null : String(pages + 1),
    'the next URL leads to the page after it',
  );
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
