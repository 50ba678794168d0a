import { parseArgs, type ParseArgsConfig } from 'node:util';
import { didYouMean } from '../model/did-you-mean.ts';
import { ServiceError } from '../model/errors.ts';
import { FileError } from '../files/file-error.ts';
import {
  resolveSettings,
  settingDescriptions,
  SettingsError,
  type ResolvedSettings,
  type SettingName,
} from '../settings.ts';
import { MasterKeyError } from '../system/master-key.ts';
import { DatabaseTooNew } from '../system/migrations/migrate.ts';
import type { System } from '../system/system.ts';
import { isUnavailable } from '../database/database.ts';
import { positionalsOf, UsageError, type Command, type CommandCall } from './command.ts';
import { commandHelp, overview } from './help.ts';

const EXIT = { success: 0, failure: 1, wrongUse: 2 } as const;

export interface CommandLineParts {
  version: string;
  commands: readonly Command[];
  environment: NodeJS.ProcessEnv;
  openRecords(settings: ResolvedSettings): Promise<System>;
  print(line: string): void;
  tell(line: string): void;
}

/** Runs one command; gives the exit code. */
export async function runCommandLine(words: readonly string[], parts: CommandLineParts): Promise<number> {
  try {
    return await dispatch(words, parts);
  } catch (error) {
    if (error instanceof UsageError || error instanceof SettingsError) {
      for (const line of error.message.split('\n')) parts.tell(`millrace: ${line}`);
      return EXIT.wrongUse;
    }
    if (isForPeople(error)) parts.tell(`millrace: ${error.message}`);
    else parts.tell(`millrace: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return EXIT.failure;
  }
}

async function dispatch(words: readonly string[], parts: CommandLineParts): Promise<number> {
  const [first] = words;
  if (first === undefined || first === 'help' || first === '--help' || first === '-h') {
    for (const line of overview(parts.commands)) parts.print(line);
    return first === undefined ? EXIT.wrongUse : EXIT.success;
  }
  if (first === '--version' || first === 'version') {
    parts.print(parts.version);
    return EXIT.success;
  }
  const command = findCommand(words, parts.commands);
  const rest = words.slice(command.name.split(' ').length);
  if (rest.includes('--help') || rest.includes('-h')) {
    for (const line of commandHelp(command)) parts.print(line);
    return EXIT.success;
  }
  return (await command.run(commandCall(command, rest, parts))) ?? EXIT.success;
}

function findCommand(words: readonly string[], commands: readonly Command[]): Command {
  const command = commands.find(({ name }) => name.split(' ').every((word, index) => words[index] === word));
  if (command) return command;
  const given = words
    .slice(0, 2)
    .filter((word) => !word.startsWith('-'))
    .join(' ');
  const names = commands.map(({ name }) => name);
  throw new UsageError(
    `there is no command "${given}".${didYouMean(given, names)} "millrace help" lists the commands`,
  );
}

function commandCall(command: Command, rest: readonly string[], parts: CommandLineParts): CommandCall {
  const { values, positionals } = parse(command, rest);
  const options = { ...values } as Record<string, string | boolean | undefined>;
  for (const name of positionalsOf(command))
    if (positionals.length > 0) options[name] ??= positionals.shift();
  if (positionals.length > 0)
    throw new UsageError(`what is "${positionals[0]}"? See: millrace ${command.name} --help`);
  for (const [name, { required }] of Object.entries(command.options)) {
    if (required && options[name] === undefined) {
      throw new UsageError(`--${name} is missing. See: millrace ${command.name} --help`);
    }
  }
  const flags: Partial<Record<SettingName, string>> = {};
  for (const { name, flag } of settingDescriptions) {
    // An option of the command's own hides a setting of the same name, such as --role of "client create".
    const value = flag in command.options ? undefined : options[flag];
    if (value !== undefined) flags[name] = String(value);
  }
  const settings = resolveSettings(parts.environment, flags, options['config'] as string | undefined);
  return {
    settings,
    option: (name) => options[name] as string | undefined,
    switchedOn: (name) => options[name] === true,
    print: parts.print,
    tell: parts.tell,
    async withRecords(work) {
      const system = await parts.openRecords(settings);
      try {
        return await work(system);
      } finally {
        await system.database.close();
      }
    },
  };
}

function parse(command: Command, rest: readonly string[]) {
  const options: NonNullable<ParseArgsConfig['options']> = { config: { type: 'string' } };
  for (const { flag } of settingDescriptions) options[flag] = { type: 'string' };
  for (const [name, { value }] of Object.entries(command.options)) {
    options[name] = { type: value === undefined ? 'boolean' : 'string' };
  }
  try {
    return parseArgs({ args: [...rest], options, allowPositionals: true, strict: true });
  } catch (error) {
    const unknown = /Unknown option '--?([\w-]+)/.exec((error as Error).message)?.[1];
    if (unknown === undefined) throw new UsageError((error as Error).message);
    throw new UsageError(
      `--${unknown} is not an option of "millrace ${command.name}".${didYouMean(unknown, Object.keys(options))}`,
    );
  }
}

/** Errors whose message says all there is to say; a stack would only frighten. */
function isForPeople(error: unknown): error is Error {
  return (
    error instanceof ServiceError ||
    error instanceof MasterKeyError ||
    error instanceof DatabaseTooNew ||
    error instanceof FileError ||
    isUnavailable(error) ||
    (error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === 'string')
  );
}
