import type { Selectable } from 'kysely';
import { isUniqueViolation, type Database } from '../database/database.ts';
import type { Application, NewApplication } from '../model/access.ts';
import { ServiceError } from '../model/errors.ts';
import type { Records } from './records.ts';

export class Applications {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
  }

  async create({ appId, name = appId }: NewApplication): Promise<Application> {
    try {
      const record = await this.#database.query
        .insertInto('application')
        .values({ app_id: appId, name, created_at: this.#now() })
        .returningAll()
        .executeTakeFirstOrThrow();
      return asApplication(record);
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw new ServiceError('conflict', `an application "${appId}" exists already`, { path: 'appId' });
    }
  }

  /** Creates it, or gives it another name. */
  async put({ appId, name }: NewApplication): Promise<'created' | 'changed' | 'unchanged'> {
    const existing = await this.#database.query
      .selectFrom('application')
      .select('name')
      .where('app_id', '=', appId)
      .executeTakeFirst();
    if (!existing) {
      await this.create({ appId, name });
      return 'created';
    }
    if (name === undefined || name === existing.name) return 'unchanged';
    await this.#database.query.updateTable('application').set({ name }).where('app_id', '=', appId).execute();
    return 'changed';
  }

  async get(appId: string): Promise<Application> {
    const record = await this.#database.query
      .selectFrom('application')
      .selectAll()
      .where('app_id', '=', appId)
      .executeTakeFirst();
    if (!record) {
      throw new ServiceError('unknown_application', `there is no application "${appId}"`, { path: 'appId' });
    }
    return asApplication(record);
  }

  /** `only`: the applications that the caller may see; null: all. */
  async list(ask: {
    after?: string | undefined;
    limit: number;
    only: readonly string[] | null;
  }): Promise<Application[]> {
    const { after = '', limit, only } = ask;
    if (only?.length === 0) return [];
    const records = await this.#database.query
      .selectFrom('application')
      .selectAll()
      .where('app_id', '>', after)
      .$if(only !== null, (query) => query.where('app_id', 'in', only ?? []))
      .orderBy('app_id')
      .limit(limit)
      .execute();
    return records.map(asApplication);
  }
}

function asApplication(record: Selectable<Records['application']>): Application {
  return { appId: record.app_id, name: record.name, createdAt: new Date(record.created_at).toISOString() };
}
