import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

const ROOT = join(import.meta.dirname, '..');
const MILLRACE = join(ROOT, 'bin/millrace');
const EXTERNAL_API = join(ROOT, 'test/support/external-api/main.ts');

export interface Started {
  url: string;
  stop(): Promise<void>;
}

export function startMillrace(args: readonly string[]): Promise<Started> {
  return started(spawn(MILLRACE, args, { stdio: ['ignore', 'pipe', 'ignore'] }), /listens on (\S+)/);
}

/** A small shop with a JSON API behind OAuth; the tests use it, too. */
export function startShop(): Promise<Started> {
  return started(
    spawn(process.execPath, [EXTERNAL_API], { stdio: ['ignore', 'pipe', 'inherit'] }),
    /API on (\S+)/,
  );
}

/** Runs one command to its end and gives what it printed. */
export async function millrace(
  args: readonly string[],
  { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {},
): Promise<string> {
  const child = spawn(MILLRACE, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  child.stdin.end(input);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (code !== 0) throw new Error(`millrace ${args.join(' ')} ended with ${code}`);
  return output.trimEnd();
}

async function started(child: ChildProcess, line: RegExp): Promise<Started> {
  const exited = once(child, 'exit');
  const ended = exited.then(() => {
    throw new Error(`${child.spawnfile} ended before it was ready`);
  });
  const url = await Promise.race([urlIn(child, line), ended]);
  ended.catch(() => undefined); // from here on its end is expected
  return {
    url,
    async stop() {
      if (child.exitCode !== null) return;
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function urlIn(child: ChildProcess, pattern: RegExp): Promise<string> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  for await (const line of lines) {
    const url = pattern.exec(line)?.[1];
    if (url) return url;
  }
  throw new Error(`${child.spawnfile} did not say where it listens`);
}
