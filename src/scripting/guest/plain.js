import {
  arrayPrototype,
  bigintText,
  create,
  dateText,
  dateTime,
  exec,
  getPrototypeOf,
  hasOwn,
  isArray,
  isSafeInteger,
  keys,
  NativeNumber,
  objectPrototype,
  put,
  Refused,
  slice,
  stringify,
  tagOf,
} from './intrinsics.js';

const DEEPEST = 256;
const NAME = /^[A-Za-z_$][\w$]*$/;
/** What JSON.stringify would turn into `{}` or into an object of indices, without a word. */
const NO_JSON =
  /^\[object (Map|Set|WeakMap|WeakSet|Promise|ArrayBuffer|DataView|RegExp|Generator|(?:\w+ )?Iterator|\w+Array)\]$/;

/** @typedef {{ up: Path | null, key: string | number, depth: number }} Path */

/** @returns {Path} */
export function root(/** @type {string} */ name) {
  return { up: null, key: name, depth: 0 };
}

/** @returns {Path} */
export function below(/** @type {Path} */ up, /** @type {string | number} */ key) {
  return { up, key, depth: up.depth + 1 };
}

export function pathText(/** @type {Path} */ path) {
  let text = '';
  let at = path;
  for (; at.up !== null; at = at.up) {
    const { key } = at;
    text =
      (typeof key === 'number' ? `[${key}]` : exec(NAME, key) ? `.${key}` : `[${stringify(key)}]`) + text;
  }
  const whole = at.key + text;
  return whole.length > 300 ? `${slice(whole, 0, 300)}…` : whole;
}

export function refuse(/** @type {Path} */ path, /** @type {string} */ what) {
  return new Refused(`${pathText(path)} ${what}`);
}

/**
 * The value as JSON.stringify may have it: nothing in it is lost or rounded without a word. What needs no change is
 * returned as it is, else copied; `undefined` stays, as in JavaScript it leaves a property out.
 * @param {any} value
 * @param {Path} path
 * @returns {any}
 */
export function plain(value, path) {
  switch (typeof value) {
    case 'number':
      if (value - value === 0) return value;
      throw refuse(path, `is ${value}, which is no JSON value`);
    case 'bigint':
      return plainBigint(value);
    case 'function':
    case 'symbol':
      throw refuse(path, `is a ${typeof value}, which is no JSON value`);
    case 'object':
      return value === null ? null : plainObject(value, path);
    default:
      return value;
  }
}

/** Small ones as numbers, others as the string of their digits, like the long numbers of a response. */
function plainBigint(/** @type {bigint} */ value) {
  const number = NativeNumber(value);
  return isSafeInteger(number) ? number : bigintText(value);
}

function plainObject(/** @type {any} */ value, /** @type {Path} */ path) {
  if (path.depth > DEEPEST)
    throw refuse(path, `is nested deeper than ${DEEPEST} levels, or refers to itself`);
  const prototype = getPrototypeOf(value);
  if (prototype !== objectPrototype && prototype !== arrayPrototype && prototype !== null) {
    const time = timeOf(value);
    if (time !== undefined) {
      if (time - time !== 0) throw refuse(path, 'is an invalid Date');
      return dateText(value);
    }
    const tag = exec(NO_JSON, tagOf(value));
    if (tag !== null) throw refuse(path, `is a ${tag[1]}, which is no JSON value${PROMISE_HINT(tag[1])}`);
  }
  if (typeof value.toJSON === 'function') return ownJson(value, path);
  return isArray(value) ? plainArray(value, path) : plainProperties(value, path);
}

const PROMISE_HINT = (/** @type {string} */ tag) => (tag === 'Promise' ? ': scripts do not wait' : '');

function timeOf(/** @type {object} */ value) {
  try {
    return dateTime(value);
  } catch {
    return undefined; // not a Date
  }
}

function ownJson(/** @type {any} */ value, /** @type {Path} */ path) {
  const replaced = value.toJSON(`${path.key}`);
  if (typeof replaced === 'object' && replaced !== null && typeof replaced.toJSON === 'function') {
    throw refuse(path, 'has a toJSON that returns an object with another toJSON');
  }
  return plain(replaced, below(path, 'toJSON()'));
}

function plainArray(/** @type {any[]} */ array, /** @type {Path} */ path) {
  let copy = null;
  for (let i = 0; i < array.length; i++) {
    const item = array[i];
    const clean = isSimple(item) ? item : plain(item, below(path, i));
    if (clean === item) continue;
    copy ??= copyOfArray(array);
    put(copy, i, clean);
  }
  return copy ?? array;
}

function plainProperties(/** @type {any} */ object, /** @type {Path} */ path) {
  let copy = null;
  const names = keys(object);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    const item = object[name];
    const clean = isSimple(item) ? item : plain(item, below(path, name));
    if (clean === item) continue;
    copy ??= copyOfObject(object);
    copy[name] = clean;
  }
  return copy ?? object;
}

export function isSimple(/** @type {any} */ value) {
  const type = typeof value;
  return (
    type === 'string' || type === 'boolean' || value === null || (type === 'number' && value - value === 0)
  );
}

function copyOfArray(/** @type {any[]} */ array) {
  /** @type {any[]} */
  const copy = [];
  for (let i = 0; i < array.length; i++) put(copy, i, array[i]);
  return copy;
}

/** @returns {any} */
export function copyOfObject(/** @type {any} */ object) {
  const copy = create(null);
  const names = keys(object);
  for (let i = 0; i < names.length; i++) copy[names[i]] = object[names[i]];
  return copy;
}

/** JSON.stringify on what `plain` has seen. */
export function textOf(/** @type {unknown} */ value) {
  if (hasOwn(objectPrototype, 'toJSON') || hasOwn(arrayPrototype, 'toJSON')) {
    throw new Refused('a toJSON on Object.prototype or Array.prototype is not allowed');
  }
  return stringify(value);
}

export function describe(/** @type {any} */ value) {
  if (value === null) return 'null';
  if (isArray(value)) return 'an array';
  if (typeof value !== 'object') return value === undefined ? 'undefined' : `a ${typeof value}`;
  return exec(/^\[object (\w+)\]$/, tagOf(value))?.[1] === 'Object'
    ? 'an object'
    : `a ${slice(tagOf(value), 8, -1)}`;
}
