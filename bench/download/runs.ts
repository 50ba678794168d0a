import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ProcessTree, type ProcessFigures } from '../measure/process-tree.ts';
import { plainEnvironment, ServerProcess } from '../measure/server-process.ts';
import { columns } from './columns.ts';

export const PAGE = 1_000;
const MILLRACE = path('../../bin/millrace');
const REFERENCE = path('./reference.ts');
const DEADLINE_MS = 1_800_000;

export interface Run {
  records: number;
  seconds: number;
  processes: ProcessFigures[];
}

/** A fresh service with a fresh folder each time; the job's own clock is not asked, but ours. */
export async function millraceRun(apiUrl: string, records: number): Promise<Run> {
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
    await using tree = await ProcessTree.watch(service.pid);
    const start = performance.now();
    await post(`${service.url}/api/v1/executeJob`, JSON.stringify(job(apiUrl, records)), headers);
    return { records, seconds: (performance.now() - start) / 1000, processes: await tree.figures() };
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

export async function referenceRun(apiUrl: string, records: number): Promise<Run> {
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
    const exit = once(child, 'exit') as Promise<[number]>;
    await using tree = await ProcessTree.watch(child.pid as number);
    const [code] = await exit;
    const seconds = (performance.now() - start) / 1000;
    if (code !== 0) throw new Error(`the reference ended with ${code}`);
    return { records, seconds, processes: await tree.figures() };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function post(
  url: string,
  body: string | URLSearchParams,
  headers: Record<string, string> = {},
): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    body,
    headers,
    signal: AbortSignal.timeout(DEADLINE_MS),
  });
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
