import assert from 'node:assert/strict';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { beginStep, column, newTable, rowsOf, valuesOf } from '../../conformance/place.ts';
import { CellError, DatabaseRefusal, RowsError, StoreUnavailable, UnknownTable } from '../../table-errors.ts';
import { openMariadbTables } from '../mariadb.ts';
import { describeOnMariadb, inMain, openNewPlace } from './test-place.ts';

describeOnMariadb('MariaDB: limits and failures', () => {
  test('what a page leaves behind that failed in the database does not stand in the way of the next', async (t) => {
    const { store } = await openNewPlace(t);
    const wide = Array.from({ length: 500 }, (_, at) => column('string', `c${at}`));
    const [table, newest] = [inMain('wide'), newTable()];
    const step = await beginStep(store);
    const row = Object.fromEntries(wide.map(({ name }) => [name, 'x'.repeat(100)]));
    for (const mode of ['createThenAppend', 'append'] as const) {
      await assert.rejects(
        step.commit({ table: { ...table, table: mode }, columns: wide, mode, rows: [row] }),
        (error) => {
          assert.ok(error instanceof RowsError, String(error));
          assert.match(error.message, /a row is too wide/);
          return true;
        },
      );
    }
    await step.commit({ table: newest, rows: [{ x: 1, y: 1 }] });
    await assert.rejects(
      step.commit(
        { table: newest, mode: 'merge', keys: ['x'], rows: [{ x: 1, y: 2 }, { x: 2 }] },
        { table: { ...table, table: 'append' }, columns: wide, rows: [row] },
      ),
      RowsError,
    );
    assert.deepEqual(await rowsOf(store, newest), [{ x: 1, y: 1 }], 'what it merged before is undone');
    await step.commit({ table, mode: 'createThenAppend', rows: [{ x: 1 }] });
    await step.commit({
      table: { ...table, table: 'createThenAppend' },
      mode: 'createThenAppend',
      rows: [{ x: 2 }],
    });
    await step.finish();
    assert.deepEqual(await valuesOf(store, { ...table, table: 'createThenAppend' }), [2]);
    assert.equal(await store.count({ ...table, table: 'append' }), 0);
  });

  test("a value beyond the server's max_allowed_packet is refused by row and column", async (t) => {
    const { store, sql } = await openNewPlace(t);
    const [row] = await sql<{ most: bigint }[]>('SELECT @@max_allowed_packet AS most');
    const most = Number(row?.most);
    if (most > 64 * 1024 * 1024) return t.skip(`the server takes ${most} bytes`);
    const table = newTable();
    const step = await beginStep(store);
    const columns = [column('string'), column('string', 'y')];
    await assert.rejects(step.commit({ table, columns, rows: [{}, { y: 'x'.repeat(most) }] }), (error) => {
      assert.ok(error instanceof CellError);
      assert.deepEqual([error.details.row, error.details.column], [1, 'y']);
      return /max_allowed_packet/.test(error.message);
    });
    const half = 'x'.repeat(most / 2);
    await assert.rejects(
      step.commit({ table, columns, rows: [{ x: half, y: half }] }),
      (error) => error instanceof RowsError && error.details.row === 0,
    );
    return step.commit({ table, columns, rows: [{ x: half }, { y: half }] });
  });

  test('several nodes set up the bookkeeping at the same time', async (t) => {
    const { place } = await openNewPlace(t);
    const stores = Array.from({ length: 6 }, () => openMariadbTables(place));
    const claims = await Promise.all(stores.map((store) => store.claim('job', 'step', 1)));
    assert.deepEqual(
      claims.filter((claimed) => claimed !== null),
      [{ page: 0, cursor: null }],
    );
    await Promise.all(stores.map((store) => store.close()));
  });

  test('a server that is away or loses its connections is unavailable, and is used again once it is back', async (t) => {
    const { place } = await openNewPlace(t);
    const proxy = await startProxy(new URL(place.connectionString));
    t.after(() => proxy.stop());
    const url = new URL(place.connectionString);
    url.port = String(proxy.port);
    url.password = 'not-to-be-told';
    const stranger = openMariadbTables({ ...place, connectionString: url.href });
    await assert.rejects(stranger.tables(), (error) => {
      assert.ok(error instanceof DatabaseRefusal, String(error));
      return !JSON.stringify([error.message, error.details]).includes('not-to-be-told');
    });
    await stranger.close();
    url.password = new URL(place.connectionString).password;
    const store = openMariadbTables({ ...place, connectionString: url.href });
    t.after(() => store.close());
    const table = newTable();
    await store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":1}]' });
    const pending = store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":2}]' });
    proxy.cut();
    await pending.catch((error: unknown) => assert.ok(error instanceof StoreUnavailable, String(error)));
    await proxy.refuse();
    await assert.rejects(store.count(table), (error) => error instanceof StoreUnavailable && error.transient);
    await proxy.listen();
    assert.ok((await store.count(table)) <= 2);
  });

  test('a user without rights is told so, and needs none of its own to read', async (t) => {
    const { store, place, main, sql } = await openNewPlace(t);
    const user = `${place.databasePrefix}r`;
    await store.writeRows({ table: inMain('readable'), columns: null, mode: 'append', rows: '[{"x":1}]' });
    await sql(`CREATE USER '${user}'@'127.0.0.1' IDENTIFIED BY 'pass'`);
    await sql(`GRANT SELECT ON ${main}.readable TO '${user}'@'127.0.0.1'`);
    const url = new URL(place.connectionString);
    url.username = user;
    url.password = 'pass';
    url.hostname = '127.0.0.1';
    const reader = openMariadbTables({ ...place, connectionString: url.href });
    try {
      assert.deepEqual(await valuesOf(reader, inMain('readable')), [1]);
      assert.deepEqual(
        (await reader.tables()).map(({ table }) => table),
        ['readable'],
      );
      const write = reader.writeRows({ table: newTable(), columns: null, mode: 'append', rows: '[]' });
      await assert.rejects(
        write,
        (error) => error instanceof DatabaseRefusal && /denied/.test(error.message),
      );
    } finally {
      await reader.close();
      await sql(`DROP USER '${user}'@'127.0.0.1'`);
    }
  });

  test('a connection string that is none, or names no database, is refused without its password', () => {
    const wrong = [
      'postgres://u:secret@h/d',
      'mariadb://u:secret@h',
      'mariadb://u:secret@h/d?allow=1',
      'secret',
    ];
    for (const connectionString of wrong) {
      assert.throws(
        () => openMariadbTables({ connectionString }),
        (error: Error) => /connection string/.test(error.message) && !/secret/.test(error.message),
      );
    }
    assert.throws(
      () => openMariadbTables({ connectionString: 'mysql://h/d', databasePrefix: 'p_' }),
      /must begin/,
    );
  });

  test('after closing, calls fail and nothing hangs; a snapshot that is still received is cut off', async (t) => {
    const { store } = await openNewPlace(t);
    const table = newTable();
    await store.writeRows({ table, columns: null, mode: 'append', rows: '[{"x":1}]' });
    const pending = store.claim('job', 'step', 1);
    const snapshot = store.openSnapshot(table);
    await store.close();
    assert.deepEqual(await pending, { page: 0, cursor: null });
    await snapshot
      .then((opened) => opened.close())
      .catch((error: unknown) => assert.ok(error instanceof StoreUnavailable));
    await assert.rejects(store.tables(), StoreUnavailable);
    await assert.rejects(store.claim('job', 'step', 2), StoreUnavailable);
  });

  test('a table that is not there is unknown, in a space that is not there as well', async (t) => {
    const { store } = await openNewPlace(t);
    for (const table of [newTable(), { space: 'nowhere', table: 'x' }, { space: '', table: '' }]) {
      assert.equal(await store.columns(table), null);
      assert.equal(await store.dropTable(table), false);
      await assert.rejects(store.openSnapshot(table), UnknownTable);
    }
    assert.deepEqual(await store.jobs(), []);
    await store.writeRows({
      table: { space: 'nowhere', table: 'x' },
      columns: null,
      mode: 'append',
      rows: '[{"x":1}]',
    });
    assert.equal(await store.count({ space: 'nowhere', table: 'x' }), 1);
  });
});

interface Proxy {
  port: number;
  cut(): void;
  refuse(): Promise<void>;
  listen(): Promise<void>;
  stop(): Promise<void>;
}

/** Between the store and the server, so that the connections can be cut. */
async function startProxy({ hostname, port }: URL): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const server = createServer((incoming) => {
    const outgoing = connect(Number(port || 3306), hostname);
    for (const [socket, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: own } = server.address() as AddressInfo;
  const cut = () => sockets.forEach((socket) => socket.destroy());
  const refuse = async () => {
    const closed = once(server, 'close');
    server.close();
    cut();
    await closed;
  };
  const listen = async () => {
    server.listen(own, '127.0.0.1');
    await once(server, 'listening');
  };
  return { port: own, cut, refuse, listen, stop: async () => (server.listening ? refuse() : undefined) };
}
