import type { ColumnType, TableName } from './table-store.ts';

/**
 * The errors of data tables. `code` is stable; `transient` says whether the same call may succeed later.
 * Each error is made from its plain `details` alone, so that it can cross from a thread (see `toPlain`).
 */
export abstract class TableError extends Error {
  abstract readonly code: string;
  readonly transient: boolean = false;
  abstract readonly details: object;
}

export interface CellFault {
  table: TableName;
  /** Counted from 0; the message counts from 1, as people do. */
  row: number;
  column: string;
  type: ColumnType;
  /** The beginning of the value, as JSON text. */
  value: string;
  /** What the column takes. */
  takes: string;
}

/** A value that its column cannot hold exactly. Nothing of its page is loaded. */
export class CellError extends TableError {
  override readonly name = 'CellError';
  readonly code = 'cell';
  readonly details: CellFault;
  constructor(details: CellFault) {
    const { table, row, column, type, value, takes } = details;
    super(
      `row ${row + 1} of the data for table ${shown(table)}, column ${quoted(column)} (${type}): ` +
        `${value} does not fit; the column takes ${takes}`,
    );
    this.details = details;
  }
}

/** The text of the rows is no JSON array of objects. */
export class RowsError extends TableError {
  override readonly name = 'RowsError';
  readonly code = 'rows';
  readonly details: { table: TableName; row: number | null; problem: string };
  constructor(details: RowsError['details']) {
    const where = details.row === null ? 'the data' : `row ${details.row + 1} of the data`;
    super(`${where} for table ${shown(details.table)}: ${details.problem}`);
    this.details = details;
  }
}

/** The columns, the keys or their names do not do for this table. */
export class ColumnsError extends TableError {
  override readonly name = 'ColumnsError';
  readonly code = 'columns';
  readonly details: { table: TableName; column: string | null; problem: string };
  constructor(details: ColumnsError['details']) {
    super(`the columns for table ${shown(details.table)}: ${details.problem}`);
    this.details = details;
  }
}

export class TableNameError extends TableError {
  override readonly name = 'TableNameError';
  readonly code = 'table_name';
  readonly details: { table: TableName; problem: string };
  constructor(details: TableNameError['details']) {
    super(`the table name ${shown(details.table)}: ${details.problem}`);
    this.details = details;
  }
}

export class UnknownTable extends TableError {
  override readonly name = 'UnknownTable';
  readonly code = 'unknown_table';
  readonly details: { table: TableName };
  constructor(details: UnknownTable['details']) {
    super(`there is no table ${quoted(details.table.table)} in the space ${quoted(details.table.space)}`);
    this.details = details;
  }
}

/** Somebody else has claimed the step since, or the job was abandoned: stop, and change nothing. */
export class FencedError extends TableError {
  override readonly name = 'FencedError';
  readonly code = 'fenced';
  readonly details: { jobId: string; step: string; epoch: number; page: number | null };
  constructor(details: FencedError['details']) {
    const { jobId, step, epoch, page } = details;
    const what = page === null ? 'the end' : `page ${page}`;
    super(
      `${what} of job ${jobId}, step ${quoted(step)}, was not committed: epoch ${epoch} has lost its claim`,
    );
    this.details = details;
  }
}

/** A key that was not given out by this table as it now is. */
export class KeyError extends TableError {
  override readonly name = 'KeyError';
  readonly code = 'key';
  readonly details: { table: TableName; problem: string };
  constructor(details: KeyError['details']) {
    super(`the key to read on in table ${shown(details.table)}: ${details.problem}`);
    this.details = details;
  }
}

/** The database is away, full, busy or closed: the same call may succeed later. */
export class StoreUnavailable extends TableError {
  override readonly name = 'StoreUnavailable';
  readonly code = 'store_unavailable';
  override readonly transient = true;
  readonly details: { problem: string };
  constructor(details: StoreUnavailable['details']) {
    super(`the store of the tables is not available: ${details.problem}`);
    this.details = details;
  }
}

/** The database says no: a right is missing, or a rule that somebody gave the table (a constraint, a trigger). */
export class DatabaseRefusal extends TableError {
  override readonly name = 'DatabaseRefusal';
  readonly code = 'database_refusal';
  readonly details: { table: TableName | null; problem: string };
  constructor(details: DatabaseRefusal['details']) {
    const where = details.table ? ` for table ${shown(details.table)}` : '';
    super(`the database refused${where}: ${details.problem}`);
    this.details = details;
  }
}

export interface PlainError {
  name: string;
  message: string;
  details: object | undefined;
}

export function toPlain(error: unknown): PlainError {
  if (error instanceof TableError)
    return { name: error.name, message: error.message, details: error.details };
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return { name, message, details: undefined };
}

export function fromPlain({ name, message, details }: PlainError): Error {
  const made = details && maker(name)?.(details as never);
  return made ?? new Error(message);
}

function maker(name: string): ((details: never) => TableError) | undefined {
  const makers: Record<string, (details: never) => TableError> = {
    CellError: (details) => new CellError(details),
    RowsError: (details) => new RowsError(details),
    ColumnsError: (details) => new ColumnsError(details),
    TableNameError: (details) => new TableNameError(details),
    UnknownTable: (details) => new UnknownTable(details),
    FencedError: (details) => new FencedError(details),
    KeyError: (details) => new KeyError(details),
    StoreUnavailable: (details) => new StoreUnavailable(details),
    DatabaseRefusal: (details) => new DatabaseRefusal(details),
  };
  return Object.hasOwn(makers, name) ? makers[name] : undefined;
}

const EXCERPT_LENGTH = 80;

/** The beginning of a text; never half of a surrogate pair. */
export function excerpt(text: string): string {
  return text.length <= EXCERPT_LENGTH ? text : `${text.slice(0, EXCERPT_LENGTH).toWellFormed()}…`;
}

export function quoted(name: string): string {
  return excerpt(JSON.stringify(name));
}

function shown({ space, table }: TableName): string {
  return `${quoted(space)}.${quoted(table)}`;
}
