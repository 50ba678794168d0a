// The program of a sandbox process. Plain JavaScript: stripping types would cost each process 60 ms.
// It reads frames from file descriptor 3 and answers each one there; it does nothing else and never waits for
// anything else, so reading and writing block: a call costs 4 us instead of the 190 us of a promise.
import { randomBytes } from 'node:crypto';
import { readSync, writeSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import ivm from 'isolated-vm';

const CHANNEL = 3;
const HEADER_BYTES = 8;
/** Isolates kept in one process; the one that was not used for longest goes first. */
const MOST_ISOLATES = 16;
/**
 * A text that an isolate returned is freed only when V8 collects the whole heap of this program, which for want of
 * other garbage it never does by itself: the process grew by 290 kB a page of 300 kB. Collecting takes 4 to 9 ms.
 */
const COLLECT_BYTES = 32 * 1024 * 1024;

/** @typedef {{ modules: Record<string, string>, underscore: string }} Sources */
/** @typedef {import('../protocol.ts').CallMeta} CallMeta */

/** Only here: a context gets the function while the flag is set, and those of scripts come later. */
setFlagsFromString('--expose-gc');
/** @type {() => void} */
const collectGarbage = runInNewContext('gc');
setFlagsFromString('--no-expose-gc');

/** @type {Sources} */
let sources;
/** Bytes answered since garbage was collected. */
let answeredBytes = 0;
/** @type {Map<string, Sandbox>} by job run */
const sandboxes = new Map();

class Sandbox {
  /** @type {Map<string, any>} */
  #scripts = new Map();

  constructor(/** @type {number} */ memoryMib) {
    this.memoryMib = memoryMib;
    this.isolate = new ivm.Isolate({ memoryLimit: memoryMib });
    this.context = this.isolate.createContextSync();
    /** @type {Record<string, any>} */
    const modules = {};
    for (const [name, source] of Object.entries(sources.modules)) {
      modules[name] = this.isolate.compileModuleSync(source, { filename: `sandbox:${name}` });
    }
    const main = modules['main.js'];
    main.instantiateSync(this.context, (/** @type {string} */ name) => modules[name.slice('./'.length)]);
    main.evaluateSync();
    this.context.evalSync(sources.underscore, { filename: 'sandbox:underscore.js' });
    const { namespace } = main;
    this.run = namespace.getSync('run', { reference: true });
    this.block = namespace.getSync('block', { reference: true });
    this.whyRefused = namespace.getSync('whyRefused', { reference: true });
  }

  /** The script as a function of the isolate; compiled once a run. */
  script(/** @type {string} */ property, /** @type {string} */ text, /** @type {number} */ timeout) {
    const key = `${property}\n${text}`;
    const known = this.#scripts.get(key);
    if (known) return known;
    const source = `(function($ctx){"use strict";\n${text}\n})`;
    const compiled = this.isolate.compileScriptSync(source, { filename: property, lineOffset: -1 });
    const refusal = this.whyRefused.applySync(undefined, [text], { timeout });
    if (refusal !== undefined) throw new Refusal(refusal);
    const script = compiled.runSync(this.context, { reference: true, timeout });
    this.#scripts.set(key, script);
    return script;
  }

  dispose() {
    if (!this.isolate.isDisposed) this.isolate.dispose();
  }
}

class Refusal extends Error {}

function sandboxOf(/** @type {string} */ run, /** @type {number} */ memoryMib) {
  let sandbox = sandboxes.get(run);
  sandboxes.delete(run);
  if (sandbox && (sandbox.isolate.isDisposed || sandbox.memoryMib < memoryMib)) {
    sandbox.dispose();
    sandbox = undefined;
  }
  sandbox ??= new Sandbox(memoryMib);
  sandboxes.set(run, sandbox);
  if (sandboxes.size > MOST_ISOLATES) {
    const [oldest] = sandboxes.keys();
    if (oldest !== undefined) forget(oldest);
  }
  return sandbox;
}

function forget(/** @type {string} */ run) {
  sandboxes.get(run)?.dispose();
  sandboxes.delete(run);
}

/** Runs one call and answers it. */
function call(/** @type {CallMeta} */ meta, /** @type {Buffer} */ body) {
  /** @type {string[]} */
  const texts = [];
  let at = 0;
  for (const bytes of meta.segments) texts.push(body.toString('utf8', at, (at += bytes)));
  const [text = '', variables = '{}', data = 'null', more = '', response = '', responseBody = ''] = texts;
  const timeout = meta.timeoutMs;
  try {
    const sandbox = sandboxOf(meta.run, meta.isolateMib);
    const script = sandbox.script(meta.property, text, timeout);
    if (meta.mode === 'check')
      return answer('{"ok":true,"control":null,"blocks":[],"statusCodeRead":false,"console":[]}', []);
    const parameters = [
      script.derefInto(),
      meta.mode,
      meta.property,
      meta.limits,
      randomBytes(32).toString('hex'),
      variables,
      data,
      more,
      response,
      responseBody,
    ];
    const control = sandbox.run.applySync(undefined, parameters, { timeout });
    const blocks = [];
    for (let i = 0; i < meta.mostBlocks; i++) {
      const block = sandbox.block.applySync(undefined, [i], { timeout });
      if (typeof block !== 'string' || block === '') break;
      blocks.push(Buffer.from(block));
    }
    answer(String(control), blocks);
  } catch (error) {
    answer(failure(meta, error), []);
  }
}

/** The script did not run to its end: it does not compile, or it was stopped. */
function failure(/** @type {CallMeta} */ meta, /** @type {unknown} */ error) {
  const sandbox = sandboxes.get(meta.run);
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof Refusal) return refusal('script', message, null);
  if (!sandbox || sandbox.isolate.isDisposed) {
    forget(meta.run);
    return refusal('memory', '', null);
  }
  const stack = error instanceof Error ? String(error.stack) : '';
  if (message === 'Script execution timed out.') {
    forget(meta.run);
    return refusal('timeout', '', positionIn(stack, `${meta.property}:`));
  }
  const position = positionIn(message, `[${meta.property}:`);
  const plain = position ? message.slice(0, message.lastIndexOf(' [')) : message;
  const name = error instanceof Error ? error.name : 'Error';
  return refusal('script', `${name}: ${plain}`, position);
}

function refusal(
  /** @type {string} */ failure,
  /** @type {string} */ message,
  /** @type {number[] | null} */ position,
) {
  return JSON.stringify({ ok: false, failure, message, position, statusCodeRead: false, console: [] });
}

function positionIn(/** @type {string} */ text, /** @type {string} */ prefix) {
  const at = text.indexOf(prefix);
  const match = at < 0 ? null : /^(\d{1,7}):(\d{1,7})/.exec(text.slice(at + prefix.length));
  return match ? [Number(match[1]), Number(match[2])] : null;
}

function answer(/** @type {string} */ reply, /** @type {Buffer[]} */ blocks) {
  const control = Buffer.from(
    `{"lengths":[${blocks.map((block) => block.length).join(',')}],"reply":${reply}}`,
  );
  const header = Buffer.alloc(HEADER_BYTES);
  const dataBytes = blocks.reduce((sum, block) => sum + block.length, 0);
  header.writeUInt32LE(control.length, 0);
  header.writeUInt32LE(dataBytes, 4);
  writeAll(Buffer.concat([header, control]));
  for (const block of blocks) writeAll(block);
  answeredBytes += control.length + dataBytes;
}

function writeAll(/** @type {Buffer} */ bytes) {
  for (let at = 0; at < bytes.length;) at += writeSync(CHANNEL, bytes, at);
}

/** Ends the process when the service has closed its side, or is gone. */
function readExactly(/** @type {number} */ count) {
  const bytes = Buffer.allocUnsafe(count);
  for (let at = 0; at < count;) {
    const read = readSync(CHANNEL, bytes, at, count - at, null);
    if (read === 0) process.exit(0);
    at += read;
  }
  return bytes;
}

for (;;) {
  const header = readExactly(HEADER_BYTES);
  const meta = JSON.parse(readExactly(header.readUInt32LE(0)).toString('utf8'));
  const body = readExactly(header.readUInt32LE(4));
  if (meta.type === 'init') {
    sources = meta.sources;
    // The first one costs most: its code is then in V8's caches.
    new Sandbox(8).dispose();
    answer('{"ok":true,"control":null,"blocks":[],"statusCodeRead":false,"console":[]}', []);
  } else if (meta.type === 'close') {
    forget(meta.run);
  } else {
    call(meta, body);
    // After the answer: the service goes on meanwhile.
    if (answeredBytes > COLLECT_BYTES) {
      collectGarbage();
      answeredBytes = 0;
    }
  }
}
