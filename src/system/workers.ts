import type { Database } from '../database/database.ts';
import type { Records } from './records.ts';

/** The processes that run jobs over one embedded database, and when each was last seen. */
export class Workers {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
  }

  async seen(owner: string): Promise<void> {
    const seen_at = this.#now();
    await this.#database.query
      .insertInto('worker')
      .values({ owner, seen_at })
      .onConflict((conflict) => conflict.column('owner').doUpdateSet({ seen_at }))
      .execute();
  }

  /** Those that were seen within the last `ms`. */
  async seenWithin(ms: number): Promise<Set<string>> {
    const rows = await this.#database.query
      .selectFrom('worker')
      .select('owner')
      .where('seen_at', '>', this.#now() - ms)
      .execute();
    return new Set(rows.map(({ owner }) => owner));
  }

  async forget(owner: string): Promise<void> {
    await this.#database.query.deleteFrom('worker').where('owner', '=', owner).execute();
  }

  async forgetUnseenFor(ms: number): Promise<void> {
    await this.#database.query
      .deleteFrom('worker')
      .where('seen_at', '<', this.#now() - ms)
      .execute();
  }
}
