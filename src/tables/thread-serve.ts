import { parentPort, workerData } from 'node:worker_threads';
import { isUnavailable } from '../database/database.ts';
import { StoreUnavailable, TableError, toPlain, type PlainError } from './table-errors.ts';

export interface Call {
  id: number;
  method: string;
  args: unknown[];
}

export type Answer = { id: number; result: unknown } | { id: number; error: PlainError };

/** What the thread says of itself, without having been asked. */
export interface Notice {
  notice: PlainError;
}

type Methods = Record<string, (...args: unknown[]) => unknown>;

/**
 * Runs in the thread: opens the place with the first call, then answers calls until `close`. Methods that answer at
 * once run one after the other, those that promise an answer side by side.
 */
export function serve(
  open: (place: never, notify: (error: Error) => void) => { close(): void | Promise<void> },
): void {
  const port = parentPort;
  if (!port) throw new Error('this file runs as a worker thread only');
  const notify = (error: Error) => port.postMessage({ notice: toPlain(error) } satisfies Notice);
  let opened: { close(): void | Promise<void> } | undefined;
  const answer = (id: number, result: unknown) => port.postMessage({ id, result } satisfies Answer);
  const refuse = (id: number, error: unknown) =>
    port.postMessage({ id, error: toPlain(asTableError(error)) } satisfies Answer);
  port.on('message', ({ id, method, args }: Call) => {
    try {
      if (method !== 'close') opened ??= open(workerData as never, notify);
      const result = (opened as unknown as Methods | undefined)?.[method]?.(...args);
      const settle = (value: unknown) => (method === 'close' ? port.close() : answer(id, value));
      if (result instanceof Promise) result.then(settle, (error: unknown) => refuse(id, error));
      else settle(result);
    } catch (error) {
      refuse(id, error);
    }
  });
}

function asTableError(error: unknown): unknown {
  if (error instanceof TableError || !isUnavailable(error)) return error;
  return new StoreUnavailable({ problem: (error as Error).message });
}
