import { availableParallelism } from 'node:os';

const MIB = 1024 * 1024;

/** What a script may use; a call over a limit ends with an error of its own. */
export interface ScriptLimits {
  /** Time of one call. */
  callMs: number;
  /** After this much more, the process is killed: some loops of V8 do not listen. */
  graceMs: number;
  isolateMib: number;
  /** Resident memory of a sandbox process. */
  processMib: number;
  /** Of all that a call is given: body, data, variables. From about a twentieth of it on, the limits of memory rise. */
  largestBodyBytes: number;
  /** Of one result: the records of all tables, or the value. */
  outputBytes: number;
  /** Of a result without its records. */
  controlBytes: number;
  consoleCharacters: number;
  tablesPerResult: number;
  columnsPerTable: number;
  scriptBytes: number;
  processes: number;
  /** Calls that run at the same time. */
  callsAtOnce: number;
  waitingCallsPerApplication: number;
  waitingBytesPerApplication: number;
  /** A process that an application has not used for this long goes. */
  idleSeconds: number;
  /** So many killed processes within the window rest the application. */
  killsToRest: number;
  killWindowSeconds: number;
  restSeconds: number;
}

export const defaultScriptLimits: Readonly<ScriptLimits> = {
  callMs: 5_000,
  graceMs: 500,
  isolateMib: 128,
  processMib: 512,
  largestBodyBytes: 256 * MIB,
  outputBytes: 64 * MIB,
  controlBytes: MIB,
  consoleCharacters: 16_384,
  tablesPerResult: 100,
  columnsPerTable: 2_000,
  scriptBytes: 256 * 1024,
  processes: 8,
  // Two at least: a heavy application never takes the last one.
  callsAtOnce: Math.max(2, availableParallelism()),
  waitingCallsPerApplication: 1_000,
  waitingBytesPerApplication: 256 * MIB,
  idleSeconds: 60,
  killsToRest: 3,
  killWindowSeconds: 600,
  restSeconds: 300,
};
