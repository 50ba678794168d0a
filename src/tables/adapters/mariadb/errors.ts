import { SqlError } from 'mariadb';
import { DatabaseRefusal, StoreUnavailable, TableError } from '../../table-errors.ts';

/** The server's errors that are told apart here, by its own names. */
export const ERRORS = {
  ER_DB_CREATE_EXISTS: 1007,
  ER_CHECKREAD: 1020,
  ER_CON_COUNT: 1040,
  ER_BAD_DB: 1049,
  ER_TABLE_EXISTS: 1050,
  ER_BAD_TABLE: 1051,
  ER_SERVER_SHUTDOWN: 1053,
  ER_DUP_FIELDNAME: 1060,
  ER_FIELD_SPECIFIED_TWICE: 1110,
  ER_TOO_BIG_ROWSIZE: 1118,
  ER_TABLE_ACCESS_DENIED: 1142,
  ER_NO_SUCH_TABLE: 1146,
  ER_LOCK_WAIT_TIMEOUT: 1205,
  ER_LOCK_DEADLOCK: 1213,
} as const;

const UNAVAILABLE = new Set<number>([
  ERRORS.ER_CHECKREAD,
  ERRORS.ER_CON_COUNT,
  ERRORS.ER_SERVER_SHUTDOWN,
  ERRORS.ER_LOCK_WAIT_TIMEOUT,
  ERRORS.ER_LOCK_DEADLOCK,
  1021, // the disk is full
  1041, // out of memory
  1114, // a table is full
  1158, // network errors
  1159,
  1160,
  1161,
  1203, // too many connections of the user
  1206, // the table of locks is full
  1226, // a limit of the user
  1290, // the server is read-only, as in a switch to another primary
  1317, // the statement was cut off
  1836, // read-only
  1927, // the connection was killed
  1969, // max_statement_time
]);
/** The connector's own: connections that broke, or could not be made in time. */
const CONNECTOR_ERRORS = 45_000;
const PACKET_TOO_LARGE = 45_046;

export function hasErrno(error: unknown, ...names: (keyof typeof ERRORS)[]): error is SqlError {
  return error instanceof SqlError && names.some((name) => ERRORS[name] === error.errno);
}

export function isDeadlock(error: unknown): boolean {
  return hasErrno(error, 'ER_LOCK_DEADLOCK', 'ER_CHECKREAD');
}

/** Never the connector's own message: it carries the statement and its values. */
export function translated(error: unknown): unknown {
  if (error instanceof TableError || !(error instanceof Error)) return error;
  if (!(error instanceof SqlError)) return isNetworkError(error) ? unavailable(error.message) : error;
  const problem = error.sqlMessage ?? error.code ?? 'unknown error';
  if (isUnavailable(error)) return unavailable(problem);
  return new DatabaseRefusal({ table: null, problem });
}

function isUnavailable({ errno, code, fatal }: SqlError): boolean {
  if (UNAVAILABLE.has(errno) || typeof code !== 'string') return true;
  if (errno >= CONNECTOR_ERRORS || errno < 0) return errno !== PACKET_TOO_LARGE;
  return fatal && !code.startsWith('ER_');
}

function isNetworkError(error: Error): boolean {
  return 'code' in error && typeof error.code === 'string' && /^E[A-Z]+$/.test(error.code);
}

function unavailable(problem: string): StoreUnavailable {
  return new StoreUnavailable({ problem });
}
