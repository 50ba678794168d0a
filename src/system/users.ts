import { randomUUID } from 'node:crypto';
import type { Selectable } from 'kysely';
import { isUniqueViolation, type Database } from '../database/database.ts';
import type { NewUser, Role, User, UserChange } from '../model/access.ts';
import { ServiceError } from '../model/errors.ts';
import type { BearerTokens } from './bearer-tokens.ts';
import type { Records } from './records.ts';
import type { SecretHashing } from './secret-hashing.ts';

/** What the password grant needs to know of a user. */
export interface UserCredentials {
  userId: string;
  argon2: string;
  disabled: boolean;
}

export class Users {
  readonly #database: Database<Records>;
  readonly #hashing: SecretHashing;
  readonly #bearerTokens: BearerTokens;
  readonly #now: () => number;

  constructor(
    database: Database<Records>,
    hashing: SecretHashing,
    bearerTokens: BearerTokens,
    now: () => number,
  ) {
    this.#database = database;
    this.#hashing = hashing;
    this.#bearerTokens = bearerTokens;
    this.#now = now;
  }

  async create({ username, password, role }: NewUser): Promise<User> {
    const argon2 = await this.#hashing.hash(password);
    try {
      const record = await this.#database.query
        .insertInto('user')
        .values({ user_id: randomUUID(), username, role, argon2, created_at: this.#now(), disabled_at: null })
        .returningAll()
        .executeTakeFirstOrThrow();
      return asUser(record);
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw new ServiceError('conflict', `a user "${username}" exists already`, { path: 'username' });
    }
  }

  async get(username: string): Promise<User> {
    const record = await this.#database.query
      .selectFrom('user')
      .selectAll()
      .where('username', '=', username)
      .executeTakeFirst();
    if (!record) throw notFound(username);
    return asUser(record);
  }

  async list({ after = '', limit }: { after?: string | undefined; limit: number }): Promise<User[]> {
    const records = await this.#database.query
      .selectFrom('user')
      .selectAll()
      .where('username', '>', after)
      .orderBy('username')
      .limit(limit)
      .execute();
    return records.map(asUser);
  }

  /** A disabled user's tokens are not valid while it is disabled. */
  async change(username: string, { role, disabled }: UserChange): Promise<User> {
    const set = {
      ...(role && { role }),
      ...(disabled !== undefined && { disabled_at: disabled ? this.#now() : null }),
    };
    if (Object.keys(set).length > 0) {
      const update = this.#database.query.updateTable('user').set(set).where('username', '=', username);
      await this.#bearerTokens.forgetAfter(update.execute());
    }
    return this.get(username);
  }

  /** The user's tokens end, too: whoever knew the old password may hold some. */
  async setPassword(username: string, password: string): Promise<void> {
    const argon2 = await this.#hashing.hash(password);
    const change = this.#database.query.transaction().execute(async (transaction) => {
      const user = await transaction
        .updateTable('user')
        .set({ argon2 })
        .where('username', '=', username)
        .returning('user_id')
        .executeTakeFirst();
      if (!user) throw notFound(username);
      await transaction
        .updateTable('token')
        .set({ revoked_at: this.#now() })
        .where('user_id', '=', user.user_id)
        .where('revoked_at', 'is', null)
        .execute();
    });
    await this.#bearerTokens.forgetAfter(change);
  }

  async credentials(username: string): Promise<UserCredentials | null> {
    const row = await this.#database.query
      .selectFrom('user')
      .select(['user_id', 'argon2', 'disabled_at'])
      .where('username', '=', username)
      .executeTakeFirst();
    return row ? { userId: row.user_id, argon2: row.argon2, disabled: row.disabled_at !== null } : null;
  }
}

function asUser(record: Selectable<Records['user']>): User {
  return {
    username: record.username,
    role: record.role as Role,
    disabled: record.disabled_at !== null,
    createdAt: new Date(record.created_at).toISOString(),
  };
}

function notFound(username: string): ServiceError {
  return new ServiceError('not_found', `there is no user "${username}"`);
}
