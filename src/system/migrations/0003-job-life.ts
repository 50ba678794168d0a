import { sql } from 'kysely';
import type { Migration } from './migrate.ts';

/** What a job needs to survive its worker: who has it, when it wakes, where it goes on. */
export const jobLife: Migration = async (schema, { tableSuffix, bigint: bigintType }) => {
  const strict = sql.raw(tableSuffix);
  const bigint = sql.raw(bigintType);
  const columns = [
    ['owner', 'text'],
    ['exclusive_key', 'text'],
    ['wake_at', bigint],
    ['abort_requested_at', bigint],
    ['rerun_of', 'text'],
    ['clean_up_at', bigint],
  ] as const;
  for (const [name, type] of columns) await schema.alterTable('job').addColumn(name, type).execute();
  for (const name of ['priority', 'retries', 'page_count', 'event_count']) {
    await schema
      .alterTable('job')
      .addColumn(name, 'integer', (column) => column.notNull().defaultTo(0))
      .execute();
  }
  for (const name of ['policy', 'progress']) {
    await schema
      .alterTable('job')
      .addColumn(name, 'text', (column) => column.notNull().defaultTo('{}'))
      .execute();
  }
  await schema.createIndex('job_clean_up').on('job').columns(['clean_up_at']).execute();
  await schema.createIndex('job_ended').on('job').columns(['ended_at']).execute();

  await schema
    .createTable('worker')
    .addColumn('owner', 'text', (column) => column.primaryKey())
    .addColumn('seen_at', bigint, (column) => column.notNull())
    .modifyEnd(strict)
    .execute();
};
