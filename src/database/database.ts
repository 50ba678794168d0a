import type { Kysely } from 'kysely';

/**
 * An open database with its tables `T`. What differs between the kinds stands here as data, so that the code
 * above asks for a capability and never for a product.
 */
export interface Database<T> {
  readonly kind: 'sqlite' | 'postgres';
  /** What a person may be told of where it is; never with a password. */
  readonly place: string;
  readonly query: Kysely<T>;
  /** One statement of the database's own SQL, outside of any transaction. See prepared.ts. */
  run<Row>(sql: string, parameters: readonly unknown[]): Promise<Outcome<Row>>;
  readonly capabilities: Capabilities;
  close(): Promise<void>;
}

/** Of one statement: the rows that it gave, and how many it changed. */
export interface Outcome<Row = unknown> {
  readonly rows: Row[];
  readonly changes: number;
}

export interface Capabilities {
  /** Transactions run side by side, so that they need locks between them; otherwise one after the other. */
  readonly concurrentTransactions: boolean;
  /** Appended to `create table`: the strictest form of a table that the database knows. */
  readonly tableSuffix: 'strict' | '';
  /** The name of the integer type of 64 bits. */
  readonly bigint: 'integer' | 'bigint';
  /** The name of the type of bytes. */
  readonly blob: 'blob' | 'bytea';
}

/** The database is away, full or closed: the same statement may succeed later. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable';
}

const POSTGRES_UNIQUE_VIOLATION = '23505';
const SQLITE_UNIQUE_VIOLATIONS = new Set([1555, 2067]); // SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE

export function isUniqueViolation(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return code === POSTGRES_UNIQUE_VIOLATION || SQLITE_UNIQUE_VIOLATIONS.has(errcode as number);
}

const NETWORK_FAILURES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
]);
const SQLITE_UNAVAILABLE = new Set([5, 6, 10, 13]); // SQLITE_BUSY, SQLITE_LOCKED, SQLITE_IOERR, SQLITE_FULL

/** Whether the database itself could not be reached or could not work, as against a statement that it refused. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof DatabaseUnavailable) return true;
  if (error instanceof AggregateError) return error.errors.some(isUnavailable);
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (typeof errcode === 'number') return SQLITE_UNAVAILABLE.has(errcode & 0xff);
  if (typeof code === 'string') {
    // PostgreSQL's classes 08 (connection), 53 (resources), 57P (shutdown and the like); 25P03: this process was
    // stopped within a transaction, which was ended meanwhile.
    return NETWORK_FAILURES.has(code) || /^(?:08|53|57P|25P03)/.test(code);
  }
  return /^(?:Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect)/.test(
    error.message,
  );
}
