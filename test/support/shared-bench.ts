import { after, before } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { startJobBench, type JobBench } from './jobs.ts';
import type { Answer } from './service.ts';

export interface SharedBench extends JobBench {
  /** GET, and a Parsing script; `rest` goes over the usual request and target. */
  parse(script: string, rest?: ParseOptions): Promise<Answer>;
  setVariable(name: string, value: unknown): Promise<void>;
  variable(name: string): Promise<unknown>;
  columns(table: string, space?: string): Promise<{ name: string; type: string }[] | undefined>;
}

export interface ParseOptions {
  /** A path of the fake API, or a URL. */
  url?: string;
  request?: Record<string, unknown>;
  target?: Record<string, unknown>;
  sourceTable?: Record<string, unknown>;
}

type BenchOptions = Parameters<typeof startJobBench>[1];

/** One service and one fake API for all tests of a suite: each test has tables of its own. */
export function sharedBench(options: BenchOptions = {}): () => SharedBench {
  let shared: SharedBench | undefined;
  const endings: (() => unknown)[] = [];
  before(async () => {
    const test = { after: (end: () => unknown) => void endings.push(end) };
    shared = withMore(await startJobBench(test as never, options));
  });
  after(async () => {
    for (const end of endings) await end();
  });
  return () => shared as SharedBench;
}

function withMore(bench: JobBench): SharedBench {
  const { api, app, run } = bench;
  return {
    ...bench,
    parse: (parsingScript, { url = '/empty', request, target, sourceTable } = {}) =>
      run({
        ...(sourceTable && { sourceTable }),
        request: { url: url.startsWith('/') ? api.url + url : url, method: 'GET', ...request },
        target: { action: 'parse JSON', parsingScript, ...target },
      }),
    async setVariable(name, value) {
      await app('PUT', `/variables/${encodeURIComponent(name)}`, { name, value });
    },
    async variable(name) {
      const { status, body } = await app('GET', `/variables/${encodeURIComponent(name)}`);
      return status === 404 ? undefined : body.result.value;
    },
    async columns(table, space = 'main') {
      const { body } = await app('GET', '/tables');
      const tables = body.result as { space: string; table: string; columns: never[] }[];
      return tables.find((found) => found.space === space && found.table === table)?.columns;
    },
  };
}

/** The error of a job that had to fail. */
export function failure(answer: Answer): { code: string; message: string; [more: string]: unknown } {
  if (answer.status < 400) throw new Error(`the job should have failed: ${answer.text}`);
  return answer.body.result;
}

const PATIENCE_MS = 10_000;

/** Tries until the check no longer throws: for what happens a moment later than what a test can see. */
export async function eventually(check: () => unknown): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await delay(10);
  }
}
