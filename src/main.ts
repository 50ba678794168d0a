import type { Command, CommandCall, Engine } from './cli/command.ts';
import { runCommandLine } from './cli/command-line.ts';
import { applyCommand } from './cli/commands/apply.ts';
import { clientCommands } from './cli/commands/client.ts';
import { exportApplication } from './cli/commands/export.ts';
import { fileCommands } from './cli/commands/file.ts';
import { keyCommands } from './cli/commands/keys.ts';
import { runCommand } from './cli/commands/run.ts';
import { schema } from './cli/commands/schema.ts';
import { serveCommand } from './cli/commands/serve.ts';
import { settings } from './cli/commands/settings.ts';
import { tableCommand } from './cli/commands/table.ts';
import { userCommands } from './cli/commands/user.ts';
import { masterKeyFile, openEngine, openRecords, readMasterKeys } from './engine.ts';
import { createLogger, startService, version } from './service.ts';

const commands: Command[] = [
  serveCommand(version, (values) => startService(values, createLogger(values))),
  settings,
  applyCommand(withEngine),
  exportApplication,
  schema,
  runCommand(withEngine),
  tableCommand(withEngine),
  ...fileCommands(withEngine),
  ...clientCommands,
  ...userCommands,
  ...keyCommands({ readMasterKeys, masterKeyFile }),
];

// Whoever reads the result may have enough of it, such as `head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

process.exitCode = await runCommandLine(process.argv.slice(2), {
  version,
  commands,
  environment: process.env,
  openRecords: ({ values }) => openRecords(values, createLogger(values)),
  print: (line) => process.stdout.write(`${line}\n`),
  tell: (line) => process.stderr.write(`${line}\n`),
});

async function withEngine<Result>(
  call: CommandCall,
  work: (engine: Engine) => Promise<Result>,
): Promise<Result> {
  const { values } = call.settings;
  const logger = createLogger({ ...values, logLevel: 'warn' });
  // What others left is the service's matter.
  const engine = await openEngine(values, logger, { takesOver: false });
  try {
    return await work(engine);
  } finally {
    await engine.stop(AbortSignal.abort());
  }
}
