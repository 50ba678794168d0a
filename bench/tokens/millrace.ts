import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { plainEnvironment, ServerProcess } from '../measure/server-process.ts';

const program = fileURLToPath(new URL('../../bin/millrace', import.meta.url));

export interface ClientCredentials {
  client_id: string;
  client_secret: string;
}

/** millrace as a person starts it, on a fresh data folder, with one client. */
export interface RunningMillrace {
  server: ServerProcess;
  client: ClientCredentials;
  /** The folder of the embedded database. */
  data: string;
}

/** `database`: the URL of a PostgreSQL database; without it the embedded one. */
export async function startMillrace(
  stack: AsyncDisposableStack,
  database?: string,
): Promise<RunningMillrace> {
  const data = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
  stack.defer(() => rm(data, { recursive: true, force: true }));
  const place = ['--data', data, ...(database === undefined ? [] : ['--database', database])];
  const { stdout } = await promisify(execFile)(
    program,
    ['client', 'create', '--name', 'bench', '--json', ...place],
    {
      env: plainEnvironment(),
    },
  );
  const client = JSON.parse(stdout) as ClientCredentials;
  const server = stack.use(await ServerProcess.start(program, ['serve', '--port', '0', ...place]));
  return { server, client, data };
}

/** Read from outside of the service, from the file itself. */
export function tokensInSqlite(data: string): number {
  const database = new DatabaseSync(join(data, 'millrace.sqlite'), { readOnly: true });
  try {
    return Number(database.prepare('select count(*) as tokens from token').get()?.['tokens']);
  } finally {
    database.close();
  }
}
