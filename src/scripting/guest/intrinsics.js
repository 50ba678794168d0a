/**
 * What the sandbox's own code needs of the language, taken before any script runs: a script may change every
 * prototype, and what it changes must not steer this code. Runs inside the isolate, in no other place.
 */
const { bind, call } = Function.prototype;
/** @type {(method: Function) => (...args: any[]) => any} */
export const uncurryThis = bind.bind(call);

export const { parse, stringify } = JSON;
export const { defineProperty, getPrototypeOf, setPrototypeOf, keys, freeze, create } = Object;
export const { isArray } = Array;
export const { isSafeInteger } = Number;
export const { floor, min } = Math;
export const NativeError = Error;
export const NativeNumber = Number;
export const NativeString = String;
export const NativeFunction = Function;
export const Bytes = Uint8Array;
export const NativeMap = Map;
export const NativeSet = Set;
export const objectPrototype = Object.prototype;
export const arrayPrototype = Array.prototype;

export const hasOwn = uncurryThis(Object.prototype.hasOwnProperty);
export const tagOf = uncurryThis(Object.prototype.toString);
export const mapGet = uncurryThis(Map.prototype.get);
export const mapSet = uncurryThis(Map.prototype.set);
export const setHas = uncurryThis(Set.prototype.has);
export const setAdd = uncurryThis(Set.prototype.add);
export const exec = uncurryThis(RegExp.prototype.exec);
export const charCodeAt = uncurryThis(String.prototype.charCodeAt);
export const codePointAt = uncurryThis(String.prototype.codePointAt);
export const indexOf = uncurryThis(String.prototype.indexOf);
export const slice = uncurryThis(String.prototype.slice);
export const repeat = uncurryThis(String.prototype.repeat);
export const fromCharCode = String.fromCharCode;
export const fromCodePoint = String.fromCodePoint;
export const dateTime = uncurryThis(Date.prototype.getTime);
export const dateText = uncurryThis(Date.prototype.toISOString);
export const bigintText = uncurryThis(BigInt.prototype.toString);
export const setBytes = uncurryThis(Uint8Array.prototype.set);
export const subarray = uncurryThis(Uint8Array.prototype.subarray);

/** An object that inherits nothing: no `toJSON` of a changed `Object.prototype`. */
export function bare(/** @type {Record<string, unknown>} */ properties) {
  return setPrototypeOf(properties, null);
}

/** Sets a property as it is, past every setter of a prototype. */
export function put(
  /** @type {object} */ target,
  /** @type {PropertyKey} */ key,
  /** @type {unknown} */ value,
) {
  defineProperty(target, key, bare({ value, writable: true, enumerable: true, configurable: true }));
}

/** A script's result, or the script itself, is not what it must be. */
export class Refused extends NativeError {}
