import { sql } from 'kysely';
import type { Migration } from './migrate.ts';

/** Schedules, and each of their firings with what became of it. */
export const schedules: Migration = async (schema, { tableSuffix, bigint: bigintType }) => {
  const strict = sql.raw(tableSuffix);
  const bigint = sql.raw(bigintType);

  await schema
    .createTable('schedule')
    .addColumn('app_id', 'text', (column) => column.notNull().references('application.app_id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addColumn('client_id', 'text', (column) => column.notNull())
    .addColumn('username', 'text')
    .addColumn('next_at', bigint)
    .addColumn('paused_because', 'text')
    .addColumn('failures', 'integer', (column) => column.notNull())
    .addColumn('changed_at', bigint, (column) => column.notNull())
    .addPrimaryKeyConstraint('schedule_key', ['app_id', 'name'])
    .modifyEnd(strict)
    .execute();
  await schema.createIndex('schedule_next').on('schedule').column('next_at').execute();

  await schema
    .createTable('schedule_run')
    .addColumn('app_id', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('fire_at', bigint, (column) => column.notNull())
    .addColumn('cause', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('client_id', 'text', (column) => column.notNull())
    .addColumn('username', 'text')
    .addColumn('job_id', 'text')
    .addColumn('outcome', 'text')
    .addColumn('why', 'text')
    .addPrimaryKeyConstraint('schedule_run_key', ['app_id', 'name', 'fire_at'])
    .addForeignKeyConstraint(
      'schedule_run_schedule',
      ['app_id', 'name'],
      'schedule',
      ['app_id', 'name'],
      (constraint) => constraint.onDelete('cascade'),
    )
    .modifyEnd(strict)
    .execute();
  await schema.createIndex('schedule_run_state').on('schedule_run').column('state').execute();
};
