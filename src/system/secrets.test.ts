import assert from 'node:assert/strict';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { openPostgres } from '../database/adapters/postgres.ts';
import { openSqlite } from '../database/adapters/sqlite.ts';
import type { Database } from '../database/database.ts';
import { onEachDatabase, sqlitePlace, type Place } from '../../test/support/databases.ts';
import { keyIdOf, MasterKeys, readOrCreateKeyFile, replaceKeyFile, seal, unseal } from './master-key.ts';
import { migrate } from './migrations/migrate.ts';
import type { Records } from './records.ts';
import { Secrets } from './secrets.ts';

onEachDatabase('Secrets at rest', (newPlace) => {
  async function opened(t: TestContext): Promise<Database<Records>> {
    const place: Place = await newPlace();
    const database = place.database
      ? openPostgres<Records>(place.database, () => {})
      : openSqlite<Records>(join(place.data, 'records.sqlite'));
    t.after(async () => {
      await database.close();
      await place.remove();
    });
    await migrate(database);
    return database;
  }

  async function stored(database: Database<Records>, name: string): Promise<string> {
    const row = await database.query
      .selectFrom('sealed')
      .selectAll()
      .where('name', '=', name)
      .executeTakeFirstOrThrow();
    return row.envelope;
  }

  test('put, get, replace, delete', async (t) => {
    const keys = MasterKeys.generate();
    const secrets = await Secrets.open(await opened(t), async () => keys);
    assert.equal(await secrets.get('a'), null);
    await secrets.put('a', 'one');
    await secrets.put('a', 'two ✓');
    assert.equal(await secrets.get('a'), 'two ✓');
    await secrets.delete('a');
    assert.equal(await secrets.get('a'), null);
  });

  test('an envelope cannot be moved to another name', async (t) => {
    const database = await opened(t);
    const keys = MasterKeys.generate();
    const secrets = await Secrets.open(database, async () => keys);
    await secrets.put('theirs', 'secret');
    await database.query
      .insertInto('sealed')
      .values({ name: 'mine', envelope: await stored(database, 'theirs') })
      .execute();
    await assert.rejects(secrets.get('mine'), /"mine" was damaged or changed/);
  });

  test('a rotation under a service that runs: it reads the new keys, and seals under the new one', async (t) => {
    const database = await opened(t);
    let keys = MasterKeys.generate();
    const running = await Secrets.open(database, async () => keys);
    await running.put('a', 'one');
    const oldId = keys.current.id;

    keys = keys.withNewKey();
    const rotating = await Secrets.open(database, async () => keys);
    assert.equal(await rotating.reseal(), 1);
    keys = keys.withoutOldKeys();

    assert.equal(await running.get('a'), 'one');
    await running.put('b', 'two');
    for (const name of ['a', 'b']) {
      assert.equal(keyIdOf(await stored(database, name)), keys.current.id);
      assert.notEqual(keyIdOf(await stored(database, name)), oldId);
    }
  });

  test('a service that still has the old key may not seal under it', async (t) => {
    const database = await opened(t);
    const old = MasterKeys.generate();
    const running = await Secrets.open(database, async () => old);
    const rotated = old.withNewKey();
    await (await Secrets.open(database, async () => rotated)).reseal();
    await assert.rejects(running.put('a', 'one'), /restart it with that/);
  });

  test('other keys than those of the database are refused when it is opened', async (t) => {
    const database = await opened(t);
    await Secrets.open(database, async () => MasterKeys.generate());
    await assert.rejects(
      Secrets.open(database, async () => MasterKeys.generate()),
      /the master key does not fit/,
    );
  });
});

describe('Master keys', () => {
  test('any text comes back; no bit of an envelope can be changed', () => {
    const keys = MasterKeys.generate();
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), fc.nat(), (secret, name, place) => {
        const wellFormed = secret.toWellFormed();
        const envelope = seal(keys, name, wellFormed);
        assert.equal(unseal(keys, name, envelope), wellFormed);
        const [version, id, payload = ''] = envelope.split('.');
        const bytes = Buffer.from(payload, 'base64url');
        const at = place % bytes.length;
        bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
        assert.throws(
          () => unseal(keys, name, `${version}.${id}.${bytes.toString('base64url')}`),
          /damaged or changed/,
        );
        assert.throws(() => unseal(keys, `${name}x`, envelope), /damaged or changed/);
      }),
    );
  });

  test('the same secret never gives the same envelope', () => {
    const keys = MasterKeys.generate();
    assert.notEqual(seal(keys, 'a', 'x'), seal(keys, 'a', 'x'));
  });

  test('the key file: made once by however many, for its owner alone, replaced as a whole', async (t) => {
    const { data, remove } = await sqlitePlace();
    t.after(remove);
    const file = join(data, 'master.key');
    const made = await Promise.all(Array.from({ length: 10 }, () => readOrCreateKeyFile(file)));
    assert.equal(new Set(made.map((keys) => keys.current.id)).size, 1);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    await replaceKeyFile(file, (made[0] as MasterKeys).withNewKey());
    assert.equal((await readOrCreateKeyFile(file)).count, 2);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.equal((await readFile(file, 'utf8')).trim().split('\n').length, 2);
    await rm(file);
  });

  test('a key that is none is refused, naming where it stands', () => {
    assert.throws(
      () => MasterKeys.parse('AAAA', 'the setting masterKey'),
      /the setting masterKey, key 1: must be 32 bytes/,
    );
    assert.throws(() => MasterKeys.parse(' ', 'the file'), /the file holds no master key/);
  });
});
