import { createHash } from 'node:crypto';
import { ServiceError } from '../../model/errors.ts';

/** So many rounds of the very same request and answer, with rows loaded, are a loop. */
const ROUNDS = 3;

/** The last rounds, as far as they were alike. */
export interface LoopRounds {
  last: string;
  rounds: number;
}

/** Notices paging that goes in a circle of one. Polling that loads nothing is none. */
export class LoopGuard {
  #last: string;
  #rounds: number;

  constructor(before: LoopRounds | null) {
    this.#last = before?.last ?? '';
    this.#rounds = before?.rounds ?? 0;
  }

  get rounds(): LoopRounds {
    return { last: this.#last, rounds: this.#rounds };
  }

  check(requestHash: string, responseHash: string, rows: number): void {
    const round = `${requestHash} ${responseHash}`;
    this.#rounds = rows > 0 && round === this.#last ? this.#rounds + 1 : 1;
    this.#last = round;
    if (this.#rounds < ROUNDS || rows === 0) return;
    throw new ServiceError(
      'paging_loop',
      `the same request brought the same response ${ROUNDS} times in a row, and its rows were to be loaded again: ` +
        'doWhile must lead on (a url, or a variable that the next request uses). To allow this, set ' +
        'options.onRepeat to "continue"',
      { path: 'target.parsingScript' },
    );
  }
}

export function hashOf(...parts: (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex');
}
