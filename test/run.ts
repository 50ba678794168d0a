/**
 * Runs the tests: finds or starts the servers that they need, then hands over to node's own test runner. With
 * arguments only the named test files run.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { findOrStartMariadb } from './support/mariadb-server.ts';
import { findOrStartPostgres } from './support/postgres-server.ts';

const [postgres, mariadb] = await Promise.all([findOrStartPostgres(), findOrStartMariadb()]);
for (const [name, server] of [
  ['PostgreSQL', postgres],
  ['MariaDB', mariadb],
] as const) {
  if ('url' in server) console.log(`# ${name}: ${server.origin}`);
  else console.log(`# no ${name}, its tests are skipped: ${server.reason}`);
}

const files = process.argv.slice(2);
const patterns = files.length > 0 ? files : ['src/**/*.test.ts', 'test/**/*.test.ts'];
const runner = spawn(
  process.execPath,
  ['--disable-warning=ExperimentalWarning', '--test', '--test-timeout=300000', ...patterns],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      ...('url' in postgres
        ? { TEST_POSTGRES_URL: postgres.url }
        : { TEST_POSTGRES_MISSING: postgres.reason }),
      ...('url' in mariadb ? { TEST_MARIADB_URL: mariadb.url } : { TEST_MARIADB_MISSING: mariadb.reason }),
    },
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal));
const [code] = (await once(runner, 'exit')) as [number | null];
for (const server of [postgres, mariadb]) if ('stop' in server) await server.stop();
process.exitCode = code ?? 1;
