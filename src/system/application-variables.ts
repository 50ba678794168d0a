import type { Database } from '../database/database.ts';
import type { Json } from '../model/json.ts';
import type { KeysetAsk } from './definitions.ts';
import type { Records } from './records.ts';

/** The variables of applications: they outlive the jobs that set them. */
export class ApplicationVariables {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
  }

  async all(appId: string): Promise<Record<string, Json>> {
    const rows = await this.#database.query
      .selectFrom('variable')
      .select(['name', 'value'])
      .where('app_id', '=', appId)
      .execute();
    return Object.fromEntries(rows.map(({ name, value }) => [name, JSON.parse(value) as Json]));
  }

  async get(appId: string, name: string): Promise<{ name: string; value: Json } | null> {
    const row = await this.#database.query
      .selectFrom('variable')
      .select('value')
      .where('app_id', '=', appId)
      .where('name', '=', name)
      .executeTakeFirst();
    return row ? { name, value: JSON.parse(row.value) as Json } : null;
  }

  async list(appId: string, { after = '', limit }: KeysetAsk): Promise<{ name: string; value: Json }[]> {
    const rows = await this.#database.query
      .selectFrom('variable')
      .select(['name', 'value'])
      .where('app_id', '=', appId)
      .where('name', '>', after)
      .orderBy('name')
      .limit(limit)
      .execute();
    return rows.map(({ name, value }) => ({ name, value: JSON.parse(value) as Json }));
  }

  async set(appId: string, values: Readonly<Record<string, Json>>): Promise<void> {
    const changed_at = this.#now();
    const rows = Object.entries(values).map(([name, value]) => ({
      app_id: appId,
      name,
      value: JSON.stringify(value),
      changed_at,
    }));
    if (rows.length === 0) return;
    await this.#database.query
      .insertInto('variable')
      .values(rows)
      .onConflict((conflict) =>
        conflict.columns(['app_id', 'name']).doUpdateSet((set) => ({
          value: set.ref('excluded.value'),
          changed_at,
        })),
      )
      .execute();
  }

  async delete(appId: string, name: string): Promise<boolean> {
    const { numDeletedRows } = await this.#database.query
      .deleteFrom('variable')
      .where('app_id', '=', appId)
      .where('name', '=', name)
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }
}
