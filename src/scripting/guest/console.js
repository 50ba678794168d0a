import { NativeString, slice, stringify, tagOf } from './intrinsics.js';

const CUT = '…';

/** Collects what a script writes to the console, up to a number of characters; what is over is dropped and said so. */
export class Lines {
  #left;
  #count = 0;
  #text = '';
  #isFull = false;

  constructor(/** @type {number} */ characters) {
    this.#left = characters;
  }

  write(/** @type {string} */ level, /** @type {any[]} */ values) {
    if (this.#isFull) return;
    let line = '';
    for (let i = 0; i < values.length && line.length <= this.#left; i++) {
      line += (i === 0 ? '' : ' ') + show(values[i]);
    }
    if (line.length >= this.#left) {
      this.#isFull = true;
      this.#add(level, slice(line, 0, this.#left) + CUT);
      this.#add('warn', 'the script wrote more to the console than is kept');
      return;
    }
    // An empty line counts too, else there could be any number of them.
    this.#left -= line.length + 16;
    if (this.#left <= 0) this.#isFull = true;
    this.#add(level, line);
  }

  #add(/** @type {string} */ level, /** @type {string} */ line) {
    this.#text += `${this.#count++ === 0 ? '' : ','}["${level}",${stringify(line)}]`;
  }

  /** As JSON: an array of `[level, text]`. */
  text() {
    return `[${this.#text}]`;
  }
}

function show(/** @type {any} */ value) {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return '[function]';
  if (typeof value !== 'object' || value === null) return NativeString(value);
  try {
    if (tagOf(value) === '[object Error]') return `${value.name}: ${value.message}`;
    return (
      stringify(value, (/** @type {string} */ _key, /** @type {unknown} */ item) =>
        typeof item === 'bigint' ? `${item}n` : item,
      ) ?? tagOf(value)
    );
  } catch {
    return tagOf(value); // circular, or a getter that throws
  }
}
