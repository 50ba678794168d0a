import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreUnavailable } from '../../table-errors.ts';

const BUSY_TIMEOUT_MS = 5_000;
const WAL_KEPT_BYTES = 64 * 1024 * 1024;
const LAYOUT = 1;

/**
 * The bookkeeping. Its names have no point, those of data tables always have one. `job_id` and `step` are empty where
 * a table is nobody's own; `folded` keeps out names that SQLite does not tell apart.
 */
const BOOKKEEPING = `
  CREATE TABLE _table (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL, name TEXT NOT NULL,
    physical TEXT NOT NULL, folded TEXT NOT NULL UNIQUE,
    temporary INTEGER NOT NULL, staged INTEGER NOT NULL,
    job_id TEXT NOT NULL, step TEXT NOT NULL,
    UNIQUE (space, name, temporary, staged, job_id, step)
  ) STRICT;
  CREATE INDEX _table_job ON _table (job_id) WHERE job_id <> '';
  CREATE TABLE _column (
    table_id INTEGER NOT NULL, position INTEGER NOT NULL,
    name TEXT NOT NULL, type TEXT NOT NULL, undecided INTEGER NOT NULL,
    PRIMARY KEY (table_id, position)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE _checkpoint (
    job_id TEXT NOT NULL, step TEXT NOT NULL,
    epoch INTEGER NOT NULL, page INTEGER NOT NULL, cursor TEXT,
    PRIMARY KEY (job_id, step)
  ) STRICT, WITHOUT ROWID;
`;

export function openForWriting(file: string): DatabaseSync {
  mkdirSync(dirname(file), { recursive: true });
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  database.exec('PRAGMA journal_mode = WAL');
  database.exec('PRAGMA synchronous = FULL');
  database.exec('PRAGMA temp_store = MEMORY');
  database.exec(`PRAGMA journal_size_limit = ${WAL_KEPT_BYTES}`);
  inTransaction(database, () => {
    const { user_version: layout } = database.prepare('PRAGMA user_version').get() as {
      user_version: number;
    };
    if (layout > LAYOUT) throw new StoreUnavailable({ problem: 'its file was written by a newer version' });
    if (layout === LAYOUT) return;
    database.exec(BOOKKEEPING);
    database.exec(`PRAGMA user_version = ${LAYOUT}`);
  });
  return database;
}

export function openForReading(file: string): DatabaseSync {
  return new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS, readOnly: true });
}

export function inTransaction<T>(database: DatabaseSync, work: () => T): T {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}
