import { sql } from 'kysely';
import type { Migration } from './migrate.ts';

/** Applications, clients, users, tokens and sealed secrets. */
export const access: Migration = async (schema, { tableSuffix, bigint: bigintType }) => {
  const strict = sql.raw(tableSuffix);
  const bigint = sql.raw(bigintType);

  await schema
    .createTable('application')
    .addColumn('app_id', 'text', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('created_at', bigint, (column) => column.notNull())
    .modifyEnd(strict)
    .execute();

  await schema
    .createTable('client')
    .addColumn('client_id', 'text', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('role', 'text', (column) => column.notNull())
    .addColumn('grants', 'text', (column) => column.notNull())
    .addColumn('applications', 'text')
    .addColumn('created_at', bigint, (column) => column.notNull())
    .addColumn('revoked_at', bigint)
    .modifyEnd(strict)
    .execute();

  await schema
    .createTable('client_secret')
    .addColumn('secret_id', 'text', (column) => column.primaryKey())
    .addColumn('client_id', 'text', (column) => column.notNull().references('client.client_id'))
    .addColumn('argon2', 'text', (column) => column.notNull())
    .addColumn('fingerprint', 'text', (column) => column.notNull())
    .addColumn('created_at', bigint, (column) => column.notNull())
    .addColumn('last_used_at', bigint)
    .modifyEnd(strict)
    .execute();
  await schema.createIndex('client_secret_client').on('client_secret').column('client_id').execute();

  await schema
    .createTable('user')
    .addColumn('user_id', 'text', (column) => column.primaryKey())
    .addColumn('username', 'text', (column) => column.notNull().unique())
    .addColumn('role', 'text', (column) => column.notNull())
    .addColumn('argon2', 'text', (column) => column.notNull())
    .addColumn('created_at', bigint, (column) => column.notNull())
    .addColumn('disabled_at', bigint)
    .modifyEnd(strict)
    .execute();

  await schema
    .createTable('token')
    .addColumn('pair_id', 'text', (column) => column.primaryKey())
    .addColumn('access_hash', 'text', (column) => column.notNull())
    .addColumn('refresh_hash', 'text', (column) => column.notNull())
    .addColumn('family_id', 'text', (column) => column.notNull())
    .addColumn('parent_id', 'text')
    .addColumn('client_id', 'text', (column) => column.notNull().references('client.client_id'))
    .addColumn('user_id', 'text', (column) => column.references('user.user_id'))
    .addColumn('issued_at', bigint, (column) => column.notNull())
    .addColumn('access_expires_at', bigint, (column) => column.notNull())
    .addColumn('refresh_expires_at', bigint, (column) => column.notNull())
    .addColumn('family_expires_at', bigint, (column) => column.notNull())
    .addColumn('spent_at', bigint)
    .addColumn('revoked_at', bigint)
    .addColumn('superseded_at', bigint)
    .addColumn('ends_at', bigint, (column) => column.notNull())
    .modifyEnd(strict)
    .execute();
  await schema.createIndex('token_family').on('token').column('family_id').execute();
  await schema.createIndex('token_ends').on('token').column('ends_at').execute();

  await schema
    .createTable('sealed')
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('envelope', 'text', (column) => column.notNull())
    .modifyEnd(strict)
    .execute();
};
