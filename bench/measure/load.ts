import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

export interface LoadRequest {
  url: string;
  method: 'GET' | 'POST';
  headers: Record<string, string>;
  body?: string;
  connections: number;
  seconds: number;
}

export interface LoadAnswer {
  /** Answers with a 2xx status. */
  answers: number;
  refused: number;
  failed: number;
  seconds: number;
  latencyMs: { p50: number; p99: number };
}

/** One process for the whole run, so that all servers are driven by the same warm code. */
export class LoadGenerator implements AsyncDisposable {
  readonly #child: ChildProcess = fork(new URL('./load-process.ts', import.meta.url), {
    execArgv: ['--disable-warning=ExperimentalWarning'],
  });

  get pid(): number {
    return this.#child.pid as number;
  }

  /** Throws unless every single answer is a 2xx: a fast refusal is not throughput. */
  async drive(request: LoadRequest, signal: AbortSignal): Promise<LoadAnswer> {
    this.#child.send(request);
    const ended = new AbortController();
    const either = { signal: AbortSignal.any([signal, ended.signal]) };
    const exit = once(this.#child, 'exit', either).then(() => {
      throw new Error('the load generator ended');
    });
    try {
      const [answer] = (await Promise.race([once(this.#child, 'message', either), exit])) as [LoadAnswer];
      if (answer.answers === 0 || answer.refused > 0 || answer.failed > 0) {
        throw new Error(
          `${request.method} ${request.url}: ${answer.answers} answers with 2xx, ${answer.refused} with another ` +
            `status, ${answer.failed} failed or timed out`,
        );
      }
      return answer;
    } finally {
      ended.abort();
      await Promise.allSettled([exit]);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }
}
