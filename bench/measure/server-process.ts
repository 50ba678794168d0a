import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 30_000;
const STDERR_KEPT = 4_000;

/** A server in a process of its own, which said on its standard output where it listens. */
export class ServerProcess implements AsyncDisposable {
  readonly pid: number;
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.pid = child.pid as number;
    this.url = url;
  }

  static async start(
    command: string,
    args: string[],
    environment: NodeJS.ProcessEnv = {},
  ): Promise<ServerProcess> {
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...plainEnvironment(), ...environment },
    });
    let complaints = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaints = (complaints + text).slice(-STDERR_KEPT);
    });
    try {
      return new ServerProcess(child, await listeningUrl(child));
    } catch (cause) {
      child.kill('SIGKILL');
      throw new Error(`${[command, ...args].join(' ')} did not start: ${complaints.trim()}`, { cause });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    const killing = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(killing);
  }
}

/** Default settings on all sides: what this shell happens to set must not decide. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('MILLRACE_') && name !== 'NODE_OPTIONS',
  );
  return { ...Object.fromEntries(inherited), NODE_ENV: 'production' };
}

async function listeningUrl(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const tooLong = setTimeout(() => reject(new Error('it did not say where it listens')), START_TIMEOUT_MS);
    let said = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (said.length > 10_000) return;
      said += text;
      const url = /(?:listens|API) on (http:\S+)\s/.exec(said)?.[1];
      if (url === undefined) return;
      clearTimeout(tooLong);
      resolve(url);
    });
    child.once('error', (error) => {
      clearTimeout(tooLong);
      reject(error);
    });
    child.once('exit', (code) => {
      clearTimeout(tooLong);
      reject(new Error(`it ended with the exit code ${code}`));
    });
  });
}
