import { isDeepStrictEqual } from 'node:util';
import type { Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Records } from './records.ts';

/** What people define in an application, each kind with its own names. */
export type DefinitionKind = 'source' | 'model' | 'request' | 'scenario';

export type Change = 'created' | 'changed' | 'unchanged';

export interface Definition {
  name: string;
  body: unknown;
  changedAt: number;
}

export interface KeysetAsk {
  after?: string | undefined;
  limit: number;
}

/** Sources, models, saved requests and scenarios as JSON. The schema of each kind is checked before it comes here. */
export class Definitions {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
  }

  async put(appId: string, kind: DefinitionKind, name: string, body: unknown): Promise<Change> {
    return this.#database.query
      .transaction()
      .execute((transaction) => this.putWithin(transaction, appId, kind, name, body));
  }

  /** As a part of a larger change. */
  async putWithin(
    transaction: Transaction<Records>,
    appId: string,
    kind: DefinitionKind,
    name: string,
    body: unknown,
  ): Promise<Change> {
    const text = JSON.stringify(body);
    const existing = await transaction
      .selectFrom('definition')
      .select('body')
      .where('app_id', '=', appId)
      .where('kind', '=', kind)
      .where('name', '=', name)
      .executeTakeFirst();
    if (existing && isDeepStrictEqual(JSON.parse(existing.body), JSON.parse(text))) return 'unchanged';
    const changed_at = this.#now();
    await transaction
      .insertInto('definition')
      .values({ app_id: appId, kind, name, body: text, changed_at })
      .onConflict((conflict) =>
        conflict.columns(['app_id', 'kind', 'name']).doUpdateSet({ body: text, changed_at }),
      )
      .execute();
    return existing ? 'changed' : 'created';
  }

  async get(appId: string, kind: DefinitionKind, name: string): Promise<Definition | null> {
    const row = await this.#database.query
      .selectFrom('definition')
      .select(['name', 'body', 'changed_at'])
      .where('app_id', '=', appId)
      .where('kind', '=', kind)
      .where('name', '=', name)
      .executeTakeFirst();
    return row ? asDefinition(row) : null;
  }

  async list(appId: string, kind: DefinitionKind, { after = '', limit }: KeysetAsk): Promise<Definition[]> {
    const rows = await this.#database.query
      .selectFrom('definition')
      .select(['name', 'body', 'changed_at'])
      .where('app_id', '=', appId)
      .where('kind', '=', kind)
      .where('name', '>', after)
      .orderBy('name')
      .limit(limit)
      .execute();
    return rows.map(asDefinition);
  }

  async names(appId: string, kind: DefinitionKind): Promise<string[]> {
    const rows = await this.#database.query
      .selectFrom('definition')
      .select('name')
      .where('app_id', '=', appId)
      .where('kind', '=', kind)
      .orderBy('name')
      .limit(100)
      .execute();
    return rows.map(({ name }) => name);
  }

  /** Whether there was one. */
  async delete(appId: string, kind: DefinitionKind, name: string): Promise<boolean> {
    const { numDeletedRows } = await this.#database.query
      .deleteFrom('definition')
      .where('app_id', '=', appId)
      .where('kind', '=', kind)
      .where('name', '=', name)
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }
}

function asDefinition(row: { name: string; body: string; changed_at: number }): Definition {
  return { name: row.name, body: JSON.parse(row.body) as unknown, changedAt: row.changed_at };
}
