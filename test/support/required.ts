import { spawnSync } from 'node:child_process';

/** MILLRACE_TEST_REQUIRE lists what must be there: a test that cannot get it fails instead of being skipped. */
export function isRequired(what: string): boolean {
  return (process.env['MILLRACE_TEST_REQUIRE'] ?? '').split(',').includes(what);
}

/** For the option `skip` of a test: the reason, or false. */
export function whyNotAvailable(program: string): string | false {
  if (spawnSync(program, ['--version']).status === 0 || isRequired(program)) return false;
  return `${program} is not installed`;
}
