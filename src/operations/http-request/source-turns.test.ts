import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { openPostgres } from '../../database/adapters/postgres.ts';
import { openSqlite } from '../../database/adapters/sqlite.ts';
import type { Database } from '../../database/database.ts';
import { migrate } from '../../system/migrations/migrate.ts';
import { RateBudgets } from '../../system/rate-budgets.ts';
import type { Records } from '../../system/records.ts';
import { onEachDatabase } from '../../../test/support/databases.ts';
import { SourceLimits, type SourceTurns } from './source-turns.ts';

interface Node {
  limits: SourceLimits;
  /** How often the database was asked. */
  calls: () => number;
}

/** Timers and a busy machine shift what is sent, not when its turn was. */
const JITTER_MS = 100;

onEachDatabase('SourceLimits', (newPlace) => {
  async function nodes(t: TestContext, count: number): Promise<Node[]> {
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
    return databases.map((database) => {
      let calls = 0;
      const counted: Database<Records> = {
        ...database,
        run(text, parameters) {
          calls += 1;
          return database.run(text, parameters);
        },
      };
      return { limits: new SourceLimits(new RateBudgets(counted)), calls: () => calls };
    });
  }

  function take(turns: SourceTurns, signal = new AbortController().signal): Promise<void> {
    return turns.take({ signal, kept: null, pause: () => assert.fail('a short wait is no pause') });
  }

  async function arrivals(node: Node, requests: number, times: number): Promise<number[]> {
    const turns = node.limits.of('a/s', { requests, perSeconds: 1 });
    const seen: number[] = [];
    for (let n = 0; n < times; n += 1) {
      await take(turns);
      seen.push(performance.now());
    }
    return seen;
  }

  function mostInASecond(times: number[]): number {
    return Math.max(...times.map((end) => times.filter((at) => at > end - 1_000 && at <= end).length));
  }

  test('jobs of several nodes together keep to the limit, and use it', async (t) => {
    const three = await nodes(t, 3);
    const began = performance.now();
    const jobs = [...three, ...three].map((node) => arrivals(node, 50, 25));
    const times = (await Promise.all(jobs)).flat();
    const seconds = (performance.now() - began) / 1000;
    const most = mostInASecond(times);
    assert.ok(most <= 50 + (50 * JITTER_MS) / 1000, `${most} in a second`);
    assert.ok(seconds < 8, `150 requests at 50 a second took ${seconds} s`);
  });

  test('many turns cost few calls', async (t) => {
    const [node] = (await nodes(t, 1)) as [Node];
    await Promise.all(Array.from({ length: 10 }, () => arrivals(node, 1_000, 100)));
    assert.ok(node.calls() < 100, `${node.calls()} calls for 1,000 turns`);
  });

  test('a source without a limit waits for nothing; blocks are looked up once a second', async (t) => {
    const [node] = (await nodes(t, 1)) as [Node];
    const turns = [node.limits.of('a/s', undefined), node.limits.of('a/t', undefined)];
    const began = performance.now();
    for (let n = 0; n < 5_000; n += 1) await Promise.all(turns.map((of) => take(of)));
    const seconds = (performance.now() - began) / 1000;
    assert.ok(node.calls() <= 1 + seconds, `${node.calls()} calls in ${seconds} s`);
  });

  test('turns are given in the order of asking', async (t) => {
    const [node] = (await nodes(t, 1)) as [Node];
    const turns = node.limits.of('a/s', { requests: 40, perSeconds: 1 });
    const order: number[] = [];
    await Promise.all(Array.from({ length: 20 }, (_, n) => take(turns).then(() => order.push(n))));
    assert.deepEqual(
      order,
      Array.from({ length: 20 }, (_, n) => n),
    );
  });

  test('a block that one node has met holds back the others, with a limit and without', async (t) => {
    const [mine, other] = (await nodes(t, 2)) as [Node, Node];
    for (const limit of [undefined, { requests: 100, perSeconds: 1 }]) {
      await mine.limits.of('a/s', limit).blocked(1_500);
      const began = performance.now();
      await Promise.all([mine, mine, other, other].map(({ limits }) => take(limits.of('a/s', limit))));
      const took = performance.now() - began;
      assert.ok(took > 1_400, `sent after ${took} ms`);
      await delay(1_000); // so that the next look is a new one
    }
  });

  test('a turn from before a block is not used', async (t) => {
    const [node] = (await nodes(t, 1)) as [Node];
    const turns = node.limits.of('a/s', { requests: 4, perSeconds: 1 });
    await take(turns);
    const began = performance.now();
    const waiting = [take(turns), take(turns)];
    await turns.blocked(1_000);
    await Promise.all(waiting);
    const took = performance.now() - began;
    assert.ok(took > 1_200, `both sent after ${took} ms`);
  });

  test('the signal ends a wait at once', async (t) => {
    const [node] = (await nodes(t, 1)) as [Node];
    const turns = node.limits.of('a/s', { requests: 1, perSeconds: 4 });
    await take(turns);
    const abort = new AbortController();
    const reason = new Error('the job was cancelled');
    const waiting = take(turns, abort.signal);
    const began = performance.now();
    abort.abort(reason);
    await assert.rejects(waiting, reason);
    assert.ok(performance.now() - began < 1_000);
  });

  test('a job that pauses keeps its turn', async (t) => {
    const [node] = (await nodes(t, 1)) as [Node];
    const turns = node.limits.of('a/s', { requests: 1, perSeconds: 60 });
    const { signal } = new AbortController();
    await take(turns);
    const paused = new Error('paused');
    const until: number[] = [];
    const pause = (at: number): Promise<never> => {
      until.push(Math.round((at - Date.now()) / 1_000));
      return Promise.reject(paused);
    };
    await assert.rejects(turns.take({ signal, kept: null, pause }), paused);
    const soon = Date.now() + 300;
    await turns.take({ signal, kept: soon, pause });
    assert.ok(Date.now() >= soon - 1);
    await assert.rejects(turns.take({ signal, kept: Date.now() - 10_000, pause }), paused);
    assert.deepEqual(until, [60, 120], 'one that was not used in time is asked for again');
  });
});
