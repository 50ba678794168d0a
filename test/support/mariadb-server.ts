import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createConnection } from 'mariadb';

export type MariadbServer = { url: string; origin: string; stop(): Promise<void> } | { reason: string };

const RUNNING_SERVER = 'mariadb://root@127.0.0.1:3306/test';
/** MariaDB refuses to run as root; this is the user "nobody" of Debian and most others. */
const UNPRIVILEGED = 65534;
const START_TIMEOUT_MS = 30_000;
/** Beside the PATH, where the server is not always on it. */
const FOLDERS = ['/usr/sbin', '/usr/bin', '/usr/libexec', '/usr/local/bin', '/opt/homebrew/bin'];

/** In this order: TEST_MARIADB_URL, a server on 127.0.0.1:3306, installed binaries. */
export async function findOrStartMariadb(): Promise<MariadbServer> {
  const given = process.env['TEST_MARIADB_URL'];
  if (given) return { url: given, origin: 'TEST_MARIADB_URL', stop: async () => {} };
  const problem = await whyNotUsable(RUNNING_SERVER);
  if (problem === null) return { url: RUNNING_SERVER, origin: '127.0.0.1:3306', stop: async () => {} };
  const [server, install] = [binary('mariadbd'), binary('mariadb-install-db')];
  if (!server || !install) {
    return { reason: `no server on 127.0.0.1:3306 for root without a password (${problem}), no binaries` };
  }
  return startServer(server, install);
}

async function whyNotUsable(url: string): Promise<string | null> {
  const { hostname: host, port } = new URL(url);
  try {
    const connection = await createConnection({
      host,
      port: Number(port),
      user: 'root',
      connectTimeout: 2_000,
    });
    try {
      if (!connection.info?.isMariaDB()) return 'it is no MariaDB';
      const grants = await connection.query<Record<string, string>[]>('SHOW GRANTS');
      const mayCreate = grants.some((row) =>
        /(?:ALL PRIVILEGES|CREATE\b.*) ON \*\.\*/.test(Object.values(row).join()),
      );
      return mayCreate ? null : 'the user may not create databases';
    } finally {
      connection.destroy();
    }
  } catch (error) {
    return (error as { code?: string }).code ?? (error as Error).message;
  }
}

function binary(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), ...FOLDERS];
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
}

async function startServer(server: string, install: string): Promise<MariadbServer> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-mariadb-'));
  const isRoot = process.getuid?.() === 0;
  const identity = isRoot ? { uid: UNPRIVILEGED, gid: UNPRIVILEGED } : {};
  if (isRoot) await chown(folder, UNPRIVILEGED, UNPRIVILEGED);
  const data = join(folder, 'data');
  const options = ['--no-defaults', `--datadir=${data}`, `--tmpdir=${folder}`];
  const made = spawnSync(
    install,
    [...options, '--auth-root-authentication-method=normal', '--skip-test-db'],
    {
      ...identity,
      cwd: folder,
      encoding: 'utf8',
    },
  );
  if (made.status !== 0) {
    await rm(folder, { recursive: true, force: true });
    return { reason: `mariadb-install-db failed: ${made.stderr || made.stdout || made.error?.message}` };
  }
  const port = await freePort();
  const serving = spawn(
    server,
    [
      ...options,
      `--port=${port}`,
      '--bind-address=127.0.0.1',
      `--socket=${join(folder, 'socket')}`,
      `--pid-file=${join(folder, 'pid')}`,
      '--max-connections=200',
      // A server that is killed keeps what it committed all the same; only a machine that stops would lose it.
      '--innodb-flush-log-at-trx-commit=2',
    ],
    { ...identity, cwd: folder, stdio: 'ignore' },
  );
  const stop = async () => {
    if (serving.exitCode === null && serving.signalCode === null) {
      serving.kill('SIGKILL'); // at once: the data is thrown away
      await once(serving, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  };
  const url = `mariadb://root@127.0.0.1:${port}/test`;
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (let reason = await whyNotUsable(url); reason !== null; reason = await whyNotUsable(url)) {
    if (Date.now() > deadline || serving.exitCode !== null) {
      await stop();
      return { reason: `the server from ${server} did not start: ${reason}` };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { url, origin: `started from ${server}`, stop };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
