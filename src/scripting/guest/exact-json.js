import {
  charCodeAt,
  exec,
  NativeNumber,
  NativeString,
  parse,
  setAdd,
  slice,
  stringify,
} from './intrinsics.js';

/** Fewer digits than this always survive a double, but for exponents near its limits. */
const LONG = 16;
/** An exponent of three digits or more, where a number may stand. */
const BIG_EXPONENT = /[eE](?<=(?:^|[:,[\s])-?[\d.]+[eE])[-+]?\d{3}/;
const NUMBER_CHARACTERS = /[\d.eE+-]+/y;
const NUMBER = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
const LEADING_ZEROS = /^0*/;
const TRAILING_ZEROS = /0*$/;

/**
 * JSON.parse, but a number whose digits do not survive a double becomes the string of its digits. The reviver takes
 * ten times as long as plain parsing, so it is used only where the text seems to hold such a number.
 * @param {string} text
 * @param {Set<string>} digits gets the strings that stand for numbers
 * @returns {any}
 */
export function parseExact(text, digits) {
  if (!mayLoseDigits(text)) return parse(text);
  /** @type {any} the types do not know the third parameter */
  const revive = (/** @type {string} */ _key, /** @type {unknown} */ value, /** @type {any} */ context) => {
    if (typeof value !== 'number' || survives(context.source, value)) return value;
    setAdd(digits, context.source);
    return context.source;
  };
  return parse(text, revive);
}

/**
 * Looks for long runs of digits, at one character in LONG: a quarter of the time of an expression that searches them.
 * Sees long numbers inside strings too, which costs time only.
 */
function mayLoseDigits(/** @type {string} */ text) {
  for (let at = LONG - 1; at < text.length;) {
    if (!isDigitOrPoint(charCodeAt(text, at))) {
      at += LONG;
      continue;
    }
    let from = at;
    while (from > 0 && isDigitOrPoint(charCodeAt(text, from - 1))) from--;
    let to = at + 1;
    while (to < text.length && isDigitOrPoint(charCodeAt(text, to))) to++;
    if (to - from >= LONG && !runSurvives(text, from)) return true;
    at = to + LONG;
  }
  return exec(BIG_EXPONENT, text) !== null;
}

function isDigitOrPoint(/** @type {number} */ code) {
  return (code >= 48 && code <= 57) || code === 46;
}

function runSurvives(/** @type {string} */ text, /** @type {number} */ from) {
  const start = charCodeAt(text, from - 1) === MINUS ? from - 1 : from;
  if (start > 0 && !mayPrecedeNumber(charCodeAt(text, start - 1))) return true;
  NUMBER_CHARACTERS.lastIndex = start;
  const source = exec(NUMBER_CHARACTERS, text)[0];
  return exec(NUMBER, source) !== null && survives(source, NativeNumber(source));
}

const [MINUS, COLON, COMMA, BRACKET, SPACE_CODE] = [45, 58, 44, 91, 32];

function mayPrecedeNumber(/** @type {number} */ code) {
  return code === COLON || code === COMMA || code === BRACKET || code <= SPACE_CODE;
}

function survives(/** @type {string} */ source, /** @type {number} */ value) {
  const shortest = NativeString(value);
  return shortest === source || (value - value === 0 && decimal(source) === decimal(shortest));
}

/** One spelling for each decimal value, the sign left out. */
function decimal(/** @type {string} */ source) {
  const match = exec(NUMBER, source);
  const fraction = match[2] ?? '';
  const all = match[1] + fraction;
  const digits = slice(all, exec(LEADING_ZEROS, all)[0].length);
  if (digits === '') return '0';
  const zeros = exec(TRAILING_ZEROS, digits)[0].length;
  return `${slice(digits, 0, digits.length - zeros)}e${NativeNumber(match[3] ?? 0) - fraction.length + zeros}`;
}

const SPACE = /[ \t\n\r]*/y;
const STRING = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[ !#-[\]-\uffff]*)*"/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const EXCERPT_BEFORE = 30;
const EXCERPT_AFTER = 20;

/** What is wrong with a text that JSON.parse refuses, and where: its own message often does not say where. */
export function describeMalformed(/** @type {string} */ text) {
  const at = malformedAt(text);
  let line = 1;
  let lineStart = 0;
  for (let i = 0; i < at; i++) {
    if (charCodeAt(text, i) !== 10) continue;
    line += 1;
    lineStart = i + 1;
  }
  const excerpt = stringify(slice(text, at < EXCERPT_BEFORE ? 0 : at - EXCERPT_BEFORE, at + EXCERPT_AFTER));
  const what = at >= text.length ? 'it ends too early' : `unexpected ${stringify(text[at])}`;
  return `${what} at position ${at} (line ${line}, column ${at - lineStart + 1}), near ${excerpt}`;
}

/** The offset of the first character that no JSON text could have there. */
function malformedAt(/** @type {string} */ text) {
  /** Open containers, the innermost last: a string, so that no changed prototype is in the way. */
  let open = '';
  /** `first`: a value or the end of an empty array; `name`: as `first` in an object. */
  let expected = 'value';
  let at = skip(SPACE, text, 0);
  while (at < text.length) {
    const character = text[at];
    const inside = open[open.length - 1];
    if (expected === 'value' || (expected === 'first' && character !== ']')) {
      if (character === '{' || character === '[') {
        open += character;
        expected = character === '{' ? 'firstName' : 'first';
        at += 1;
      } else {
        const end = skip(character === '"' ? STRING : SCALAR, text, at);
        if (end === at) return character === '"' ? brokenString(text, at) : at;
        at = end;
        expected = 'next';
      }
    } else if (expected === 'name' || (expected === 'firstName' && character !== '}')) {
      const end = skip(STRING, text, at);
      if (end === at) return character === '"' ? brokenString(text, at) : at;
      at = skip(SPACE, text, end);
      if (text[at] !== ':') return at;
      at += 1;
      expected = 'value';
    } else if (expected === 'next' && character === ',' && inside !== undefined) {
      at += 1;
      expected = inside === '{' ? 'name' : 'value';
    } else if (inside !== undefined && character === (inside === '{' ? '}' : ']')) {
      open = slice(open, 0, open.length - 1);
      expected = 'next';
      at += 1;
    } else {
      return at;
    }
    at = skip(SPACE, text, at);
  }
  return text.length;
}

/** Where the token that begins at the offset ends; the offset itself where there is no such token. */
function skip(/** @type {RegExp} */ token, /** @type {string} */ text, /** @type {number} */ at) {
  token.lastIndex = at;
  const match = exec(token, text);
  return match === null ? at : at + match[0].length;
}

const STRING_START = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[ !#-[\]-\uffff]*)*/y;

function brokenString(/** @type {string} */ text, /** @type {number} */ at) {
  return skip(STRING_START, text, at);
}
