import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { beginStep, column, rowsOf } from '../../conformance/place.ts';
import { FencedError, StoreUnavailable } from '../../table-errors.ts';
import { postgresPlace, postgresSkip } from './test-place.ts';

const table = { space: 'main', table: 'orders' };
const KILL_ALL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`;

const isTransient = (error: unknown) => error instanceof StoreUnavailable && error.transient;

describe('PostgreSQL that is away, slow or shared', { skip: postgresSkip }, () => {
  test('connections that break are replaced, and an open snapshot fails as unavailable', async (t) => {
    const place = await postgresPlace(t);
    const { promise: lost, resolve } = Promise.withResolvers<Error>();
    const store = place.open({ onConnectionLost: resolve });
    await store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":1}]' });
    const snapshot = await store.openSnapshot(table);
    await place.execute(KILL_ALL);
    assert.match((await lost).message, /terminat/);
    await assert.rejects(snapshot.nextBatch(1), isTransient);
    await snapshot.close();
    assert.deepEqual(await rowsOf(store, table), [{ x: 1 }]);
  });

  test('a page whose connection breaks is not there, and can be committed again', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    const step = await beginStep(store, 'job');
    await step.commit({ table, rows: [{ x: 0 }] });
    const holder = await place.connect();
    await holder.query('BEGIN; LOCK TABLE main.orders IN EXCLUSIVE MODE');
    const page = step.commit({ table, rows: [{ x: 1 }] });
    const refused = assert.rejects(page, isTransient);
    const waiting =
      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let pids = await place.execute(waiting);
    while (pids.length === 0) pids = await place.execute(waiting);
    await place.execute(`SELECT pg_terminate_backend(${(pids[0] as { pid: number }).pid})`);
    await refused;
    await holder.query('COMMIT');
    await step.commit({ table, rows: [{ x: 1 }] });
    assert.deepEqual(await rowsOf(store, table), [{ x: 0 }, { x: 1 }]);
  });

  test('several nodes may make the same space at the same moment', async (t) => {
    const place = await postgresPlace(t);
    const nodes = [place.open(), place.open(), place.open()];
    for (let round = 0; round < 15; round += 1) {
      const writes = nodes.flatMap((store, node) =>
        ['a', 'b', 'c'].map((name) =>
          store.writeRows({
            table: { space: `space ${round}`, table: `${name}${node}` },
            columns: null,
            mode: 'append',
            rows: '[{"x":1}]',
          }),
        ),
      );
      assert.deepEqual(
        await Promise.all(writes),
        Array.from({ length: 9 }, () => 1),
      );
    }
  });

  test('a claim waits for the page in flight; the one after is fenced off', async (t) => {
    const place = await postgresPlace(t);
    const [store, other] = [place.open(), place.open()];
    const step = await beginStep(store, 'job');
    await step.commit({ table, rows: [{ x: 0 }] });
    const holder = await place.connect();
    await holder.query('BEGIN; LOCK TABLE main.orders IN EXCLUSIVE MODE');
    const page = step.commit({ table, rows: [{ x: 1 }] });
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    while ((await place.execute(waiting)).length < 1);
    const claimed = other.claim('job', 'step', 2);
    while ((await place.execute(waiting)).length < 2);
    await holder.query('COMMIT');
    await page;
    assert.deepEqual(await claimed, { page: 2, cursor: 'after 1' });
    await assert.rejects(step.commit({ table, rows: [{ x: 2 }] }), FencedError);
  });

  test('no server, or a URL that is none: an error without the password', async () => {
    const { openPostgresTables } = await import('../postgres.ts');
    const probe = createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const { port } = probe.address() as AddressInfo;
    probe.close();
    for (const connectionString of [
      `postgres://user:verysecret@127.0.0.1:${port}/db`,
      'postgres://user:verysecret@127.0.0.1:99999999/db',
    ]) {
      const store = openPostgresTables({ connectionString });
      for (const call of [store.tables(), store.claim('job', 'step', 1), store.openSnapshot(table)]) {
        await assert.rejects(call, (error) => {
          assert.ok(error instanceof Error);
          assert.doesNotMatch(`${error.message} ${JSON.stringify(error)}`, /verysecret/);
          return true;
        });
      }
      await store.close();
    }
  });

  test('nodes that start at once make the bookkeeping once, and load into one table', async (t) => {
    const place = await postgresPlace(t);
    const stores = Array.from({ length: 6 }, () => place.open());
    await Promise.all(
      stores.map(async (store, at) => {
        const step = await beginStep(store, `job ${at}`);
        for (let page = 0; page < 5; page++) await step.commit({ table, rows: [{ at, page }] });
      }),
    );
    const rows = await rowsOf(place.open(), table);
    assert.equal(rows.length, 30);
    for (let at = 0; at < 6; at++) {
      assert.deepEqual(
        rows.filter((row) => row['at'] === at).map(({ page }) => page),
        [0, 1, 2, 3, 4],
      );
    }
  });

  test('jobs whose pages load the same tables in another order do not block each other', async (t) => {
    const place = await postgresPlace(t);
    const names = ['a', 'b', 'c'].map((name) => ({ space: 'main', table: name }));
    const columns = [column('integer')];
    const orders = [names, names.toReversed(), [names[1], names[2], names[0]]];
    await Promise.all(
      orders.map(async (order, at) => {
        const step = await beginStep(place.open(), `job ${at}`);
        for (let page = 0; page < 10; page++) {
          const loads = order.flatMap((name) =>
            name ? [{ table: name, columns, rows: [{ x: page }] }] : [],
          );
          await step.commit(...loads);
        }
      }),
    );
    const store = place.open();
    for (const name of names) assert.equal(await store.count(name), 30);
  });

  test('two merges of the same key at once insert it once', async (t) => {
    const place = await postgresPlace(t);
    const rows = JSON.stringify(Array.from({ length: 50 }, (_, x) => ({ x })));
    const stores = [place.open(), place.open(), place.open()];
    const columns = [column('integer')];
    await Promise.all(
      stores.map((store) => store.writeRows({ table, columns, mode: 'merge', keys: ['x'], rows })),
    );
    assert.equal(await place.open().count(table), 50);
  });

  test('snapshots are limited in number, and a failed one leaves nothing open', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":1}]' });
    for (let at = 0; at < 40; at++) {
      await assert.rejects(store.openSnapshot({ ...table, table: 'none' }), /there is no table/);
    }
    const open = [];
    for (let at = 0; at < 32; at++) open.push(await store.openSnapshot(table));
    await assert.rejects(store.openSnapshot(table), /32 snapshots are open/);
    await open[0]?.close();
    await (await store.openSnapshot(table)).close();
  });

  test('after closing, calls fail and nothing hangs', async (t) => {
    const place = await postgresPlace(t);
    const store = place.open();
    await store.tables();
    await store.close();
    await assert.rejects(store.tables(), StoreUnavailable);
    await assert.rejects(store.claim('job', 'step', 2), StoreUnavailable);
  });
});
