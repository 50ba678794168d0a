import { sql } from 'kysely';
import type { Migration } from './migrate.ts';

/** When the next request to a source may go out, from whichever job and node. */
export const rateBudgets: Migration = async (schema, { tableSuffix, bigint: bigintType }) => {
  await schema
    .createTable('rate_budget')
    .addColumn('source', 'text', (column) => column.primaryKey().notNull())
    .addColumn('free_at_us', sql.raw(bigintType), (column) => column.notNull())
    .addColumn('blocked_until_us', sql.raw(bigintType), (column) => column.notNull())
    .modifyEnd(sql.raw(tableSuffix))
    .execute();
};
