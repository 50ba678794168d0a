import { sql, type Kysely, type SchemaModule, type Transaction } from 'kysely';
import type { Capabilities, Database } from '../../database/database.ts';
import { access } from './0001-access.ts';
import { jobs } from './0002-jobs.ts';
import { jobLife } from './0003-job-life.ts';
import { schedules } from './0004-schedules.ts';
import { outbox } from './0005-outbox.ts';
import { rateBudgets } from './0006-rate-budgets.ts';

export type Migration = (schema: SchemaModule, capabilities: Capabilities) => Promise<void>;

/** Forward only: a migration that has landed is never changed, the next one is added below it. */
const migrations: readonly Migration[] = [access, jobs, jobLife, schedules, outbox, rateBudgets];

/** Any number will do that no other program takes in the same database. */
const POSTGRES_LOCK = 4_011_952_330;

interface SchemaVersion {
  schema_version: { version: number };
}

/** The database was migrated by a newer millrace. */
export class DatabaseTooNew extends Error {
  override readonly name = 'DatabaseTooNew';
}

/**
 * Brings the database to this program's version. Several nodes may do this at once: one transaction under a
 * lock, and whoever comes second finds the work done.
 */
export async function migrate<T>(database: Database<T>): Promise<void> {
  await database.query.transaction().execute(async (transaction) => {
    const versions = transaction as unknown as Transaction<SchemaVersion>;
    if (database.kind === 'postgres') {
      await sql`select pg_advisory_xact_lock(${POSTGRES_LOCK})`.execute(transaction);
      await transaction.schema.createSchema('millrace').ifNotExists().execute();
    }
    const done = await readVersion(versions);
    if (done > migrations.length) {
      throw new DatabaseTooNew(
        `the database ${database.place} has schema version ${done}, this millrace knows up to ` +
          `${migrations.length}: start a newer millrace, or give another database`,
      );
    }
    for (const migration of migrations.slice(done)) await migration(versions.schema, database.capabilities);
    if (done < migrations.length) await writeVersion(versions, migrations.length);
  });
}

async function readVersion(versions: Kysely<SchemaVersion>): Promise<number> {
  await versions.schema
    .createTable('schema_version')
    .ifNotExists()
    .addColumn('version', 'integer', (column) => column.notNull())
    .execute();
  const row = await versions.selectFrom('schema_version').select('version').executeTakeFirst();
  return row?.version ?? 0;
}

async function writeVersion(versions: Kysely<SchemaVersion>, version: number): Promise<void> {
  await versions.deleteFrom('schema_version').execute();
  await versions.insertInto('schema_version').values({ version }).execute();
}
