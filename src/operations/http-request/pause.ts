import { setTimeout as delay } from 'node:timers/promises';
import { Paused, type OperationContext } from '../operation.ts';
import type { LongWaits } from './exchange.ts';

/** A longer pause holds no worker: the job gives its place to others, and goes on from its checkpoint. */
export const LONGEST_PAUSE_MS = 5_000;
/** What it may take on a busy machine until a worker has a job again: nodes look for due jobs once a second. */
const TAKEN_UP_MS = 4_000;

/** Between two pages: whoever cancels the job need not wait for its end. */
export async function pause(
  ms: number,
  { signal, stopSignal }: OperationContext,
  mayGiveUpPlace: boolean,
): Promise<void> {
  if (mayGiveUpPlace && ms > LONGEST_PAUSE_MS)
    throw new Paused(Date.now() + ms, `doWhileDelay: the next page is due in ${ms / 1000} s`);
  try {
    await delay(ms, undefined, { signal: AbortSignal.any([signal, stopSignal]) });
  } catch (error) {
    if (stopSignal.aborted) throw stopSignal.reason;
    throw error;
  }
}

/**
 * For as long as a system asks to wait by Retry-After. So often in a row, without a page between, as a request is
 * tried: a system that never lets anybody in does not keep a job alive for ever.
 */
export function longWaits({ step, progress, report }: OperationContext, tries: number): LongWaits {
  const note = `${step} waits`;
  const turnNote = `${step} turn`;
  let kept = progress.of(turnNote) as number | null;
  return {
    keptTurn() {
      const turn = kept;
      kept = null;
      return turn;
    },
    async untilTurn(at) {
      await progress.note(turnNote, at);
      const seconds = Math.ceil((at - Date.now()) / 1000);
      return new Paused(at - TAKEN_UP_MS, `the next request of this job may go out in ${seconds} s`);
    },
    async until(waitMs) {
      const { pages } = report.stats;
      const before = progress.of(note) as { pages: number; waits: number } | null;
      const waits = before?.pages === pages ? before.waits + 1 : 1;
      if (waits >= tries) return null;
      await progress.note(note, { pages, waits });
      return new Paused(Date.now() + waitMs, `the system asks to wait for ${waitMs / 1000} s`);
    },
  };
}
