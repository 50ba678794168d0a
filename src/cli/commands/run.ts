import { existsSync } from 'node:fs';
import { ServiceError } from '../../model/errors.ts';
import type { Job, JobEvent, JobStats } from '../../model/job.ts';
import { didYouMean } from '../../model/did-you-mean.ts';
import { jsonOption, UsageError, type Command, type CommandCall, type Engine } from '../command.ts';
import { readValue, whileReading } from '../documents.ts';
import { RUN_SCENARIO, StepsOutput } from '../../model/scenario.ts';
import { References } from '../references.ts';

const EXIT = { succeeded: 0, failed: 1, cancelled: 3 } as const;
const REFRESH_MS = 500;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** `millrace run`: one job in this process, with a line that shows how far it is. */
export function runCommand(
  withEngine: <Result>(call: CommandCall, work: (engine: Engine) => Promise<Result>) => Promise<Result>,
): Command {
  return {
    name: 'run',
    summary:
      'Run a saved request or scenario, or a request from a file; ends with 0, 1 (failed) or 3 (cancelled)',
    positional: ['application', 'name'],
    options: {
      application: { description: 'The appId', value: 'APP_ID', required: true },
      name: {
        description:
          'A saved request, else a scenario, else a YAML or JSON file with opParams of HTTPRequest',
        value: 'NAME_OR_FILE',
        required: true,
      },
      parameters: { description: 'Of the scenario NAME: an object of name and value', value: 'JSON' },
      input: {
        description: 'A YAML or JSON file with the data of the scenario NAME: records',
        value: 'FILE',
      },
      ...jsonOption,
    },
    async run(call) {
      return withEngine(call, async (engine) => {
        await engine.runner.start();
        const appId = call.option('application') as string;
        await engine.system.applications.get(appId);
        const jobId = await submit(engine, appId, call);
        const job = await follow(engine, jobId, call);
        report(call, job);
        return EXIT[job.state as keyof typeof EXIT];
      });
    },
  };
}

/** A saved request of this name, else a scenario, else the file. What only a scenario has asks for one. */
async function submit({ system, runner }: Engine, appId: string, call: CommandCall): Promise<string> {
  const { saved, definitions } = system;
  const given = call.option('name') as string;
  const submitted = async (opName: string, opParams: unknown) => {
    const job = { appId, clientId: 'command line', username: null, idempotency: null };
    return (await runner.submit({ ...job, opName, opParams })).jobId;
  };
  const asScenario = await scenarioParams(call);
  const request = asScenario ? null : await saved.requests.get(appId, given);
  if (request) return submitted('HTTPRequest', withoutName(request));
  if (asScenario || (await saved.scenarios.get(appId, given)))
    return submitted(RUN_SCENARIO, { scenario: given, ...asScenario });
  if (existsSync(given)) {
    const opParams = withoutName(await readValue(given, new References(process.env)));
    return whileReading(given, () => submitted('HTTPRequest', opParams));
  }
  const [requests, scenarios] = await Promise.all([
    definitions.names(appId, 'request'),
    definitions.names(appId, 'scenario'),
  ]);
  const known = [...requests, ...scenarios];
  throw new ServiceError(
    'not_found',
    `"${given}" is no saved request or scenario of ${appId}, and no file.${didYouMean(given, known)} Saved: ${known.join(', ') || 'none'}`,
  );
}

async function scenarioParams(call: CommandCall): Promise<Record<string, unknown> | null> {
  const [parameters, input] = [call.option('parameters'), call.option('input')];
  if (parameters === undefined && input === undefined) return null;
  return {
    ...(parameters !== undefined && { parameters: parsedParameters(parameters) }),
    ...(input !== undefined && { data: await readValue(input) }),
  };
}

function parsedParameters(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`--parameters: not JSON: ${(error as Error).message}`);
  }
}

function withoutName(request: unknown): unknown {
  if (typeof request !== 'object' || request === null) return request;
  const { name: _, ...opParams } = request as Record<string, unknown>;
  return opParams;
}

/** Ctrl+C cancels after the page that is under way, a second one at once. */
async function follow({ system, runner }: Engine, jobId: string, call: CommandCall): Promise<Job> {
  const cancel = () => {
    call.tell('millrace: cancelling after this page; once more: at once');
    runner.cancel(jobId).catch((error: Error) => call.tell(`millrace: not cancelled: ${error.message}`));
  };
  for (const signal of SIGNALS) process.on(signal, cancel);
  const progress = new Progress(call);
  let after = 0;
  try {
    for (;;) {
      const job = await runner.settled(jobId, REFRESH_MS);
      const events = await system.jobs.history.events(jobId, { after, limit: 1000 });
      after = events.at(-1)?.n ?? after;
      progress.show(job.stats, events);
      if (job.endedAt !== null) return job;
    }
  } finally {
    progress.end();
    for (const signal of SIGNALS) process.off(signal, cancel);
  }
}

/** A line that is written over where there is a terminal; log lines of the job above it. */
class Progress {
  readonly #call: CommandCall;
  readonly #terminal = process.stderr.isTTY;
  readonly #startedAt = Date.now();

  constructor(call: CommandCall) {
    this.#call = call;
  }

  show(stats: JobStats, events: readonly JobEvent[]): void {
    for (const { type, data } of events) {
      if (type === 'log') this.#line(`${data['level'] as string}: ${data['text'] as string}`);
    }
    if (!this.#terminal) return;
    const width = process.stderr.columns || 80; // some terminals say 0
    process.stderr.write(`\r\x1b[K${this.#text(stats).slice(0, width - 1)}`);
  }

  end(): void {
    if (this.#terminal) process.stderr.write('\r\x1b[K');
  }

  #text({ pages, records, bytes, sourceRecords, total }: JobStats): string {
    const seconds = Math.max(0.001, (Date.now() - this.#startedAt) / 1000);
    const share = total !== null && total > 0 ? `, ${Math.floor((100 * sourceRecords) / total)} %` : '';
    const rate = Math.round(records / seconds);
    return `${pages} pages, ${records} records, ${rate} records/s, ${(bytes / 1e6).toFixed(1)} MB${share}`;
  }

  #line(text: string): void {
    if (this.#terminal) process.stderr.write('\r\x1b[K');
    // What a script wrote may hold anything, also commands for the terminal.
    this.#call.tell(text.replaceAll(/[^\P{Cc}\n\t]/gu, '·'));
  }
}

function report(call: CommandCall, job: Job): void {
  if (call.switchedOn('json')) {
    call.print(JSON.stringify(job));
    return;
  }
  const { pages, records, durationMs } = job.stats;
  call.print(
    `${job.state}: ${pages} pages, ${records} records in ${(durationMs / 1000).toFixed(1)} s (job ${job.jobId})`,
  );
  if (job.opName === RUN_SCENARIO) printSteps(call, job.output);
  else printTargets(call, '  ', job.output);
  if (job.error) call.tell(`millrace: ${job.error.code}: ${job.error.message}`);
}

interface Targets {
  tables?: { source: string; space: string; table: string; records: number }[];
  files?: { space: string; name: string; bytes: number }[];
}

function printTargets(call: CommandCall, indent: string, output: unknown): void {
  const { tables = [], files = [] } = (output ?? {}) as Targets;
  for (const { source, space, table, records } of tables)
    call.print(`${indent}${source}/${space}/${table}: ${records} records`);
  for (const { space, name, bytes } of files)
    call.print(`${indent}file ${space ? `${space}/` : ''}${name}: ${bytes} bytes`);
}

/** What the steps have brought; else, by its own script, what the scenario has to say. */
function printSteps(call: CommandCall, output: unknown): void {
  const { data } = StepsOutput.safeParse(output);
  if (!data) {
    if (output !== null)
      call.print(`  output: ${typeof output === 'string' ? output : JSON.stringify(output)}`);
    return;
  }
  for (const { name, state, pages, records, error, ...targets } of data.steps) {
    const counts = state === 'skipped' ? '' : `, ${pages} pages, ${records} records`;
    call.print(`  ${name}: ${state}${counts}${error ? ` (${error.code}: ${error.message})` : ''}`);
    printTargets(call, '    ', targets);
  }
}
