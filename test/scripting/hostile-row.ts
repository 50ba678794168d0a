import type { ScriptErrorKind } from '../../src/scripting/script-run.ts';

/** How a hostile script may end: with one of these errors, or with exactly this value. */
export type Ending = { kinds: readonly ScriptErrorKind[] } | { value: unknown };

export interface HostileScript {
  name: string;
  text: string;
  ending: Ending;
  mode?: 'parse';
}

export interface Canaries {
  file: string;
  variable: string;
  port: number;
}

/** Name, text, ending. */
export type HostileRow = [string, string, Ending];

export const stopped = { kinds: ['timeout', 'memory', 'crash', 'script'] } as const satisfies Ending;
export const slow = { kinds: ['timeout'] } as const satisfies Ending;
export const refused = { kinds: ['script'] } as const satisfies Ending;
export const value = (expected: unknown): Ending => ({ value: expected });
