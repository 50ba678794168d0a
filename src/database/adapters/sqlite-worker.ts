/**
 * The thread that owns the SQLite file: a commit waits for the disk, and a slow disk must not stop the service's
 * event loop. See sqlite.ts for who speaks to it.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

export interface Statement {
  /** null: the same as of the statement before it, so that a group of tokens carries the text once. */
  sql: string | null;
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

/** The rows, or how many rows were changed, or what went wrong: what is not there need not be copied. */
export type StatementOutcome = unknown[] | number | StatementFailure;

export interface StatementFailure {
  error: string;
  errcode: number | undefined;
}

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
  port.postMessage(request.mode === 'group' ? runGroup(request.statements) : runAll(request.statements));
});

function runGroup(statements: Statement[]): StatementOutcome[] {
  try {
    database.exec('BEGIN IMMEDIATE');
    const outcomes = runAll(statements);
    database.exec('COMMIT');
    return outcomes;
  } catch (error) {
    // Nothing of the group is on the disk, so nobody may be told that it is.
    if (database.isTransaction) database.exec('ROLLBACK');
    return statements.map(() => failure(error));
  }
}

function runAll(statements: Statement[]): StatementOutcome[] {
  let last = '';
  return statements.map(({ sql, parameters }) => {
    last = sql ?? last;
    return run(last, parameters);
  });
}

function run(sql: string, parameters: readonly unknown[]): StatementOutcome {
  try {
    const { statement, returnsRows } = prepare(sql);
    const values = parameters as SQLInputValue[];
    return returnsRows ? statement.all(...values) : Number(statement.run(...values).changes);
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

function failure(error: unknown): StatementFailure {
  const { message, errcode } = error as { message: string; errcode?: number };
  return { error: message, errcode };
}
