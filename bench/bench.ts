/** `npm run bench [part…]`: runs the named parts, or all, and writes what they found into results/. */
import { parseArgs } from 'node:util';
import type { BenchOptions, Part } from './part.ts';
import { describeEnvironment, markdown, save } from './report.ts';
import { download } from './download/download.ts';
import { queues } from './queues/queues.ts';
import { tokens } from './tokens/tokens.ts';

const parts: readonly Part[] = [tokens, download, queues];

const options = {
  rounds: { type: 'string', default: '5' },
  seconds: { type: 'string', default: '4' },
  warmup: { type: 'string', default: '8' },
  connections: { type: 'string', default: '64' },
  records: { type: 'string', default: '1000000' },
  results: { type: 'string', default: new URL('./results', import.meta.url).pathname },
  help: { type: 'boolean', default: false },
} as const;

class UsageError extends Error {
  override readonly name = 'UsageError';
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) {
    console.error(`${error.message}\n\n${help()}`);
    process.exitCode = 2;
  } else if (error instanceof Error && error.name === 'AbortError') {
    console.error('stopped early: no results');
    process.exitCode = 130;
  } else throw error;
}

async function main(args: string[]): Promise<void> {
  const { values, positionals } = readArguments(args);
  if (values.help) {
    console.log(help());
    return;
  }
  const chosen = positionals.length > 0 ? positionals.map(partNamed) : parts;
  const benchOptions: BenchOptions = {
    rounds: atLeast('rounds', values.rounds, 1),
    seconds: atLeast('seconds', values.seconds, 0.5),
    warmupSeconds: atLeast('warmup', values.warmup, 0.5),
    connections: atLeast('connections', values.connections, 1),
    records: atLeast('records', values.records, 10_000),
    signal: stopSignal(),
    tell: (line) => console.error(line),
  };
  for (const part of chosen) {
    const environment = await describeEnvironment(benchOptions);
    const report = await part.run(benchOptions);
    await save(values.results, part, report, environment);
    console.log(markdown(report, environment));
  }
}

function readArguments(args: string[]) {
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function partNamed(name: string): Part {
  const part = parts.find((known) => known.name === name);
  if (!part) {
    throw new UsageError(
      `there is no part "${name}"; there are: ${parts.map(({ name }) => name).join(', ')}`,
    );
  }
  return part;
}

function atLeast(
  name: 'rounds' | 'seconds' | 'warmup' | 'connections' | 'records',
  text: string,
  least: number,
): number {
  const value = Number(text);
  const whole = name !== 'seconds' && name !== 'warmup';
  if (!Number.isFinite(value) || value < least || (whole && !Number.isInteger(value))) {
    throw new UsageError(
      `--${name} must be a ${whole ? 'whole ' : ''}number of at least ${least}, not "${text}"`,
    );
  }
  return value;
}

/** The servers are stopped and the folders removed then, too. */
function stopSignal(): AbortSignal {
  const aborter = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => aborter.abort());
  return aborter.signal;
}

function help(): string {
  return [
    'npm run bench -- [part…] [--rounds 5] [--seconds 4] [--warmup 8] [--connections 64] [--records 1000000] [--results bench/results]',
    '',
    'Parts (all of them where none is named):',
    ...parts.map(({ name, description }) => `  ${name.padEnd(10)} ${description}`),
  ].join('\n');
}
