import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cpuSeconds, peakMemoryMib } from '../measure/process-usage.ts';
import { plainEnvironment, ServerProcess } from '../measure/server-process.ts';
import { median, pairwiseRatios } from '../measure/statistics.ts';
import type { BenchOptions, Part, PartReport } from '../part.ts';
import { columns } from './columns.ts';

const PAGE = 1_000;
const MILLRACE = path('../../bin/millrace');
const EXTERNAL_API = path('../../test/support/external-api/main.ts');
const REFERENCE = path('./reference.ts');

interface Run {
  records: number;
  seconds: number;
  cpuSeconds: number;
  /** Of the process and its children, each at its own worst. */
  peakMib: number;
}

export const download: Part = {
  name: 'download',
  description: 'records from a paged API into the embedded store, against a hand-written script',
  async run(options) {
    await using api = await ServerProcess.start(
      process.execPath,
      [EXTERNAL_API, '--keep-requests', '1'],
      plainEnvironment(),
    );
    const sizes = [options.records / 10, options.records];
    const runs: Record<'millrace' | 'reference', Run[]> = { millrace: [], reference: [] };
    const small = await millraceRun(api.url, sizes[0] as number);
    for (let round = 1; round <= options.rounds; round += 1) {
      options.signal.throwIfAborted();
      runs.millrace.push(await millraceRun(api.url, options.records));
      runs.reference.push(await referenceRun(api.url, options.records));
      options.tell(`round ${round}: millrace ${shown(runs.millrace)}, reference ${shown(runs.reference)}`);
    }
    return report(options, runs, small);
  },
};

function shown(runs: readonly Run[]): string {
  const { records, seconds } = runs.at(-1) as Run;
  return `${Math.round(records / seconds)} records/s`;
}

/** A fresh service with a fresh folder each time; the job's own clock is not asked, but ours. */
async function millraceRun(apiUrl: string, records: number): Promise<Run> {
  const data = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
  try {
    const created = await output(MILLRACE, ['client', 'create', '--name', 'bench', '--json', '--data', data]);
    const { client_id, client_secret } = JSON.parse(created) as Record<string, string>;
    await using service = await ServerProcess.start(
      MILLRACE,
      ['serve', '--data', data, '--port', '0'],
      plainEnvironment(),
    );
    const grant = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id,
      client_secret,
    } as Record<string, string>);
    const token = (await post(`${service.url}/api/v1/oauth2/token`, grant)) as { access_token: string };
    const headers = { authorization: `Bearer ${token.access_token}`, 'content-type': 'application/json' };
    await post(`${service.url}/api/v1/applications`, JSON.stringify({ appId: 'bench' }), headers);
    const start = performance.now();
    const before = await usage(service.pid);
    await post(`${service.url}/api/v1/executeJob`, JSON.stringify(job(apiUrl, records)), headers);
    const seconds = (performance.now() - start) / 1000;
    const after = await usage(service.pid);
    return { records, seconds, cpuSeconds: after.cpuSeconds - before.cpuSeconds, peakMib: after.peakMib };
  } finally {
    await rm(data, { recursive: true, force: true });
  }
}

function job(apiUrl: string, records: number) {
  return {
    appId: 'bench',
    responseFormat: 'json',
    operation: {
      opName: 'HTTPRequest',
      opParams: {
        request: { url: `${apiUrl}/huge?records=${records}&size=${PAGE}`, method: 'GET' },
        target: {
          action: 'parse JSON',
          table: 'orders',
          model: { columns: columns.map((column, position) => ({ ...column, position })) },
          parsingScript: `
            const { items, next } = $ctx.response.body;
            return { data: [{ data: items }], doWhile: next === null ? false : { url: next } };`,
        },
      },
    },
  };
}

async function referenceRun(apiUrl: string, records: number): Promise<Run> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
  try {
    const start = performance.now();
    const args = [
      REFERENCE,
      `${apiUrl}/huge?records=${records}&size=${PAGE}`,
      join(folder, 'reference.sqlite'),
    ];
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
      stdio: 'ignore',
    });
    let last = { cpuSeconds: 0, peakMib: 0 };
    // Its figures are gone with the process: the last look before its end counts.
    const looking = setInterval(
      () =>
        void usage(child.pid as number).then(
          (seen) => (last = seen),
          () => {},
        ),
      100,
    );
    const [code] = (await once(child, 'exit')) as [number];
    clearInterval(looking);
    if (code !== 0) throw new Error(`the reference ended with ${code}`);
    return { records, seconds: (performance.now() - start) / 1000, ...last };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Of a process with all its descendants: the sandbox runs in children of the service. */
async function usage(pid: number): Promise<{ cpuSeconds: number; peakMib: number }> {
  const all = [pid, ...(await descendants(pid))];
  const each = await Promise.all(
    all.map(async (one) => [await cpuSeconds(one), await peakMemoryMib(one)] as const),
  );
  return {
    cpuSeconds: each.reduce((sum, [cpu]) => sum + cpu, 0),
    peakMib: each.reduce((sum, [, peak]) => sum + peak, 0),
  };
}

async function descendants(pid: number): Promise<number[]> {
  const tasks = await readdir(`/proc/${pid}/task`);
  const lists = await Promise.all(
    tasks.map((task) => readFile(`/proc/${pid}/task/${task}/children`, 'utf8')),
  );
  const children = lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
  return [...children, ...(await Promise.all(children.map(descendants))).flat()];
}

function report(
  { records }: BenchOptions,
  runs: Record<'millrace' | 'reference', Run[]>,
  small: Run,
): PartReport {
  const rate = ({ records: count, seconds }: Run) => count / seconds;
  const rows = Object.entries(runs).map(([name, all]) => [
    name,
    Math.round(median(all.map(rate))).toLocaleString('en'),
    median(all.map((run) => (run.cpuSeconds * 1e6) / run.records)).toFixed(1),
    Math.round(Math.max(...all.map(({ peakMib }) => peakMib))).toString(),
  ]);
  const ratio = pairwiseRatios(runs.millrace.map(rate), runs.reference.map(rate));
  const peak = Math.max(...runs.millrace.map(({ peakMib }) => peakMib));
  return {
    title: 'Download into the embedded store',
    sections: [
      {
        title: `${records.toLocaleString('en')} records in pages of ${PAGE.toLocaleString('en')}, a transaction a page`,
        columns: ['median of the rounds', 'records/s', 'CPU us/record', 'peak memory MiB'],
        rows,
        notes: [
          `millrace : reference, round by round: ${ratio.median.toFixed(2)} (${ratio.least.toFixed(2)} to ${ratio.most.toFixed(2)}).`,
          'CPU and memory of millrace are those of all its processes, the sandbox included; memory is the sum of their peaks.',
          `Peak memory of millrace at ${small.records.toLocaleString('en')} records: ${Math.round(small.peakMib)} MiB; ` +
            `ten times the records take ${(peak / small.peakMib).toFixed(2)} times of it.`,
        ],
      },
    ],
    measurements: { ...runs, small },
  };
}

async function post(
  url: string,
  body: string | URLSearchParams,
  headers: Record<string, string> = {},
): Promise<unknown> {
  const response = await fetch(url, { method: 'POST', body, headers, signal: AbortSignal.timeout(600_000) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return JSON.parse(text);
}

async function output(command: string, args: string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], env: plainEnvironment() });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  const [code] = (await once(child, 'close')) as [number];
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  return Buffer.concat(chunks).toString();
}

function path(relative: string): string {
  return fileURLToPath(new URL(relative, import.meta.url));
}
