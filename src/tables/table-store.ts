import type { Column, columnTypes } from '../model/table.ts';

/**
 * Where records land and are read from again. Every database that holds data tables has one adapter of this
 * interface, and all of them pass the suite in conformance.ts.
 *
 * Glossary
 *   space, table   name a table inside one source. Names are data: any Unicode text that the database takes.
 *   column         a name and one of the ten types, in order of position.
 *   model          the columns in force for a load. Other properties of a record fall away, missing ones are NULL.
 *   load           the rows of one page for one table.
 *   page           what one request brought: its loads and the new cursor, committed in one transaction.
 *   checkpoint     per job and step: the number of pages committed, and the cursor that leads to the next one.
 *   epoch, fence   who claims a step raises its epoch; a commit under an older epoch is refused.
 *   staging table  what createThenAppend fills, unseen by readers, until `finish` puts it in the old table's place.
 *   temporary      a table that only its job sees, under a name of its own, until `dropTemporary`.
 *   widen          change a column to a type that holds all its old values exactly, and the new ones too.
 *   key            where reading goes on: opaque, and tied to the table that it was read from.
 *
 * What a column takes, and what is read back (anything else is a CellError, never a changed value)
 *   string     any text; numbers and booleans as their JSON text, objects and arrays as JSON text
 *   integer    whole numbers of ±(2^53 - 1), also as digits in a string; read as a number
 *   bigint     whole numbers of 64 bits, also as digits in a string; read as a number up to ±(2^53 - 1), else as digits
 *   decimal    numbers, and strings of digits, of up to 10,000 digits; read as a string of the digits (1.50 stays 1.50)
 *   double     numbers whose digits survive a double, also in a string; read as a number
 *   boolean    true, false
 *   date       "2024-01-31"; read so
 *   timestamp  RFC 3339 with or without a zone (without: UTC); read in UTC, as "2024-01-31T10:00:00Z", with 3, 6 or 9
 *              digits of the second where they are not zero
 *   json       any JSON value; read as JSON
 *   binary     a string in base64; read so
 */
export type { Column };
export type ColumnType = Column['type'];

/** Those of the model, checked to be the same; importing them would load its schemas into each thread of a store. */
export const COLUMN_TYPES = [
  'string',
  'integer',
  'bigint',
  'decimal',
  'double',
  'boolean',
  'date',
  'timestamp',
  'json',
  'binary',
] as const satisfies typeof columnTypes;

export interface TableName {
  space: string;
  table: string;
}

/** With `jobId`, the temporary table of that job is meant where it has one of this name. */
export interface TableAsk extends TableName {
  jobId?: string;
}

/** JSON text (as UTF-8 where it is bytes): an array of objects. */
export type RowsText = string | Uint8Array;

export interface TableLoad {
  table: TableName;
  /** null: no model. Then the columns of the existing table are in force, or, with `widen`, those of the rows. */
  columns: Column[] | null;
  mode: 'append' | 'createThenAppend' | 'merge';
  /** For merge: the columns that tell whether a row is there already. */
  keys?: string[];
  temporary: boolean;
  /** The existing table gets the columns that it lacks, and wider types where the rows need them. */
  widen: boolean;
  /** What the rows alone do not tell, where the columns are made from them. */
  inference?: InferenceHints;
  rows: RowsText;
}

export interface InferenceHints {
  /** Columns whose strings are the digits of numbers that a double does not hold. */
  digits: readonly string[];
  /** What objects and arrays become; `text`: strings of JSON text. */
  nested: 'json' | 'text';
}

export interface PageCommit {
  jobId: string;
  step: string;
  epoch: number;
  /** How many pages of the step are committed already; the checkpoint must say the same. */
  page: number;
  cursor: string;
  loads: TableLoad[];
}

/** `repeated`: exactly this page is committed already, under the same epoch; nothing was done. */
export interface PageOutcome {
  outcome: 'committed' | 'repeated';
  /** The rows of each load. */
  rowCounts: number[];
}

export interface Checkpoint {
  page: number;
  cursor: string | null;
}

export interface TableDescription extends TableName {
  columns: Column[];
}

export interface RowsPage {
  columns: Column[];
  /** JSON text: an array of objects that have every column as a property. */
  rows: string;
  count: number;
  /** The key to read on after; null: these were the last rows. */
  next: string | null;
}

export interface ReadOptions {
  after?: string | null;
  limit: number;
  /** A page ends early before it grows beyond this, but holds at least one row. Default: MAX_PAGE_BYTES. */
  maxBytes?: number;
}

export interface Batch {
  /** JSON text: an array of objects that have every column as a property. */
  rows: string;
  count: number;
  /** The key of each row; `after` it a later snapshot goes on. */
  keys: string[];
}

/** The rows of a table as they were when it was opened, however much is written meanwhile. */
export interface SourceRows {
  readonly columns: Column[];
  /** The key of the last row of all; a job that is resumed gives it as `until`, so as not to see rows added since. */
  readonly lastKey: string;
  /** null: no more rows. A batch is shorter than `size` at the end, or where it would grow beyond `maxBytes`. */
  nextBatch(size: number, maxBytes?: number): Promise<Batch | null>;
  close(): Promise<void>;
}

export interface SnapshotOptions {
  after?: string | null;
  until?: string | null;
}

export interface RowsWrite {
  table: TableName;
  /** null: the columns of the existing table, or of the rows where there is none. */
  columns: Column[] | null;
  /** replace: the rows take the place of all there were, in one step. */
  mode: 'append' | 'replace' | 'merge';
  keys?: string[];
  widen?: boolean;
  rows: RowsText;
}

export interface StoreCapabilities {
  readonly maxColumns: number;
  /** Whether a string may hold the character U+0000. */
  readonly nulCharacters: boolean;
  /** How many digits of a second a timestamp keeps; more are an error unless they are zeros. */
  readonly secondDigits: number;
  /** Whether column names that differ only in case are different columns. */
  readonly caseSensitiveNames: boolean;
  /** The same of tables, where it differs. */
  readonly caseSensitiveTables?: boolean;
  /** The form in which column names are compared, where that is not the small letters of A to Z. */
  readonly foldName?: (name: string) => string;
  /** Why the database does not take the name, said after it ("is …"), beyond what no database takes. */
  readonly nameProblem: (part: NamePart, name: string) => string | undefined;
}

export type NamePart = 'space' | 'table' | 'column';

export interface TableStore {
  readonly capabilities: StoreCapabilities;
  /** null: there is no such table. */
  columns(table: TableAsk): Promise<Column[] | null>;
  /** The tables that are no job's own, by space and name. */
  tables(): Promise<TableDescription[]>;
  count(table: TableAsk): Promise<number>;

  /** Raises the fence. null: somebody claimed the step under this epoch or a later one. */
  claim(jobId: string, step: string, epoch: number): Promise<Checkpoint | null>;
  /** One transaction: all loads, and the checkpoint. */
  commitPage(commit: PageCommit): Promise<PageOutcome>;
  /** The staging tables of the step take the place of the old tables, all in one transaction. May be repeated. */
  finish(jobId: string, step: string, epoch: number): Promise<void>;
  /** Forgets the job's checkpoints and drops its staging tables: it failed for good, or its success is recorded. */
  abandon(jobId: string): Promise<void>;
  dropTemporary(jobId: string): Promise<void>;
  /** Jobs that have checkpoints, staging or temporary tables here, for a sweep after a crash. */
  jobs(): Promise<string[]>;

  read(table: TableAsk, options: ReadOptions): Promise<RowsPage>;
  openSnapshot(table: TableAsk, options?: SnapshotOptions): Promise<SourceRows>;
  /** The number of rows written. */
  writeRows(write: RowsWrite): Promise<number>;
  /** false: there was no such table. */
  dropTable(table: TableName): Promise<boolean>;
  close(): Promise<void>;
}

export const MAX_NAME_LENGTH = 512;
export const MAX_PAGE_BYTES = 64 * 1024 * 1024;
