import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreUnavailable } from './table-errors.ts';
import { Thread } from './thread.ts';

/** Answers "echo", and breaks at "crash". */
const program = `
  import { parentPort } from 'node:worker_threads';
  let calls = 0;
  parentPort.on('message', ({ id, method, args }) => {
    if (method === 'crash') throw new Error('out of order');
    if (method === 'close') return parentPort.close();
    parentPort.postMessage({ id, result: [++calls, ...args] });
  });
`;

interface Echo {
  echo(text: string): [number, string];
  crash(): void;
}

test('a thread that breaks fails the calls that it had, and the next call starts another', async () => {
  const thread = new Thread<Echo>(new URL(`data:text/javascript,${encodeURIComponent(program)}`), 'no file');
  assert.deepEqual(await thread.call('echo', ['a']), [1, 'a']);
  assert.deepEqual(await thread.call('echo', ['b']), [2, 'b']);
  const calls = [thread.call('crash', []), thread.call('echo', ['never answered'])];
  for (const outcome of await Promise.allSettled(calls)) {
    assert.equal(outcome.status, 'rejected');
    assert.ok(outcome.reason instanceof StoreUnavailable && outcome.reason.transient);
    assert.match(outcome.reason.message, /out of order/);
  }
  assert.deepEqual(await thread.call('echo', ['c']), [1, 'c']);
  const last = thread.call('echo', ['d']);
  await Promise.all([thread.close(), thread.close()]);
  assert.deepEqual(await last, [2, 'd']);
  await assert.rejects(thread.call('echo', ['e']), /it was closed/);
});

test('a thread that never started has nothing to close', async () => {
  await new Thread<Echo>(new URL('data:text/javascript,'), 'no file').close();
});
