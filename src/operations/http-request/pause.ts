import { setTimeout as delay } from 'node:timers/promises';
import { Cancelled, type OperationContext } from '../operation.ts';

/** Between two pages: whoever cancels the job need not wait for its end. */
export async function pause(ms: number, { signal, stopSignal }: OperationContext): Promise<void> {
  try {
    await delay(ms, undefined, { signal: AbortSignal.any([signal, stopSignal]) });
  } catch (error) {
    if (stopSignal.aborted) throw new Cancelled('the job was cancelled between two pages', { cause: error });
    throw error;
  }
}
