import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openPostgres } from '../database/adapters/postgres.ts';
import { openSqlite } from '../database/adapters/sqlite.ts';
import { onEachDatabase } from '../../test/support/databases.ts';
import { migrate } from './migrations/migrate.ts';
import { RateBudgets } from './rate-budgets.ts';
import type { Records } from './records.ts';

const HOUR_MS = 3_600_000;

onEachDatabase('RateBudgets', (newPlace) => {
  /** Several nodes: each has its own connection to one database. */
  async function nodes(t: TestContext, count: number): Promise<RateBudgets[]> {
    const place = await newPlace();
    const databases = Array.from({ length: count }, () =>
      place.database
        ? openPostgres<Records>(place.database, () => {})
        : openSqlite<Records>(join(place.data, 'records.sqlite')),
    );
    t.after(async () => {
      for (const database of databases) await database.close();
      await place.remove();
    });
    await Promise.all(databases.map(migrate));
    return databases.map((database) => new RateBudgets(database));
  }

  const near = (ms: number | undefined, expected: number) =>
    assert.ok(ms !== undefined && ms <= expected && ms > expected - 60_000, `${ms} is near ${expected}`);

  test('a turn is given once, however many ask at the same moment', async (t) => {
    const budgets = await nodes(t, 3);
    const given = await Promise.all(
      Array.from({ length: 10 }, () => budgets.map((node) => node.reserve('a/s', 2, HOUR_MS / 2))).flat(),
    );
    const hours = given.map(({ waitMs }) => Math.ceil(waitMs / HOUR_MS)).toSorted((a, b) => a - b);
    assert.deepEqual(
      hours,
      Array.from({ length: 30 }, (_, index) => index),
    );
  });

  test('sources have turns of their own, and what nobody used is not saved up', async (t) => {
    const [budgets] = (await nodes(t, 1)) as [RateBudgets];
    assert.equal((await budgets.reserve('a/s', 1, 1)).waitMs, 0);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal((await budgets.reserve('a/s', 1, HOUR_MS)).waitMs, 0);
    near((await budgets.reserve('a/s', 1, 1)).waitMs, HOUR_MS);
    assert.equal((await budgets.reserve('a/t', 1, HOUR_MS)).waitMs, 0);
  });

  test('a fast limit loses nothing by rounding', async (t) => {
    const [budgets] = (await nodes(t, 1)) as [RateBudgets];
    await budgets.reserve('a/s', 1, HOUR_MS);
    const first = await budgets.reserve('a/s', 1, 0.125);
    const began = performance.now();
    for (let n = 1; n < 80; n += 1) await budgets.reserve('a/s', 1, 0.125);
    const last = await budgets.reserve('a/s', 1, 0.125);
    const took = performance.now() - began;
    assert.ok(Math.abs(last.waitMs + took - first.waitMs - 10) < 5, `${last.waitMs + took - first.waitMs}`);
  });

  test('a block holds back all, and a shorter one does not end it', async (t) => {
    const [mine, other] = (await nodes(t, 2)) as [RateBudgets, RateBudgets];
    assert.deepEqual(await other.blocks(), []);
    await mine.block({ source: 'a/s', ms: HOUR_MS });
    await mine.block({ source: 'a/s', ms: 1_000 });
    await mine.block({ source: 'a/gone', ms: 0 });
    const [block, ...more] = await other.blocks();
    assert.deepEqual([block?.source, more], ['a/s', []]);
    near(block?.ms, HOUR_MS);
    near((await other.reserve('a/s', 1, HOUR_MS)).waitMs, HOUR_MS);
    near((await other.reserve('a/s', 1, HOUR_MS)).waitMs, 2 * HOUR_MS);
    await mine.forget('a/s');
    assert.deepEqual(await other.blocks(), []);
    assert.equal((await other.reserve('a/s', 1, HOUR_MS)).waitMs, 0);
  });
});
