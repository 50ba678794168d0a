import type { Command } from './cli/command.ts';
import { runCommandLine } from './cli/command-line.ts';
import { clientCommands } from './cli/commands/client.ts';
import { keyCommands } from './cli/commands/keys.ts';
import { serveCommand } from './cli/commands/serve.ts';
import { settings } from './cli/commands/settings.ts';
import { userCommands } from './cli/commands/user.ts';
import {
  createLogger,
  masterKeyFile,
  openRecords,
  readMasterKeys,
  startService,
  version,
} from './service.ts';

const commands: Command[] = [
  serveCommand(version, (values) => startService(values, createLogger(values))),
  settings,
  ...clientCommands,
  ...userCommands,
  ...keyCommands({ readMasterKeys, masterKeyFile }),
];

process.exitCode = await runCommandLine(process.argv.slice(2), {
  version,
  commands,
  environment: process.env,
  openRecords: ({ values }) => openRecords(values, createLogger(values)),
  print: (line) => process.stdout.write(`${line}\n`),
  tell: (line) => process.stderr.write(`${line}\n`),
});
