import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { sqlitePlace } from './databases.ts';
import { startExternalApi, type ExternalApi } from './external-api.ts';
import { millrace, millraceProgram, type CommandResult } from './service-process.ts';

export interface CommandLinePlace {
  data: string;
  api: ExternalApi;
  /** Runs a command on the data folder. */
  run(...args: string[]): Promise<CommandResult>;
  write(name: string, text: string): Promise<string>;
  /** As a shell in a terminal would start it: a process group of its own. */
  start(...args: string[]): Started;
}

export interface Started {
  output: { stdout: string; stderr: string };
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** To all processes of the group, as a terminal does it. */
  interrupt(): void;
}

/** A data folder with an application `shop` and a saved request `orders`, and the fake external API. */
export async function commandLinePlace(t: TestContext, orders = 250): Promise<CommandLinePlace> {
  const { data, remove } = await sqlitePlace();
  t.after(remove);
  const api = await startExternalApi(t, { orders });
  const run = (...args: string[]) => millrace([...args, '--data', data]);
  const write = async (name: string, text: string) => {
    const file = join(data, name);
    await writeFile(file, text);
    return file;
  };
  const application = await write(
    'shop.yaml',
    JSON.stringify({ application: 'shop', requests: [{ name: 'orders', ...ordersByPage(api.url) }] }),
  );
  const { code, stderr } = await run('apply', application);
  if (code !== 0) throw new Error(stderr);
  return { data, api, run, write, start: (...args) => start(t, [...args, '--data', data]) };
}

export function ordersByPage(url: string, script = ''): { request: unknown; target: unknown } {
  return {
    request: {
      url: `${url}/orders/by-page?size=50`,
      method: 'GET',
      parameters: 'return { page: $ctx.variables.page || 1 };',
    },
    target: {
      action: 'parse JSON',
      table: 'orders',
      parsingScript: `${script}
        const { items, page, pages } = $ctx.response.body;
        return {
          data: [{ data: items.map(({ id, status, amount }) => ({ id, status, amount })) }],
          variables: { page: { value: page + 1, scope: 'executionContext' } },
          doWhile: page < pages,
        };`,
    },
  };
}

function start(t: TestContext, args: string[]): Started {
  const child = spawn(millraceProgram, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (output.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (output.stderr += String(chunk)));
  const ended = once(child, 'close').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
  }));
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  });
  return { output, ended, interrupt: () => process.kill(-(child.pid as number), 'SIGINT') };
}
