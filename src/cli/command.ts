import type { ResolvedSettings } from '../settings.ts';
import type { System } from '../system/system.ts';

/** One command of the command line, such as `client create`. */
export interface Command {
  name: string;
  summary: string;
  /** The option that a plain word after the command stands for. */
  positional?: string;
  options: Record<string, CommandOption>;
  run(call: CommandCall): Promise<void>;
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
