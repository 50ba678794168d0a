import type { JobRunner } from '../jobs/job-runner.ts';
import type { Scheduler } from '../jobs/scheduler.ts';
import type { DataPlaces } from '../operations/data-places.ts';
import type { CheckScenario } from '../operations/run-scenario/run-scenario.ts';
import type { ResolvedSettings } from '../settings.ts';
import type { System } from '../system/system.ts';

/** One command of the command line, such as `client create`. */
export interface Command {
  name: string;
  summary: string;
  /** The options that plain words after the command stand for, in their order. */
  positional?: string | readonly string[];
  options: Record<string, CommandOption>;
  /** Gives the exit code where that is not 0. */
  run(call: CommandCall): Promise<number | void>;
}

/** What a command needs that runs jobs or looks into tables by itself. */
export interface Engine {
  system: System;
  runner: JobRunner;
  places: DataPlaces;
  checkScenario: CheckScenario;
  scheduler: Scheduler;
  stop(signal: AbortSignal): Promise<void>;
}

export interface CommandOption {
  description: string;
  /** What a value looks like in the help; none: the option is a switch. */
  value?: string;
  required?: boolean;
}

export interface CommandCall {
  settings: ResolvedSettings;
  option(name: string): string | undefined;
  switchedOn(name: string): boolean;
  /** A line of the result, on standard output. */
  print(line: string): void;
  /** A message to the person, on standard error. */
  tell(line: string): void;
  /** Opens the service's records for the time of the work, while a service may be running on them. */
  withRecords<Result>(work: (system: System) => Promise<Result>): Promise<Result>;
}

/** The command was called wrongly: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export const jsonOption = { json: { description: 'Print JSON, for machines' } } satisfies Record<
  string,
  CommandOption
>;

/** The result as JSON where that was asked for, else as a person reads it. */
export function printResult(call: CommandCall, result: unknown, asText: () => string[]): void {
  if (call.switchedOn('json')) call.print(JSON.stringify(result));
  else for (const line of asText()) call.print(line);
}

/** Columns as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

export function positionalsOf({ positional = [] }: Command): readonly string[] {
  return typeof positional === 'string' ? [positional] : positional;
}
