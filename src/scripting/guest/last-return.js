import { exec, NativeFunction, slice } from './intrinsics.js';

/** Enough to tell brackets in code from those in strings and comments, nearly always: it only makes guesses. */
const TOKEN =
  /\/\*[^]*?\*\/|\/\/[^\n]*|'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"|`(?:\\[^]|[^`\\])*`|[$\w]+|[{}()[\]]/g;
const TRIES = 40;
const TRAILING = /[\s;]*$/;

/**
 * Why a script that compiles is refused all the same; undefined when it is not.
 * The parser of V8 decides, the tokens above only say where to look first: `return` at an offset is the last
 * statement when what stands before it is a complete list of statements, and when
 * `if (0) <from the offset on> else;` is complete too, so that it is one single statement.
 * @param {string} body
 */
export function whyRefused(body) {
  if (!parses(body)) return 'the script closes the function it stands in';
  const text = slice(body, 0, body.length - exec(TRAILING, body)[0].length);
  const offsets = returnOffsets(text);
  for (let i = 0; i < offsets.count; i++) {
    const at = offsets[i];
    const before = slice(text, 0, at);
    // Inside a comment even a character that no program may have would do no harm.
    if (!parses(before) || parses(`${before} @`)) continue;
    if (parses(`if (0) ${slice(text, at)}\nelse;`)) return undefined;
  }
  return 'the last statement of a script must be a return statement';
}

function parses(/** @type {string} */ body) {
  try {
    // The constructor parses the body for itself, so it cannot close the function and begin something else.
    NativeFunction('$ctx', `"use strict";${body}\n`);
    return true;
  } catch {
    return false; // the reason is not needed: the whole body was compiled before
  }
}

/** Offsets of the word `return`: first the last one outside all brackets, then from the end on. */
function returnOffsets(/** @type {string} */ text) {
  /** @type {{ count: number, [index: number]: number }} */
  const all = { count: 0 };
  let depth = 0;
  let outermost = -1;
  TOKEN.lastIndex = 0;
  for (let match = exec(TOKEN, text); match !== null; match = exec(TOKEN, text)) {
    const token = match[0];
    if (token === 'return') {
      all[all.count++] = match.index;
      if (depth === 0) outermost = match.index;
    } else if (token === '{' || token === '(' || token === '[') depth += 1;
    else if (token === '}' || token === ')' || token === ']') depth -= 1;
  }
  /** @type {{ count: number, [index: number]: number }} */
  const ordered = { count: 0 };
  if (outermost >= 0) ordered[ordered.count++] = outermost;
  for (let i = all.count - 1; i >= 0 && ordered.count < TRIES; i--) ordered[ordered.count++] = all[i];
  return ordered;
}
