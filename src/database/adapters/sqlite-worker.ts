/**
 * The thread that owns the SQLite file: a commit waits for the disk, and a slow disk must not stop the service's
 * event loop. See sqlite.ts for who speaks to it.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

export interface Statement {
  sql: string;
  parameters: readonly unknown[];
}

/**
 * group: independent statements that share one commit (a statement that fails leaves the others alone).
 * single: one statement as it stands, inside or outside of a transaction that the caller began.
 */
export interface WorkerRequest {
  mode: 'group' | 'single';
  statements: Statement[];
}

export type StatementOutcome =
  { rows: unknown[]; changes: number | bigint } | { error: string; errcode: number | undefined };

const BUSY_TIMEOUT_MS = 5_000;
const PREPARED_STATEMENTS = 500;

const port = parentPort;
if (!port) throw new Error('sqlite-worker.ts runs as a worker thread only');

const database = new DatabaseSync((workerData as { file: string }).file, { timeout: BUSY_TIMEOUT_MS });
database.exec('PRAGMA journal_mode = WAL');
database.exec('PRAGMA synchronous = FULL');
database.exec('PRAGMA foreign_keys = ON');
// 40 MB of log instead of 4 before it is copied into the file: 8 to 16 % more tokens a second.
database.exec('PRAGMA wal_autocheckpoint = 10000');

interface Prepared {
  statement: StatementSync;
  returnsRows: boolean;
}

const prepared = new Map<string, Prepared>();

port.on('message', (request: WorkerRequest | 'close') => {
  if (request === 'close') {
    prepared.clear();
    database.close();
    port.close();
    return;
  }
  port.postMessage(request.mode === 'group' ? runGroup(request.statements) : request.statements.map(run));
});

function runGroup(statements: Statement[]): StatementOutcome[] {
  try {
    database.exec('BEGIN IMMEDIATE');
    const outcomes = statements.map(run);
    database.exec('COMMIT');
    return outcomes;
  } catch (error) {
    // Nothing of the group is on the disk, so nobody may be told that it is.
    if (database.isTransaction) database.exec('ROLLBACK');
    return statements.map(() => failure(error));
  }
}

function run({ sql, parameters }: Statement): StatementOutcome {
  try {
    const { statement, returnsRows } = prepare(sql);
    const values = parameters as SQLInputValue[];
    if (returnsRows) return { rows: statement.all(...values), changes: 0 };
    return { rows: [], changes: statement.run(...values).changes };
  } catch (error) {
    return failure(error);
  }
}

function prepare(sql: string): Prepared {
  let found = prepared.get(sql);
  if (!found) {
    if (prepared.size >= PREPARED_STATEMENTS) prepared.delete(prepared.keys().next().value as string);
    const statement = database.prepare(sql);
    found = { statement, returnsRows: statement.columns().length > 0 };
    prepared.set(sql, found);
  }
  return found;
}

function failure(error: unknown): StatementOutcome {
  const { message, errcode } = error as { message: string; errcode?: number };
  return { error: message, errcode };
}
