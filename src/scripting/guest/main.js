import { Lines } from './console.js';
import { seedRandom } from './crypto.js';
import { describeMalformed, parseExact } from './exact-json.js';
import { prepareGlobals } from './globals.js';
import {
  bare,
  defineProperty,
  exec,
  indexOf,
  NativeError,
  NativeSet,
  NativeString,
  parse,
  Refused,
  slice,
  stringify,
  tagOf,
} from './intrinsics.js';
import { whyRefused } from './last-return.js';
import { describe, plain, root, textOf } from './plain.js';
import { takeTables } from './tables.js';

/** @typedef {{ tables: number, columns: number, outputCharacters: number, controlCharacters: number, consoleCharacters: number }} Limits */

const MESSAGE_CHARACTERS = 4_000;

/** The call that is under way: scripts run one at a time. */
const now = {
  lines: new Lines(0),
  /** @type {{ text: string }[]} */
  blocks: [],
};

prepareGlobals(
  Object.freeze({
    log: (/** @type {any[]} */ ...values) => now.lines.write('log', values),
    warn: (/** @type {any[]} */ ...values) => now.lines.write('warn', values),
    error: (/** @type {any[]} */ ...values) => now.lines.write('error', values),
  }),
);

export { whyRefused };

/**
 * One call of a script. Everything comes as text; the answer is text too, and the blocks are fetched afterwards.
 * @param {Function} script
 * @param {'value' | 'parse' | 'map'} mode
 * @param {string} property
 * @param {string} limitsJson
 * @param {string} seed
 * @param {string} variablesJson
 * @param {string} dataJson
 * @param {string} moreJson request and steps; empty where there is neither
 * @param {string} responseJson status and headers; empty where there is none
 * @param {string} body
 */
export function run(
  script,
  mode,
  property,
  limitsJson,
  seed,
  variablesJson,
  dataJson,
  moreJson,
  responseJson,
  body,
) {
  /** @type {Limits} */
  const limits = parse(limitsJson);
  now.lines = new Lines(limits.consoleCharacters);
  now.blocks = [];
  /** @type {{ statusCode: boolean, malformed: unknown }} */
  const seen = { statusCode: false, malformed: null };
  let answer;
  try {
    seedRandom(seed);
    const digits = new NativeSet();
    const $ctx = /** @type {any} */ ({
      variables: parseExact(variablesJson, digits),
      data: parseExact(dataJson, digits),
    });
    if (moreJson !== '') addTo($ctx, parse(moreJson));
    if (responseJson !== '') $ctx.response = responseOf(parse(responseJson), body, digits, seen);
    const result = script($ctx);
    answer =
      mode === 'value' ? valueAnswer(result, limits) : tablesAnswer(result, mode === 'map', digits, limits);
  } catch (error) {
    now.blocks = [];
    answer = errorAnswer(error, property);
    if (error !== null && error === seen.malformed) answer += ',"failure":"response"';
  }
  return `{${answer},"statusCodeRead":${seen.statusCode},"console":${now.lines.text()}}`;
}

function addTo(/** @type {any} */ $ctx, /** @type {any} */ { request, steps }) {
  if (request !== undefined) $ctx.request = request;
  if (steps !== undefined) $ctx.steps = steps;
}

export function block(/** @type {number} */ index) {
  return now.blocks[index]?.text ?? '';
}

function valueAnswer(/** @type {any} */ result, /** @type {Limits} */ limits) {
  const value = plain(result, root('the result'));
  if (value === undefined) return '"ok":true,"control":null,"blocks":[]';
  const text = textOf(value);
  if (text.length > limits.outputCharacters) {
    throw new Refused(`the result is larger than ${limits.outputCharacters} characters`);
  }
  now.blocks = [{ text }];
  return '"ok":true,"control":null,"blocks":[[0,0,[]]]';
}

function tablesAnswer(
  /** @type {any} */ result,
  /** @type {boolean} */ isMapping,
  /** @type {Set<string>} */ digits,
  /** @type {Limits} */ limits,
) {
  const { control, blocks } = takeTables(result, isMapping, digits, limits);
  const controlText = textOf(control);
  let blocksText = '';
  for (let i = 0; i < blocks.length; i++) {
    const { index, rowCount, columns } = blocks[i];
    blocksText += `${i === 0 ? '' : ','}[${index},${rowCount},${columns}]`;
  }
  if (controlText.length + blocksText.length > limits.controlCharacters) {
    throw new Refused(
      `the result without its records is larger than ${limits.controlCharacters} characters (variables, column names)`,
    );
  }
  now.blocks = blocks;
  return `"ok":true,"control":${controlText},"blocks":[${blocksText}]`;
}

/** @param {any} meta @param {string} bodyStr @param {Set<string>} digits @param {{ statusCode: boolean, malformed: unknown }} seen */
function responseOf(meta, bodyStr, digits, seen) {
  const response = {};
  lazy(response, 'statusCode', () => {
    seen.statusCode = true;
    return meta.statusCode;
  });
  lazy(response, 'statusMessage', () => meta.statusMessage);
  lazy(response, 'headers', () => meta.headers);
  /** @type {any} */
  let body;
  let isParsed = false;
  lazy(response, 'body', () => {
    if (!isParsed) body = bodyStr === '' ? null : parseBody(bodyStr, digits, seen);
    isParsed = true;
    return body;
  });
  lazy(response, 'bodyStr', () => bodyStr);
  return response;
}

/** An own property, so that copies of the response have it, that a script may overwrite. */
function lazy(/** @type {object} */ target, /** @type {string} */ name, /** @type {() => unknown} */ get) {
  const set = (/** @type {unknown} */ value) =>
    void defineProperty(target, name, bare({ value, writable: true, enumerable: true, configurable: true }));
  defineProperty(target, name, bare({ get, set, enumerable: true, configurable: true }));
}

/** @param {string} text @param {Set<string>} digits @param {{ malformed: unknown }} seen */
function parseBody(text, digits, seen) {
  try {
    return parseExact(text, digits);
  } catch {
    seen.malformed = new SyntaxError(`the body of the response is not JSON: ${describeMalformed(text)}`);
    throw seen.malformed;
  }
}

function errorAnswer(/** @type {any} */ error, /** @type {string} */ property) {
  const message = slice(messageOf(error), 0, MESSAGE_CHARACTERS);
  return `"ok":false,"message":${stringify(message)},"position":${positionOf(error, property)}`;
}

function messageOf(/** @type {any} */ error) {
  try {
    if (error instanceof Refused) return NativeString(error.message);
    if (tagOf(error) === '[object Error]')
      return `${NativeString(error.name)}: ${NativeString(error.message)}`;
    return typeof error === 'string' ? error : `the script threw ${describe(error)}: ${shown(error)}`;
  } catch {
    return 'the script threw something that cannot be shown';
  }
}

function shown(/** @type {any} */ error) {
  return typeof error === 'object' && error !== null ? stringify(error) : NativeString(error);
}

/** `[line, column]` of the innermost place in the script, or null. */
function positionOf(/** @type {any} */ error, /** @type {string} */ property) {
  try {
    const stack = error instanceof NativeError ? error.stack : undefined;
    if (typeof stack !== 'string') return 'null';
    for (let at = indexOf(stack, `${property}:`); at >= 0; at = indexOf(stack, `${property}:`, at + 1)) {
      const match = exec(
        /^(\d{1,7}):(\d{1,7})/,
        slice(stack, at + property.length + 1, at + property.length + 20),
      );
      if (match !== null) return `[${match[1]},${match[2]}]`;
    }
  } catch {
    return 'null'; // a stack that throws when it is read
  }
  return 'null';
}
