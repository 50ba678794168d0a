import { settingDescriptions } from '../settings.ts';
import { positionalsOf, table, type Command } from './command.ts';

const places = ['data', 'database', 'config'];

export function overview(commands: readonly Command[]): string[] {
  return [
    'millrace: draws records out of HTTP APIs into tables, and sends table records to HTTP APIs',
    '',
    'Usage: millrace <command> [options]',
    '',
    ...table(commands.map(({ name, summary }) => [`  ${name}`, summary])),
    '',
    'Options of every command:',
    ...table(commonOptions()),
    '',
    'millrace <command> --help says more; millrace settings lists all settings.',
    'Exit codes: 0 success, 1 failure, 2 wrong use, 3 cancelled.',
  ];
}

export function commandHelp(command: Command): string[] {
  const words = positionalsOf(command).map((name) => ` ${name.toUpperCase().replaceAll('-', '_')}`);
  const options = Object.entries(command.options).map(([name, { description, value, required }]) => [
    `  --${name}${value ? ` ${value}` : ''}`,
    description + (required ? ' (required)' : ''),
  ]);
  return [
    `millrace ${command.name}: ${command.summary}`,
    '',
    `Usage: millrace ${command.name}${words.join('')} [options]`,
    '',
    ...table([...options, ...commonOptions()]),
    '',
    'Every setting of "millrace settings" is an option, too.',
  ];
}

function commonOptions(): string[][] {
  const described = settingDescriptions
    .filter(({ name }) => places.includes(name))
    .map(({ flag, description }) => [`  --${flag} ${flag === 'data' ? 'DIR' : 'URL'}`, description]);
  return [
    ...described,
    ['  --config FILE', 'A JSON file of settings by name (also MILLRACE_CONFIG)'],
    ['  --help', 'Explain the command'],
  ];
}
