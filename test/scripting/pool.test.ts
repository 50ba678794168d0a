import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { confinements, confinementsIn } from '../../src/scripting/confinement.ts';
import type { ScriptLimits } from '../../src/scripting/script-limits.ts';
import { ScriptPool } from '../../src/scripting/script-pool.ts';
import { ScriptError } from '../../src/scripting/script-run.ts';

const EMPTY = { variables: {}, dataJson: 'null' };
const script = (text: string) => ({ property: 'p', text });
/** A loop that does not listen to the limit inside: the process has to be killed. */
const DEAF = script('return [].includes.call({ length: 2 ** 53 - 1 }, 1)');

async function withPool(
  limits: Partial<ScriptLimits>,
  use: (pool: ScriptPool, logged: string[]) => Promise<void>,
  ladder = confinements(),
): Promise<void> {
  const logged: string[] = [];
  const log = (level: string, message: string) => void logged.push(`${level}: ${message}`);
  const pool = new ScriptPool({ callMs: 300, graceMs: 200, ...limits }, log, ladder);
  try {
    await use(pool, logged);
  } finally {
    await pool.close();
  }
}

async function kindOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => assert.fail('no error'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ScriptError, String(error));
  return error.kind;
}

async function children(): Promise<number[]> {
  const text = await readFile(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8');
  return text.trim().split(' ').filter(Boolean).map(Number);
}

const isLinux = process.platform === 'linux' ? false : 'needs /proc';

/** In a folder that only root may enter, the user nobody reaches neither Node.js nor this file. */
const readsItself = `require('fs').readFileSync(${JSON.stringify(import.meta.filename)})`;
const asNobody = { uid: 65534, gid: 65534, cwd: '/' };
const nobodyIsLockedOut =
  process.getuid?.() === 0 && spawnSync(process.execPath, ['-e', readsItself], asNobody).status !== 0
    ? 'the user nobody may not enter the folder of this checkout'
    : false;

describe('the pool', () => {
  it('gives a process to one application at a time', { skip: isLinux }, async () => {
    await withPool({}, async (pool) => {
      const runs = ['a', 'b', 'c'].map((appId) => pool.openRun(appId));
      await Promise.all(runs.map((run) => run.evaluate(script('globalThis.mine = 1; return 1'), EMPTY)));
      for (const run of runs) {
        assert.equal((await run.evaluate(script('return globalThis.mine'), EMPTY)).value, 1);
        run.close();
      }
      const fresh = pool.openRun('a');
      assert.equal((await fresh.evaluate(script('return typeof globalThis.mine'), EMPTY)).value, 'undefined');
      assert.ok((await children()).length >= 3);
    });
    assert.deepEqual(await children(), []);
  });

  it('serves more applications than it has processes', async () => {
    await withPool({ processes: 2 }, async (pool) => {
      const calls = Array.from({ length: 5 }, (_, n) =>
        pool.openRun(`app${n}`).evaluate(script(`return ${n}`), EMPTY),
      );
      assert.deepEqual(
        (await Promise.all(calls)).map(({ value }) => value),
        [0, 1, 2, 3, 4],
      );
    });
  });

  it('goes on when a process died while it was idle', { skip: isLinux }, async () => {
    await withPool({}, async (pool) => {
      const run = pool.openRun('a');
      await run.evaluate(script('return 1'), EMPTY);
      for (const pid of await children()) process.kill(pid, 'SIGKILL');
      assert.equal((await run.evaluate(script('return 2'), EMPTY)).value, 2);
    });
  });

  it('lets an application rest that costs one process after another', async () => {
    await withPool({ killsToRest: 2 }, async (pool) => {
      const run = pool.openRun('a');
      assert.equal(await kindOf(run.evaluate(DEAF, EMPTY)), 'timeout');
      assert.equal(await kindOf(run.evaluate(DEAF, EMPTY)), 'timeout');
      assert.equal(await kindOf(run.evaluate(script('return 1'), EMPTY)), 'overloaded');
      assert.equal((await pool.openRun('b').evaluate(script('return 1'), EMPTY)).value, 1);
    });
  });

  it('refuses calls when too many wait, and those of a closed run', async () => {
    await withPool({ waitingCallsPerApplication: 2 }, async (pool) => {
      const run = pool.openRun('a');
      const calls = Array.from({ length: 4 }, () =>
        kindOf(run.evaluate(script('for (;;) {}\nreturn 1'), EMPTY)),
      );
      assert.deepEqual((await Promise.all(calls.slice(2))).slice(-1), ['overloaded']);
      run.close();
      assert.ok((await Promise.all(calls)).includes('closed'));
      assert.equal(await kindOf(run.evaluate(script('return 1'), EMPTY)), 'closed');
    });
  });

  it('stops at once when it is closed, and says so to callers', async () => {
    const pool = new ScriptPool({ callMs: 60_000 }, () => {});
    const run = pool.openRun('a');
    await run.evaluate(script('return 1'), EMPTY);
    const call = kindOf(run.evaluate(script('for (;;) {}\nreturn 1'), EMPTY));
    const began = performance.now();
    await pool.close();
    assert.equal(await call, 'closed');
    assert.ok(performance.now() - began < 5_000);
    assert.equal(await kindOf(run.evaluate(script('return 1'), EMPTY)), 'closed');
  });

  it('opens and closes many runs in the memory of a few', { skip: isLinux }, async () => {
    await withPool({ processMib: 256 }, async (pool, logged) => {
      for (let i = 0; i < 200; i++) {
        const run = pool.openRun('a');
        assert.equal((await run.evaluate(script('return 1'), EMPTY)).value, 1);
        run.close();
      }
      assert.ok(
        !logged.some((line) => line.startsWith('warn: a sandbox process was lost')),
        logged.join('\n'),
      );
    });
  });
});

describe('the confinement', () => {
  it('may be missing: scripts run all the same, and a warning says so', async () => {
    await withPool(
      {},
      async (pool, logged) => {
        assert.equal((await pool.openRun('a').evaluate(script('return 1'), EMPTY)).value, 1);
        assert.match(logged.join('\n'), /warn: scripts run without a network of their own/);
      },
      confinementsIn([]),
    );
  });

  it('goes down the ladder to what works', async () => {
    const broken = { name: 'broken', wrapper: ['/bin/false'], isTight: true };
    const missing = { name: 'missing', wrapper: ['/nowhere/unshare'], isTight: true };
    await withPool(
      {},
      async (pool) => {
        assert.equal((await pool.openRun('a').evaluate(script('return 1'), EMPTY)).value, 1);
      },
      [broken, missing, ...confinements()],
    );
  });

  it('that never works is an error of the call', async () => {
    await withPool(
      {},
      async (pool) => {
        assert.equal(await kindOf(pool.openRun('a').evaluate(script('return 1'), EMPTY)), 'crash');
      },
      [{ name: 'broken', wrapper: ['/bin/false'], isTight: true }],
    );
  });

  it('cuts the network and the rights of a process', { skip: isLinux }, async (t) => {
    const [tightest] = confinements();
    if (!tightest?.isTight) return t.skip('unshare or setpriv is missing here');
    if (nobodyIsLockedOut) return t.skip(nobodyIsLockedOut);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const [command = '', ...wrapper] = tightest.wrapper;
    const connect = `require('net').connect(${port}, '127.0.0.1').on('error', (e) => console.log(e.code))`;
    try {
      const { stdout } = await promisify(execFile)(command, [...wrapper, process.execPath, '-e', connect]);
      assert.match(stdout, /ENETUNREACH|ECONNREFUSED/);
    } finally {
      server.close();
    }
  });

  const skip = process.getuid?.() === 0 ? nobodyIsLockedOut : 'this is not root';
  it('works without root', { skip }, async () => {
    const pool = new URL('../../src/scripting/script-pool.ts', import.meta.url).href;
    const program = `
      import { ScriptPool } from ${JSON.stringify(pool)};
      const pool = new ScriptPool({}, (level, message, detail) => console.error(level, message, detail));
      const { value } = await pool.openRun('a').evaluate({ property: 'p', text: 'return 40 + 2' }, { variables: {}, dataJson: 'null' });
      console.log(value);
      await pool.close();`;
    const options = { uid: 65534, gid: 65534, cwd: '/', env: {} };
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '-e', program],
      options,
    );
    assert.equal(stdout, '42\n');
  });
});
