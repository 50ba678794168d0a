import type { Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import { keyIdOf, MasterKeyError, seal, unseal, type MasterKeys } from './master-key.ts';
import type { Records } from './records.ts';

/** A sealed text that every start opens: it shows that the keys are right, and its key id says which is current. */
const KEY_CHECK = 'millrace:key-check';

/** The secrets at rest: written and read by name, encrypted under the master key. */
export class Secrets {
  readonly #database: Database<Records>;
  readonly #readKeys: () => Promise<MasterKeys>;
  #keys: MasterKeys;

  private constructor(database: Database<Records>, readKeys: () => Promise<MasterKeys>, keys: MasterKeys) {
    this.#database = database;
    this.#readKeys = readKeys;
    this.#keys = keys;
  }

  /** `readKeys` is called again when a secret turns up that a newer key has sealed. */
  static async open(database: Database<Records>, readKeys: () => Promise<MasterKeys>): Promise<Secrets> {
    const secrets = new Secrets(database, readKeys, await readKeys());
    await database.query
      .insertInto('sealed')
      .values({ name: KEY_CHECK, envelope: seal(secrets.#keys, KEY_CHECK, KEY_CHECK) })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
    try {
      await secrets.get(KEY_CHECK);
    } catch (error) {
      if (!(error instanceof MasterKeyError)) throw error;
      throw new MasterKeyError(
        `the master key does not fit the database ${database.place}: ${error.message}. ` +
          'All nodes of one database need the same master key (setting masterKey)',
        { cause: error },
      );
    }
    return secrets;
  }

  async get(name: string): Promise<string | null> {
    const row = await this.#database.query
      .selectFrom('sealed')
      .select('envelope')
      .where('name', '=', name)
      .executeTakeFirst();
    if (!row) return null;
    if (!this.#keys.has(keyIdOf(row.envelope))) this.#keys = await this.#readKeys();
    return unseal(this.#keys, name, row.envelope);
  }

  async put(name: string, secret: string): Promise<void> {
    await this.#database.query.transaction().execute(async (transaction) => {
      const current = await this.#currentKeyId(transaction);
      // A rotation by another process, since: what the old key sealed now could be lost with it.
      if (current !== this.#keys.current.id) this.#keys = await this.#readKeys();
      if (current !== this.#keys.current.id) {
        throw new MasterKeyError(
          `the current master key is ${current}, this process has another: restart it with that`,
        );
      }
      const envelope = seal(this.#keys, name, secret);
      await transaction
        .insertInto('sealed')
        .values({ name, envelope })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ envelope }))
        .execute();
    });
  }

  async delete(name: string): Promise<void> {
    await this.#database.query.deleteFrom('sealed').where('name', '=', name).execute();
  }

  /** Seals everything anew under the first of the keys; says how many secrets that were. */
  async reseal(): Promise<number> {
    this.#keys = await this.#readKeys();
    return this.#database.query.transaction().execute(async (transaction) => {
      await this.#currentKeyId(transaction, 'exclusive');
      const rows = await transaction.selectFrom('sealed').selectAll().execute();
      for (const { name, envelope } of rows) {
        await transaction
          .updateTable('sealed')
          .set({ envelope: seal(this.#keys, name, unseal(this.#keys, name, envelope)) })
          .where('name', '=', name)
          .execute();
      }
      return rows.filter(({ name }) => name !== KEY_CHECK).length;
    });
  }

  /** Under a lock, so that no secret is sealed by an old key while a rotation is under way. */
  async #currentKeyId(
    transaction: Transaction<Records>,
    lock: 'shared' | 'exclusive' = 'shared',
  ): Promise<string> {
    const { concurrentTransactions } = this.#database.capabilities;
    const row = await transaction
      .selectFrom('sealed')
      .select('envelope')
      .where('name', '=', KEY_CHECK)
      .$if(concurrentTransactions && lock === 'shared', (query) => query.forShare())
      .$if(concurrentTransactions && lock === 'exclusive', (query) => query.forUpdate())
      .executeTakeFirstOrThrow();
    return keyIdOf(row.envelope);
  }
}
