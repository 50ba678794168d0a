import { existsSync } from 'node:fs';
import { ServiceError } from '../../model/errors.ts';
import type { Job, JobEvent, JobStats } from '../../model/job.ts';
import { didYouMean } from '../../model/did-you-mean.ts';
import { jsonOption, type Command, type CommandCall, type Engine } from '../command.ts';
import { readValue, whileReading } from '../documents.ts';
import { References } from '../references.ts';

const EXIT = { succeeded: 0, failed: 1, cancelled: 3 } as const;
const REFRESH_MS = 500;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** `millrace run`: one HTTPRequest in this process, with a line that shows how far it is. */
export function runCommand(
  withEngine: <Result>(call: CommandCall, work: (engine: Engine) => Promise<Result>) => Promise<Result>,
): Command {
  return {
    name: 'run',
    summary:
      'Run a saved request, or one from a file: APP_ID NAME_OR_FILE; ends with 0, 1 (failed) or 3 (cancelled)',
    positional: ['application', 'request'],
    options: {
      application: { description: 'The appId', value: 'APP_ID', required: true },
      request: {
        description: 'A saved request, or a YAML or JSON file with opParams',
        value: 'NAME_OR_FILE',
        required: true,
      },
      ...jsonOption,
    },
    async run(call) {
      return withEngine(call, async (engine) => {
        const appId = call.option('application') as string;
        await engine.system.applications.get(appId);
        const jobId = await submit(engine, appId, call.option('request') as string);
        const job = await follow(engine, jobId, call);
        report(call, job);
        return EXIT[job.state as keyof typeof EXIT];
      });
    },
  };
}

/** A saved request of this name, else the file. */
async function submit({ system, runner }: Engine, appId: string, given: string): Promise<string> {
  const submitted = async (opParams: unknown) => {
    const job = { appId, clientId: 'command line', username: null, idempotency: null };
    return (await runner.submit({ ...job, opName: 'HTTPRequest', opParams })).jobId;
  };
  const saved = await system.saved.requests.get(appId, given);
  if (saved) return submitted(withoutName(saved));
  if (existsSync(given)) {
    const opParams = withoutName(await readValue(given, new References(process.env)));
    return whileReading(given, () => submitted(opParams));
  }
  const known = await system.definitions.names(appId, 'request');
  throw new ServiceError(
    'not_found',
    `"${given}" is no saved request of ${appId}, and no file.${didYouMean(given, known)} Saved: ${known.join(', ') || 'none'}`,
  );
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
      const events = await system.jobs.events(jobId, { after, limit: 1000 });
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
  const { tables = [], files = [] } = (job.output ?? {}) as {
    tables?: { source: string; space: string; table: string; records: number }[];
    files?: { space: string; name: string; bytes: number }[];
  };
  for (const { source, space, table, records: rows } of tables)
    call.print(`  ${source}/${space}/${table}: ${rows} records`);
  for (const { space, name, bytes } of files)
    call.print(`  file ${space ? `${space}/` : ''}${name}: ${bytes} bytes`);
  if (job.error) call.tell(`millrace: ${job.error.code}: ${job.error.message}`);
}
