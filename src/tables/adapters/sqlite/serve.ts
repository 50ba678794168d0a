import { parentPort, workerData } from 'node:worker_threads';
import { isUnavailable } from '../../../database/database.ts';
import { StoreUnavailable, TableError, toPlain, type PlainError } from '../../table-errors.ts';

export interface Call {
  id: number;
  method: string;
  args: unknown[];
}

export type Answer = { id: number; result: unknown } | { id: number; error: PlainError };

type Methods = Record<string, (...args: unknown[]) => unknown>;

/** Runs in the thread: opens the file with the first call, then answers call after call until `close`. */
export function serve(open: (file: string) => { close(): void }): void {
  const port = parentPort;
  if (!port) throw new Error('this file runs as a worker thread only');
  let opened: { close(): void } | undefined;
  port.on('message', ({ id, method, args }: Call) => {
    try {
      if (method === 'close') {
        port.close();
        opened?.close();
        return;
      }
      opened ??= open((workerData as { file: string }).file);
      const result = (opened as unknown as Methods)[method]?.(...args);
      port.postMessage({ id, result } satisfies Answer);
    } catch (error) {
      port.postMessage({ id, error: toPlain(asTableError(error)) } satisfies Answer);
    }
  });
}

function asTableError(error: unknown): unknown {
  if (error instanceof TableError || !isUnavailable(error)) return error;
  return new StoreUnavailable({ problem: (error as Error).message });
}
