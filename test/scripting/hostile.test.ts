import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ScriptPool } from '../../src/scripting/script-pool.ts';
import { ScriptError, type ScriptErrorKind, type ScriptRun } from '../../src/scripting/script-run.ts';
import type { HostileScript } from './hostile-row.ts';
import { hostileScripts } from './hostile-scripts.ts';

const limits = {
  callMs: 300,
  graceMs: 200,
  isolateMib: 32,
  processMib: 256,
  outputBytes: 4_000_000,
  controlBytes: 1_000_000,
  killsToRest: Infinity,
};
/** Over the limits: the poll of the memory, a busy machine. */
const SLACK_MS = 1_500;
const NEIGHBOUR_MEDIAN_MS = 20;
const EMPTY = { variables: {}, dataJson: 'null' };
const RESPONSE = { statusCode: 200, statusMessage: 'OK', headers: {}, body: Buffer.from('{"a":1}') };

describe('hostile scripts', () => {
  const secret = randomBytes(16).toString('hex');
  const variable = 'MILLRACE_TEST_CANARY';
  let folder: string;
  let server: Server;
  let connections = 0;
  let pool: ScriptPool;
  let neighbour: Neighbour;
  let scripts: HostileScript[];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-canary-'));
    await chmod(folder, 0o755);
    const file = join(folder, 'canary');
    await writeFile(file, secret, { mode: 0o644 });
    process.env[variable] = secret;
    server = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    scripts = hostileScripts({ file, variable, port: (server.address() as AddressInfo).port });
    pool = new ScriptPool(limits, () => {});
    neighbour = new Neighbour(pool.openRun('alice'));
    await neighbour.begin();
  });

  after(async () => {
    await neighbour.end();
    await pool.close();
    await new Promise((resolve) => server.close(resolve));
    delete process.env[variable];
    await rm(folder, { recursive: true });
  });

  it('end each as an error of its own call, within the limits', async (t) => {
    for (const script of scripts) {
      const run = pool.openRun('mallory');
      await t.test(script.name, () => endsAsItShould(run, script, secret));
      run.close();
      const next = pool.openRun('mallory');
      assert.equal((await next.evaluate({ property: 'p', text: 'return 1' }, EMPTY)).value, 1);
      next.close();
    }
    assert.ok(scripts.length >= 60);
  });

  it('leave the application able to go on', async () => {
    const { value } = await pool.openRun('mallory').evaluate({ property: 'p', text: 'return 6 * 7' }, EMPTY);
    assert.equal(value, 42);
  });

  it('reach nothing', () => {
    assert.equal(connections, 0);
  });

  it('do not disturb a neighbour', async () => {
    await neighbour.end();
    assert.deepEqual(neighbour.errors, []);
    assert.ok(neighbour.times.length > 200, `only ${neighbour.times.length} calls`);
    const median = neighbour.times.toSorted((a, b) => a - b)[neighbour.times.length >> 1] as number;
    assert.ok(median < NEIGHBOUR_MEDIAN_MS, `the median was ${median.toFixed(1)} ms`);
  });
});

async function endsAsItShould(run: ScriptRun, script: HostileScript, secret: string): Promise<void> {
  const began = performance.now();
  const ending = await endingOf(run, script);
  const took = performance.now() - began;
  assert.ok(took < limits.callMs + limits.graceMs + SLACK_MS, `it took ${took.toFixed(0)} ms`);
  assert.ok(!JSON.stringify(ending).includes(secret), 'the secret came out');
  if ('value' in script.ending) return assert.deepEqual(ending, { value: script.ending.value });
  assert.ok('kind' in ending, `it returned ${JSON.stringify(ending).slice(0, 200)}`);
  const { kinds } = script.ending;
  assert.ok(kinds.includes(ending.kind), `${ending.kind} instead of ${kinds.join(', ')}: ${ending.message}`);
  assert.ok(ending.message.length < 10_000);
  assert.doesNotMatch(ending.message, /sandbox:|runner\.mjs|isolated-vm|node:internal/);
}

type Outcome = { value: unknown } | { kind: ScriptErrorKind; message: string };

async function endingOf(run: ScriptRun, { text, mode }: HostileScript): Promise<Outcome> {
  const script = { property: 'hostile', text };
  try {
    if (mode === 'parse') {
      const { control, blocks } = await run.parse(script, EMPTY, RESPONSE);
      for (const { rows } of blocks) assert.ok(Array.isArray(JSON.parse(Buffer.from(rows).toString('utf8'))));
      return { value: control };
    }
    return { value: (await run.evaluate(script, EMPTY)).value };
  } catch (error) {
    assert.ok(error instanceof ScriptError, String(error));
    return { kind: error.kind, message: error.message };
  }
}

/** Another application that calls all the time. */
class Neighbour {
  readonly times: number[] = [];
  readonly errors: string[] = [];
  readonly #run: ScriptRun;
  #isEnding = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(run: ScriptRun) {
    this.#run = run;
  }

  /** The first call, which starts a process, is not counted. */
  async begin(): Promise<void> {
    await this.#call();
    this.times.length = 0;
    this.#loop = this.#callAgainAndAgain();
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    await this.#loop;
  }

  async #callAgainAndAgain(): Promise<void> {
    while (!this.#isEnding) {
      await this.#call();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async #call(): Promise<void> {
    const began = performance.now();
    try {
      await this.#run.evaluate(
        { property: 'p', text: 'return $ctx.variables.a + 1' },
        { ...EMPTY, variables: { a: 1 } },
      );
    } catch (error) {
      this.errors.push(String(error));
    }
    this.times.push(performance.now() - began);
  }
}
