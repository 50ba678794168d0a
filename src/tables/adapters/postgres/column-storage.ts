import type { Cell } from '../../cells.ts';
import type { ColumnType } from '../../table-store.ts';

/** The types of tables made here. `json`, not `jsonb`, which changes the order of keys and how numbers are written. */
export const STORAGE: Record<ColumnType, string> = {
  string: 'text',
  integer: 'bigint',
  bigint: 'bigint',
  decimal: 'numeric',
  double: 'double precision',
  boolean: 'boolean',
  date: 'date',
  timestamp: 'timestamp with time zone',
  json: 'json',
  binary: 'bytea',
};

/** Types by the names that PostgreSQL has for them inside; a column of any other type is a string, as it is written. */
const MODEL_TYPES: Record<string, ColumnType> = {
  int2: 'integer',
  int4: 'integer',
  int8: 'bigint',
  numeric: 'decimal',
  float4: 'double',
  float8: 'double',
  bool: 'boolean',
  date: 'date',
  timestamptz: 'timestamp',
  timestamp: 'timestamp',
  json: 'json',
  jsonb: 'json',
  bytea: 'binary',
};

/** The comments on columns whose type alone does not tell what they are. */
const INTEGER_COMMENT = 'millrace: integer';
const UNDECIDED_COMMENT = 'millrace: undecided';

export function commentOf({ type, undecided }: { type: ColumnType; undecided: boolean }): string | null {
  if (undecided) return UNDECIDED_COMMENT;
  return type === 'integer' ? INTEGER_COMMENT : null;
}

export function modelTypeOf(
  storage: string,
  comment: string | null,
): { type: ColumnType; undecided: boolean } {
  if (storage === 'int8' && comment === INTEGER_COMMENT) return { type: 'integer', undecided: false };
  const type = Object.hasOwn(MODEL_TYPES, storage) ? MODEL_TYPES[storage] : undefined;
  return { type: type ?? 'string', undecided: storage === 'text' && comment === UNDECIDED_COMMENT };
}

/**
 * What a column of somebody else's table takes beyond its model type; above all where PostgreSQL itself would round
 * or cut without a word.
 */
export interface Narrowness {
  fits(cell: NonNullable<Cell>): boolean;
  takes: string;
}

/** `modifier`: what PostgreSQL keeps of the numbers in brackets after the type; -1: there are none. */
export function narrownessOf(storage: string, modifier: number): Narrowness | null {
  if (storage === 'float4') return { fits: isExactReal, takes: 'numbers that a real (float4) holds exactly' };
  if (storage === 'int2') return wholeNumbers(-(2 ** 15), 2 ** 15 - 1);
  if (storage === 'int4') return wholeNumbers(-(2 ** 31), 2 ** 31 - 1);
  if (modifier < 0) return null;
  switch (storage) {
    case 'numeric': {
      const scale = (((modifier - 4) & 0x7ff) ^ 1024) - 1024;
      return { fits: (cell) => fractionDigits(cell) <= scale, takes: takesDigits(scale, 'the fraction') };
    }
    case 'timestamp':
    case 'timestamptz':
      return { fits: (cell) => secondDigits(cell) <= modifier, takes: takesDigits(modifier, 'the second') };
    case 'varchar':
    case 'bpchar': {
      const length = modifier - 4;
      return { fits: (cell) => [...String(cell)].length <= length, takes: `up to ${length} characters` };
    }
    default:
      return null;
  }
}

function wholeNumbers(least: number, greatest: number): Narrowness {
  return {
    fits: (cell) => Number(cell) >= least && Number(cell) <= greatest,
    takes: `whole numbers from ${least} to ${greatest}`,
  };
}

function takesDigits(digits: number, part: string): string {
  return `up to ${digits} digits of ${part}`;
}

function fractionDigits(cell: Cell): number {
  return /\.(\d*?)0*$/.exec(String(cell))?.[1]?.length ?? 0;
}

function secondDigits(cell: Cell): number {
  return /\.(\d*?)0*Z$/.exec(String(cell))?.[1]?.length ?? 0;
}

/** A real has 6 to 9 digits; it is written with the fewest that tell it from its neighbours. */
function isExactReal(cell: Cell): boolean {
  const number = Number(cell);
  const real = Math.fround(number);
  return [6, 7, 8, 9].some((digits) => Number(real.toPrecision(digits)) === number);
}

/** How the cells, as PostgreSQL writes them, become JSON text. */
export function jsonTextOf(storage: string, type: ColumnType): (text: string) => string {
  if (storage === 'timestamp' || storage === 'timestamptz') return timestampJson;
  return JSON_TEXTS[type];
}

const asIs = (text: string): string => text;
const inQuotes = (text: string): string => `"${text}"`;

const JSON_TEXTS: Record<ColumnType, (text: string) => string> = {
  string: (text) => JSON.stringify(text),
  integer: asIs,
  bigint: (text) =>
    text.length <= SAFE_LENGTH || Number.isSafeInteger(Number(text)) ? text : inQuotes(text),
  decimal: inQuotes,
  double: doubleJson,
  boolean: (text) => (text === 't' ? 'true' : 'false'),
  date: inQuotes,
  timestamp: timestampJson,
  json: asIs,
  binary: (text) => inQuotes(Buffer.from(text.slice(2), 'hex').toString('base64')),
};

/** Digits (and a sign) that a double surely holds. */
const SAFE_LENGTH = 15;

/** NaN and the infinities, which JSON cannot write, become strings. */
function doubleJson(text: string): string {
  const number = Number(text);
  if (!Number.isFinite(number)) return inQuotes(text);
  return Object.is(number, -0) ? '-0' : String(number);
}

const WRITTEN_TIMESTAMP = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?(?:\+00)?$/;

/** As it is where our own text has no form for it: "infinity", or a year before 1 or after 9999. */
function timestampJson(text: string): string {
  const parts = WRITTEN_TIMESTAMP.exec(text);
  if (!parts) return inQuotes(text);
  const fraction = parts[3] === undefined ? '' : `.${parts[3].padEnd(parts[3].length > 3 ? 6 : 3, '0')}`;
  return `"${parts[1]}T${parts[2]}${fraction}Z"`;
}
