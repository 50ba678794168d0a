import { sql } from 'kysely';
import type { Migration } from './migrate.ts';

/** What belongs to an application, jobs with their pages and events, leases. */
export const jobs: Migration = async (schema, { tableSuffix, bigint: bigintType, blob: blobType }) => {
  const strict = sql.raw(tableSuffix);
  const bigint = sql.raw(bigintType);
  const blob = sql.raw(blobType);

  await schema
    .createTable('definition')
    .addColumn('app_id', 'text', (column) => column.notNull().references('application.app_id'))
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addColumn('changed_at', bigint, (column) => column.notNull())
    .addPrimaryKeyConstraint('definition_key', ['app_id', 'kind', 'name'])
    .modifyEnd(strict)
    .execute();

  await schema
    .createTable('variable')
    .addColumn('app_id', 'text', (column) => column.notNull().references('application.app_id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('value', 'text', (column) => column.notNull())
    .addColumn('changed_at', bigint, (column) => column.notNull())
    .addPrimaryKeyConstraint('variable_key', ['app_id', 'name'])
    .modifyEnd(strict)
    .execute();

  await schema
    .createTable('job')
    .addColumn('job_id', 'text', (column) => column.primaryKey())
    .addColumn('app_id', 'text', (column) => column.notNull().references('application.app_id'))
    .addColumn('client_id', 'text', (column) => column.notNull())
    .addColumn('username', 'text')
    .addColumn('op_name', 'text', (column) => column.notNull())
    .addColumn('op_params', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('epoch', 'integer', (column) => column.notNull())
    .addColumn('created_at', bigint, (column) => column.notNull())
    .addColumn('started_at', bigint)
    .addColumn('ended_at', bigint)
    .addColumn('cancel_requested_at', bigint)
    .addColumn('output', 'text')
    .addColumn('error', 'text')
    .addColumn('stats', 'text', (column) => column.notNull())
    .addColumn('idempotency_key', 'text')
    .addColumn('idempotency_hash', 'text')
    .modifyEnd(strict)
    .execute();
  await schema.createIndex('job_app').on('job').columns(['app_id', 'job_id']).execute();
  await schema.createIndex('job_state').on('job').columns(['state', 'job_id']).execute();
  await schema
    .createIndex('job_idempotency')
    .unique()
    .on('job')
    .columns(['client_id', 'idempotency_key'])
    .execute();

  await schema
    .createTable('job_page')
    .addColumn('job_id', 'text', (column) => column.notNull().references('job.job_id').onDelete('cascade'))
    .addColumn('n', 'integer', (column) => column.notNull())
    .addColumn('record', 'text', (column) => column.notNull())
    .addColumn('body', blob)
    .addPrimaryKeyConstraint('job_page_key', ['job_id', 'n'])
    .modifyEnd(strict)
    .execute();

  await schema
    .createTable('job_event')
    .addColumn('job_id', 'text', (column) => column.notNull().references('job.job_id').onDelete('cascade'))
    .addColumn('n', 'integer', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('at', bigint, (column) => column.notNull())
    .addColumn('data', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('job_event_key', ['job_id', 'n'])
    .modifyEnd(strict)
    .execute();

  await schema
    .createTable('lease')
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('holder', 'text', (column) => column.notNull())
    .addColumn('until', bigint, (column) => column.notNull())
    .modifyEnd(strict)
    .execute();
};
