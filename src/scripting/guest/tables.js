import {
  bare,
  getPrototypeOf,
  isArray,
  keys,
  mapGet,
  mapSet,
  NativeMap,
  objectPrototype,
  put,
  Refused,
  setHas,
  stringify,
} from './intrinsics.js';
import { below, copyOfObject, describe, plain, refuse, root, textOf } from './plain.js';

const STRING = 1;
const DIGITS = 2;
const INTEGER = 4;
const DOUBLE = 8;
const BOOLEAN = 16;
const OBJECT = 32;
const ARRAY = 64;
const BIGINT = 128;
const NULL = 256;
const DATE = 512;
/** The kinds as the service knows them, in the order of their bits. */
const KIND_NAMES = [
  'string',
  'digits',
  'integer',
  'double',
  'boolean',
  'object',
  'array',
  'bigint',
  'null',
  'date',
];

/** @typedef {{ name: string, kinds: number }} Column */
/** @typedef {{ index: number, rowCount: number, columns: string, text: string }} Block */
/** @typedef {{ tables: number, columns: number, outputCharacters: number }} TableLimits */

/**
 * The result of a Parsing script in two parts: `control` without the records, and one block of JSON text a table.
 * @param {any} result
 * @param {boolean} isMapping a mapping returns one table-data object, or an array of them
 * @param {Set<string>} digits
 * @param {TableLimits} limits
 */
export function takeTables(result, isMapping, digits, limits) {
  if (result === undefined || result === null) return { control: null, blocks: [] };
  const whole = isMapping ? { data: isArray(result) ? result : [result] } : result;
  if (typeof whole !== 'object' || isArray(whole)) {
    throw new Refused(`the script must return an object, or null, but returned ${describe(whole)}`);
  }
  const control = copyOfObject(whole);
  /** @type {Block[]} */
  const blocks = [];
  if (control.data !== undefined && control.data !== null) {
    control.data = takeData(control.data, blocks, digits, limits);
  }
  return { control: plain(control, root('the result')), blocks };
}

function takeData(
  /** @type {any} */ data,
  /** @type {Block[]} */ blocks,
  /** @type {Set<string>} */ digits,
  /** @type {TableLimits} */ limits,
) {
  if (!isArray(data))
    throw new Refused(`data must be an array of table-data objects, but is ${describe(data)}`);
  if (data.length > limits.tables) {
    throw new Refused(`data has ${data.length} table-data objects; ${limits.tables} are allowed`);
  }
  /** @type {any[]} */
  const rest = [];
  let characters = 0;
  for (let i = 0; i < data.length; i++) {
    const path = below(root('data'), i);
    const table = data[i];
    if (!isRecord(table)) throw refuse(path, `must be a table-data object, but is ${describe(table)}`);
    const copy = copyOfObject(table);
    const records = copy.data;
    delete copy.data;
    put(rest, i, copy);
    const recordsPath = below(path, 'data');
    if (!isArray(records))
      throw refuse(recordsPath, `must be an array of records, but is ${describe(records)}`);
    const block = takeRows(records, recordsPath, copy.format === 'objects', digits, limits);
    characters += block.text.length;
    if (characters > limits.outputCharacters) {
      throw refuse(recordsPath, `makes the output larger than ${limits.outputCharacters} characters`);
    }
    put(blocks, i, bare({ index: i, ...block }));
  }
  return rest;
}

/** @param {any} value */
function isRecord(value) {
  if (typeof value !== 'object' || value === null || isArray(value)) return false;
  const prototype = getPrototypeOf(value);
  return prototype === objectPrototype || prototype === null;
}

/**
 * Checks each cell and then has all rows written by one JSON.stringify: twice as fast as writing the text here.
 * @param {any[]} records
 * @param {import('./plain.js').Path} path
 * @param {boolean} areFree records of the format "objects" may be any JSON
 * @param {Set<string>} digits
 * @param {TableLimits} limits
 */
function takeRows(records, path, areFree, digits, limits) {
  const columns = new Columns(digits, limits.columns);
  /** @type {any} */
  let rows = records;
  const rowCount = records.length;
  for (let i = 0; i < rowCount; i++) {
    const record = records[i];
    if (!areFree && !isRecord(record)) {
      throw refuse(below(path, i), `must be a record (a plain object), but is ${describe(record)}`);
    }
    const row = isRecord(record) ? columns.takeRow(record, path, i) : plain(record, below(path, i));
    if (rows === records) {
      if (row === record) continue;
      rows = firstOf(records, i);
    }
    put(rows, i, row);
  }
  return { rowCount, columns: columns.text(), text: textOf(rows) };
}

function firstOf(/** @type {any[]} */ array, /** @type {number} */ count) {
  /** @type {any[]} */
  const copy = [];
  for (let i = 0; i < count; i++) put(copy, i, array[i]);
  return copy;
}

class Columns {
  #digits;
  #limit;
  #count = 0;
  #byName = new NativeMap();
  /** The columns in the order of the row before: rows mostly have the same properties in the same order. */
  /** @type {Column[]} */
  #sequence = [];
  /** @type {Column[]} */
  #all = [];

  constructor(/** @type {Set<string>} */ digits, /** @type {number} */ limit) {
    this.#digits = digits;
    this.#limit = limit;
  }

  /** The row as JSON may have it: itself, or a copy where a cell needed a change. */
  takeRow(
    /** @type {any} */ record,
    /** @type {import('./plain.js').Path} */ path,
    /** @type {number} */ index,
  ) {
    if (typeof record.toJSON === 'function') throw refuse(below(path, index), 'must not have a toJSON');
    const names = keys(record);
    let row = record;
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      const cell = record[name];
      let column = this.#sequence[i];
      if (column === undefined || column.name !== name) {
        column = this.#column(name, path, index);
        this.#sequence[i] = column;
      }
      switch (typeof cell) {
        case 'string':
          column.kinds |= setHas(this.#digits, cell) ? DIGITS : STRING;
          continue;
        case 'number':
          if (cell - cell !== 0) break;
          column.kinds |= cell % 1 === 0 ? INTEGER : DOUBLE;
          continue;
        case 'boolean':
          column.kinds |= BOOLEAN;
          continue;
        default:
          if (cell !== null) break;
          column.kinds |= NULL;
          continue;
      }
      const clean = plain(cell, below(below(path, index), name));
      column.kinds |= kindOf(cell, clean);
      if (clean === cell) continue;
      if (row === record) row = copyOfObject(record);
      row[name] = clean;
    }
    return row;
  }

  /** @returns {Column} */
  #column(
    /** @type {string} */ name,
    /** @type {import('./plain.js').Path} */ path,
    /** @type {number} */ index,
  ) {
    const known = mapGet(this.#byName, name);
    if (known !== undefined) return known;
    if (this.#count === this.#limit) {
      throw refuse(
        below(below(path, index), name),
        `is one column more than the ${this.#limit} that are allowed`,
      );
    }
    const column = { name, kinds: 0 };
    mapSet(this.#byName, name, column);
    put(this.#all, this.#count++, column);
    return column;
  }

  /** As JSON: an array of `[name, kinds]`. */
  text() {
    let text = '';
    for (let i = 0; i < this.#count; i++) {
      const { name, kinds } = this.#all[i];
      text += `${i === 0 ? '' : ','}[${stringify(name)},${kindNames(kinds)}]`;
    }
    return `[${text}]`;
  }
}

function kindOf(/** @type {any} */ cell, /** @type {any} */ clean) {
  if (clean === undefined || clean === null) return NULL;
  if (typeof cell === 'bigint') return typeof clean === 'number' ? INTEGER : BIGINT;
  switch (typeof clean) {
    case 'string':
      return cell !== clean && typeof cell.toJSON === 'function' && cell.getTime ? DATE : STRING;
    case 'number':
      return clean % 1 === 0 ? INTEGER : DOUBLE;
    case 'boolean':
      return BOOLEAN;
    default:
      return isArray(clean) ? ARRAY : OBJECT;
  }
}

function kindNames(/** @type {number} */ kinds) {
  let text = '';
  for (let bit = 0; bit < KIND_NAMES.length; bit++) {
    if (kinds & (1 << bit)) text += `${text === '' ? '' : ','}"${KIND_NAMES[bit]}"`;
  }
  return `[${text}]`;
}
