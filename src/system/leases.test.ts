import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { openPostgres } from '../database/adapters/postgres.ts';
import { openSqlite } from '../database/adapters/sqlite.ts';
import type { Database } from '../database/database.ts';
import { onEachDatabase, type Place } from '../../test/support/databases.ts';
import { LeaseLost, Leases } from './leases.ts';
import { migrate } from './migrations/migrate.ts';
import type { Records } from './records.ts';

onEachDatabase('Leases', (newPlace) => {
  /** Several nodes: each has its own connection to one database. */
  async function nodes(
    t: TestContext,
    count: number,
  ): Promise<{ databases: Database<Records>[]; place: Place }> {
    const place = await newPlace();
    const databases = Array.from({ length: count }, () => open(place));
    t.after(async () => {
      for (const database of databases) await database.close();
      await place.remove();
    });
    await migrate(databases[0] as Database<Records>);
    return { databases, place };
  }

  function open(place: Place): Database<Records> {
    return place.database
      ? openPostgres<Records>(place.database, () => {})
      : openSqlite<Records>(join(place.data, 'records.sqlite'));
  }

  async function oneNode(t: TestContext): Promise<Database<Records>> {
    return (await nodes(t, 1)).databases[0] as Database<Records>;
  }

  async function rows(database: Database<Records>) {
    return database.query.selectFrom('lease').selectAll().execute();
  }

  test('one at a time among all nodes, and everybody comes to it', async (t) => {
    const { databases } = await nodes(t, 3);
    let inside = 0;
    let most = 0;
    const done: number[] = [];
    await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        new Leases(databases[index % 3] as Database<Records>).withLease('one', 5_000, async () => {
          inside += 1;
          most = Math.max(most, inside);
          await delay(1);
          inside -= 1;
          done.push(index);
        }),
      ),
    );
    assert.equal(most, 1);
    assert.equal(new Set(done).size, 30);
    assert.deepEqual(await rows(databases[0] as Database<Records>), []);
  });

  test('of many that take an expired lease at the same moment one wins', async (t) => {
    const { databases } = await nodes(t, 2);
    const [database] = databases as [Database<Records>];
    await database.query.insertInto('lease').values({ name: 'a', holder: 'dead', until: 1 }).execute();
    let inside = 0;
    await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        new Leases(databases[index % 2] as Database<Records>).withLease('a', 5_000, async () => {
          inside += 1;
          assert.equal(inside, 1);
          await delay(2);
          inside -= 1;
        }),
      ),
    );
  });

  test('different names do not wait for each other', async (t) => {
    const leases = new Leases(await oneNode(t));
    const inner = await leases.withLease('a', 5_000, () => leases.withLease('b', 5_000, async () => 'inner'));
    assert.equal(inner, 'inner');
  });

  test('given back when the work fails, with its error', async (t) => {
    const database = await oneNode(t);
    const leases = new Leases(database);
    await assert.rejects(
      leases.withLease('a', 5_000, () => Promise.reject(new Error('the work failed'))),
      /the work failed/,
    );
    assert.deepEqual(await rows(database), []);
  });

  test('a holder that died keeps it until its time is over', async (t) => {
    const database = await oneNode(t);
    let now = 1_000;
    const leases = new Leases(database, () => now);
    await database.query.insertInto('lease').values({ name: 'a', holder: 'dead', until: 31_000 }).execute();
    let taken = false;
    const waiting = leases.withLease('a', 30_000, async () => {
      taken = true;
    });
    await delay(300);
    assert.equal(taken, false);
    now = 30_999;
    await delay(300);
    assert.equal(taken, false);
    now = 31_000;
    await waiting;
    assert.equal(taken, true);
  });

  test('a process that was killed in the middle of its work', async (t) => {
    const { databases, place } = await nodes(t, 1);
    const [adapter, opened] = place.database
      ? ['postgres', `openPostgres(${JSON.stringify(place.database)}, () => {})`]
      : ['sqlite', `openSqlite(${JSON.stringify(join(place.data, 'records.sqlite'))})`];
    const program = join(place.data, 'holder.mjs');
    await writeFile(
      program,
      `import { Leases } from ${JSON.stringify(import.meta.resolve('./leases.ts'))};
      import * as adapter from ${JSON.stringify(import.meta.resolve(`../database/adapters/${adapter}.ts`))};
      await new Leases(adapter.${opened}).withLease('a', 1500, async () => {
        process.stdout.write('held');
        await new Promise((resolve) => setTimeout(resolve, 60_000));
      });`,
    );
    const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => child.kill('SIGKILL'));
    const exit = once(child, 'exit');
    const [first] = await Promise.race([once(child.stdout, 'data'), exit]);
    assert.equal(String(first), 'held');
    child.kill('SIGKILL');
    await exit;
    const began = Date.now();
    await new Leases(databases[0] as Database<Records>).withLease('a', 1500, async () => {});
    const tookMs = Date.now() - began;
    assert.ok(tookMs > 500, `taken after ${tookMs} ms, while it was still held`);
  });

  test('work that takes longer than the lease keeps it', async (t) => {
    const { databases } = await nodes(t, 2);
    const [mine, other] = databases.map((database) => new Leases(database)) as [Leases, Leases];
    const order: string[] = [];
    const started = Promise.withResolvers<void>();
    const long = mine.withLease('a', 300, async (signal) => {
      started.resolve();
      await delay(1_000);
      assert.equal(signal.aborted, false);
      order.push('long');
    });
    await started.promise;
    await other.withLease('a', 300, async () => order.push('other'));
    await long;
    assert.deepEqual(order, ['long', 'other']);
  });

  test('a holder that lost it is told, and does not take it from the new one', async (t) => {
    const database = await oneNode(t);
    const leases = new Leases(database);
    const until = Date.now() + 60_000;
    await assert.rejects(
      leases.withLease('a', 150, async (signal) => {
        await database.query.updateTable('lease').set({ holder: 'another', until }).execute();
        await once(signal, 'abort');
        signal.throwIfAborted();
      }),
      (error) => error instanceof LeaseLost && error.message.includes('"a"'),
    );
    assert.deepEqual(await rows(database), [{ name: 'a', holder: 'another', until }]);
  });

  test('waiting and working end with the signal', async (t) => {
    const database = await oneNode(t);
    const leases = new Leases(database);
    const reason = new Error('the job was cancelled');
    await leases.withLease('a', 5_000, async () => {
      const abort = new AbortController();
      const waiting = leases.withLease('a', 5_000, () => assert.fail('taken'), abort.signal);
      abort.abort(reason);
      await assert.rejects(waiting, reason);
    });
    const abort = new AbortController();
    const working = leases.withLease(
      'a',
      5_000,
      async (signal) => {
        abort.abort(reason);
        signal.throwIfAborted();
      },
      abort.signal,
    );
    await assert.rejects(working, reason);
    await assert.rejects(
      leases.withLease('a', 5_000, () => assert.fail('taken'), abort.signal),
      reason,
    );
    assert.deepEqual(await rows(database), []);
  });
});
