import { isUnavailable } from '../../../database/database.ts';
import { DatabaseRefusal, RowsError, StoreUnavailable, TableError } from '../../table-errors.ts';
import type { TableName } from '../../table-store.ts';

/** What PostgreSQL says with an error, by its own field names. */
interface Refusal extends Error {
  code: string;
  where?: string;
  detail?: string;
}

/**
 * 25006 a standby after a failover; 25P03 idle for too long in a transaction; 40001, 40P01 lost against others;
 * 55P03, 57014 a lock or a statement took too long.
 */
const TRANSIENT = new Set(['25006', '25P03', '40001', '40P01', '55P03', '57014']);

const BROKEN =
  /^(?:Query read timeout|Client has encountered a connection error|Cannot use a pool after|Client was closed)/;

export function isRefusal(error: unknown): error is Refusal {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code);
}

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return isRefusal(error) && codes.includes(error.code);
}

/** Whether the connection may be used again: it is, after what the server itself answered in its own time. */
export function isConnectionWhole(error: unknown): boolean {
  return error instanceof TableError || (isRefusal(error) && !/^(?:08|57P|25P03)/.test(error.code));
}

export function asTableError(error: unknown, table: TableName | null = null): unknown {
  if (error instanceof TableError || !(error instanceof Error)) return error;
  if (isRefusal(error) && TRANSIENT.has(error.code)) return new StoreUnavailable({ problem: error.message });
  if (isUnavailable(error) || BROKEN.test(error.message)) {
    return new StoreUnavailable({ problem: error.message || 'it cannot be reached' });
  }
  return isRefusal(error) ? refused(error, table) : error;
}

function refused({ message, detail, where }: Refusal, table: TableName | null): TableError {
  const problem = detail ? `${message} (${detail})` : message;
  const line = /^COPY .*, line (\d+)/s.exec(where ?? '')?.[1];
  if (table && line !== undefined) return new RowsError({ table, row: Number(line) - 1, problem });
  return new DatabaseRefusal({ table, problem });
}
