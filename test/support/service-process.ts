import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { sqlitePlace } from './databases.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The program as users start it. */
export const millraceProgram = join(ROOT, 'bin/millrace');

/** The environment without settings of whoever runs the tests. */
function cleanEnvironment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('MILLRACE_'));
  return { ...Object.fromEntries(kept), ...more };
}

export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs one command of the command line to its end. */
export async function millrace(
  args: readonly string[],
  { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {},
): Promise<CommandResult> {
  const child = spawn(millraceProgram, args, { env: cleanEnvironment(env), cwd: ROOT });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (output.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (output.stderr += String(chunk)));
  child.stdin.on('error', () => {}); // a command that reads no input may end before it is written
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...output };
}

export interface ServiceProcess {
  url: string;
  child: ChildProcess;
  /** What it has printed so far. */
  output: { stdout: string; stderr: string };
  /** Creates a client by the command line, once, and gives its id and secret. */
  client(): Promise<{ client_id: string; client_secret: string }>;
  form(body: string): Promise<Response>;
  /** The longest delay of the event loop since the last question, from the service's own metrics. */
  eventLoopLagMs(): Promise<number>;
}

/** Starts the service as a process of its own; it is gone when the test is over. */
export async function spawnService(
  t: TestContext,
  { data, args = [], env = {} }: { data?: string; args?: string[]; env?: Record<string, string> } = {},
): Promise<ServiceProcess> {
  const place = data === undefined ? await sqlitePlace() : undefined;
  const folder = data ?? place?.data ?? '';
  const child = spawn(millraceProgram, ['serve', '--data', folder, '--port', '0', ...args], {
    env: cleanEnvironment(env),
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stderr.on('data', (chunk) => (output.stderr += String(chunk)));
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await place?.remove();
  });
  const url = await listening(child, output);
  let client: Promise<{ client_id: string; client_secret: string }> | undefined;
  const form = (body: string) =>
    fetch(`${url}/api/v1/oauth2/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body,
    });
  const createClient = async () => {
    const cheapHashing = ['--argon2-memory-kib', '64', '--argon2-passes', '1'];
    const options = ['--name', 'test', '--role', 'administrator', '--json', '--data', folder];
    const { stdout } = await millrace(['client', 'create', ...options, ...cheapHashing]);
    return JSON.parse(stdout) as { client_id: string; client_secret: string };
  };
  const theClient = () => (client ??= createClient());
  return {
    url,
    child,
    output,
    client: theClient,
    form,
    async eventLoopLagMs() {
      const grant = new URLSearchParams({ grant_type: 'client_credentials', ...(await theClient()) });
      const { access_token } = (await (await form(grant.toString())).json()) as { access_token: string };
      const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${access_token}` } });
      const found = /^millrace_nodejs_eventloop_lag_max_seconds (\S+)/m.exec(await metrics.text());
      return Number(found?.[1]) * 1000;
    },
  };
}

async function listening(child: ChildProcess, output: { stdout: string; stderr: string }): Promise<string> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const found = new Promise<string>((resolve) => {
    lines.on('line', (line) => {
      output.stdout += `${line}\n`;
      const url = /listens on (\S+)/.exec(line)?.[1];
      if (url) resolve(url);
    });
  });
  const ended = once(child, 'exit').then(() => {
    throw new Error(`the service ended before it listened: ${output.stderr}`);
  });
  return Promise.race([found, ended]);
}
