import { sql } from 'kysely';
import type { Migration } from './migrate.ts';

/** What became of each source record that was sent. */
export const outbox: Migration = async (schema, { tableSuffix, bigint: bigintType }) => {
  await schema
    .createTable('outbox')
    .addColumn('origin_id', 'text', (column) => column.notNull())
    .addColumn('step', 'text', (column) => column.notNull())
    .addColumn('record', 'text', (column) => column.notNull())
    .addColumn('first', 'integer', (column) => column.notNull())
    .addColumn('count', 'integer', (column) => column.notNull())
    .addColumn('number', 'integer', (column) => column.notNull())
    .addColumn('request', 'integer', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('decision', 'text')
    .addColumn('http_status', 'integer')
    .addColumn('response_id', 'text')
    .addColumn('error', 'text')
    .addColumn('changed_at', sql.raw(bigintType), (column) => column.notNull())
    .addPrimaryKeyConstraint('outbox_key', ['origin_id', 'step', 'record', 'first'])
    .modifyEnd(sql.raw(tableSuffix))
    .execute();
  await schema
    .createIndex('outbox_order')
    .on('outbox')
    .columns(['origin_id', 'step', 'number', 'first', 'record'])
    .execute();
  await schema.createIndex('outbox_status').on('outbox').columns(['origin_id', 'step', 'status']).execute();
  await schema.createIndex('job_rerun_of').on('job').column('rerun_of').execute();
};
