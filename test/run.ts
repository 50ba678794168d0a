/**
 * Runs the tests: finds or starts the servers that they need, then hands over to node's own test runner. With
 * arguments only the named test files run.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { findOrStartPostgres } from './support/postgres-server.ts';

const postgres = await findOrStartPostgres();
if ('url' in postgres) console.log(`# PostgreSQL: ${postgres.origin}`);
else console.log(`# no PostgreSQL, its tests are skipped: ${postgres.reason}`);

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
    },
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal));
const [code] = (await once(runner, 'exit')) as [number | null];
if ('stop' in postgres) await postgres.stop();
process.exitCode = code ?? 1;
