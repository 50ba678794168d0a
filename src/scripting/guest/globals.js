import { crypto } from './crypto.js';
import { defineProperty, NativeError } from './intrinsics.js';

const { construct } = Reflect;
/** Ways around the limits of time and memory, or to see the work of the collector. */
const REMOVED = ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'WeakRef', 'FinalizationRegistry'];

/** Prepares the global object before the first script: what goes, what comes. */
export function prepareGlobals(/** @type {{ log: Function, warn: Function, error: Function }} */ console) {
  /** @type {any} */
  const globals = globalThis;
  for (let i = 0; i < REMOVED.length; i++) delete globals[REMOVED[i]];
  removeResizableBuffers(globals);
  hidden(globals, 'crypto', crypto);
  hidden(globals, 'console', console);
  // Positions are read from the stack's text.
  NativeError.stackTraceLimit = 20;
}

function hidden(/** @type {object} */ target, /** @type {string} */ name, /** @type {unknown} */ value) {
  defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
}

/** A resizable buffer reserves memory that the isolate's limit does not see. */
function removeResizableBuffers(/** @type {any} */ globals) {
  const Native = globals.ArrayBuffer;
  const names = ['resize', 'resizable', 'maxByteLength', 'transfer', 'transferToFixedLength', 'detached'];
  for (let i = 0; i < names.length; i++) delete Native.prototype[names[i]];
  function ArrayBuffer(/** @type {unknown} */ length) {
    if (!new.target) throw new TypeError("Constructor ArrayBuffer requires 'new'");
    return construct(Native, [length], new.target);
  }
  ArrayBuffer.isView = Native.isView;
  ArrayBuffer.prototype = Native.prototype;
  hidden(Native.prototype, 'constructor', ArrayBuffer);
  hidden(globals, 'ArrayBuffer', ArrayBuffer);
}
