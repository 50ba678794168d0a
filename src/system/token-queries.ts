import { sql, type Insertable, type Selectable, type Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import { prepared } from '../database/prepared.ts';
import type { GrantType } from '../model/access.ts';
import type { Records } from './records.ts';

/** The columns that a new pair fills; the others are null. */
export const insertColumns = [
  'pair_id',
  'access_hash',
  'refresh_hash',
  'family_id',
  'parent_id',
  'client_id',
  'user_id',
  'issued_at',
  'access_expires_at',
  'refresh_expires_at',
  'family_expires_at',
  'ends_at',
] as const;

export function prepareInsert(database: Database<Records>) {
  const { query } = database;
  return prepared<unknown[], unknown>(database, insertColumns.length, (...values) => {
    const record = Object.fromEntries(insertColumns.map((column, index) => [column, values[index]]));
    return query.insertInto('token').values(record as unknown as Insertable<Records['token']>);
  });
}

/** Changes one row, or none: what the client, its secret and its grants must be is not so any more. */
export function prepareInsertIfUnchanged(database: Database<Records>) {
  const { query, capabilities } = database;
  const count = insertColumns.length + 3;
  const bigint = sql.raw(capabilities.bigint);
  return prepared<unknown[], unknown>(database, count, (...values) => {
    const [clientId, secretId, grants] = values.slice(insertColumns.length) as [string, string, string];
    // In a select list PostgreSQL takes every parameter for text.
    const selected = insertColumns.map((column, index) => {
      const type = column.endsWith('_at') ? bigint : sql`text`;
      return sql`cast(${values[index]} as ${type})`.as(column);
    });
    return query
      .insertInto('token')
      .columns(insertColumns)
      .expression((from) =>
        from
          .selectFrom('client')
          .innerJoin('client_secret', 'client_secret.client_id', 'client.client_id')
          .select(selected)
          .where('client.client_id', '=', clientId)
          .where('client.revoked_at', 'is', null)
          .where('client.grants', '=', grants)
          .where('client_secret.secret_id', '=', secretId),
      );
  });
}

export function prepareFindPrincipal(database: Database<Records>) {
  const { query } = database;
  return prepared(database, 3, (pairId: string, accessHash: string, now: number) =>
    query
      .selectFrom('token')
      .innerJoin('client', 'client.client_id', 'token.client_id')
      .leftJoin('user', 'user.user_id', 'token.user_id')
      .select([
        'token.client_id',
        'token.access_expires_at',
        'client.role as client_role',
        'client.applications',
        'user.username',
        'user.role as user_role',
      ])
      .where('token.pair_id', '=', pairId)
      .where('token.access_hash', '=', accessHash)
      .where('token.access_expires_at', '>', now)
      .where('token.revoked_at', 'is', null)
      .where('token.superseded_at', 'is', null)
      .where('client.revoked_at', 'is', null)
      .where('user.disabled_at', 'is', null),
  );
}

export async function revokeFamily(
  transaction: Transaction<Records>,
  familyId: string,
  now: number,
): Promise<void> {
  await transaction
    .updateTable('token')
    .set({ revoked_at: now })
    .where('family_id', '=', familyId)
    .where('revoked_at', 'is', null)
    .execute();
}

/** The grants of the token's client; null when client or user is no longer active. */
export async function grantsOfActiveOwner(
  transaction: Transaction<Records>,
  token: Pick<Selectable<Records['token']>, 'client_id' | 'user_id'>,
): Promise<readonly GrantType[] | null> {
  const client = await transaction
    .selectFrom('client')
    .leftJoin('user', (join) => join.on('user.user_id', '=', token.user_id))
    .select('client.grants')
    .where('client.client_id', '=', token.client_id)
    .where('client.revoked_at', 'is', null)
    .where('user.disabled_at', 'is', null)
    .executeTakeFirst();
  return client ? (JSON.parse(client.grants) as GrantType[]) : null;
}
