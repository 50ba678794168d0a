import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { confinements } from './confinement.ts';
import { SandboxProcess } from './sandbox-process.ts';
import { defaultScriptLimits } from './script-limits.ts';

const MIB = 1024 * 1024;
const UNLIMITED = {
  wallMs: 60_000,
  processMib: Infinity,
  controlBytes: 1_000_000,
  dataBytes: 10 * MIB,
  tables: 1,
};

describe('a sandbox process', () => {
  let process: SandboxProcess;
  before(async () => {
    process = await SandboxProcess.start(await firstThatStarts());
  });
  after(async () => {
    process.kill();
    await process.exited;
  });

  async function evaluate(text: string): Promise<unknown> {
    const segments = [text, '{}', 'null', ''].map((part) => Buffer.from(part));
    const { reply, blocks } = await process.call(callOf(segments), segments, UNLIMITED);
    assert.ok(reply.ok);
    return JSON.parse(blocks[0]?.toString() ?? 'null');
  }

  it('takes no more memory for many results than for some', async (t) => {
    if (process.residentMib() === undefined)
      return t.skip('the system does not tell the memory of a process');
    const most = async (results: number) => {
      let peakMib = 0;
      for (let result = 0; result < results; result += 1) {
        await evaluate("return 'x'.repeat(300_000)");
        peakMib = Math.max(peakMib, process.residentMib() ?? 0);
      }
      return peakMib;
    };
    const some = await most(300);
    const many = await most(900);
    assert.ok(many < some * 1.2, `${some} MiB after 300 results, ${many} MiB after 1,200`);
  });

  it('gives scripts no hold on the garbage collector', async () => {
    assert.deepEqual(await evaluate('return [typeof gc, "gc" in globalThis]'), ['undefined', false]);
  });
});

function callOf(segments: Buffer[]) {
  const {
    callMs,
    isolateMib,
    tablesPerResult,
    columnsPerTable,
    outputBytes,
    controlBytes,
    consoleCharacters,
  } = defaultScriptLimits;
  return {
    type: 'call',
    run: 'run',
    mode: 'value',
    property: 'request.parameters',
    timeoutMs: callMs,
    isolateMib,
    mostBlocks: 1,
    limits: JSON.stringify({
      tables: tablesPerResult,
      columns: columnsPerTable,
      outputCharacters: outputBytes,
      controlCharacters: controlBytes,
      consoleCharacters,
    }),
    segments: segments.map(({ length }) => length),
  } as const;
}

/** The tightest confinement that this system has. */
async function firstThatStarts() {
  for (const confinement of confinements()) {
    try {
      const process = await SandboxProcess.start(confinement);
      process.kill();
      await process.exited;
      return confinement;
    } catch (error) {
      if (confinement.wrapper.length === 0) throw error;
    }
  }
  throw new Error('there is no confinement at all');
}
