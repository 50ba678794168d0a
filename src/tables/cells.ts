import { isExactDouble, isRawNumber, plainDecimal } from './exact-json.ts';
import { excerpt } from './table-errors.ts';
import type { ColumnType } from './table-store.ts';
import { isDate, utcTimestamp } from './timestamps.ts';

/**
 * A cell between JSON and the database, the same for every store: text for string, decimal (plain digits), date,
 * timestamp (UTC) and json; a number for integer and double; a bigint for a bigint beyond ±(2^53 - 1), else a number;
 * bytes for binary.
 */
export type Cell = string | number | bigint | boolean | Uint8Array | null;

/** What comes out instead of a cell where the value does not fit. */
export const MISFIT = Symbol('misfit');

export type ToCell = (value: unknown) => Cell | typeof MISFIT;

export interface CellLimits {
  secondDigits: number;
  nulCharacters: boolean;
}

const WHOLE = /^(?:0|-?[1-9]\d*)$/;
const LONGEST_BIGINT = 20;
const LEAST_BIGINT = -(2n ** 63n);
const GREATEST_BIGINT = 2n ** 63n - 1n;

/** How values (JSON parsed by parseExact, never null) become cells, by the type of their column. */
export type CellMakers = Record<ColumnType, ToCell>;

export function cellMakers({ secondDigits, nulCharacters }: CellLimits): CellMakers {
  return {
    string: nulCharacters ? toText : (value) => withoutNul(toText(value)),
    integer: toInteger,
    bigint: toBigint,
    decimal: toDecimal,
    double: toDouble,
    boolean: (value) => (typeof value === 'boolean' ? value : MISFIT),
    date: (value) => (typeof value === 'string' && isDate(value) ? value : MISFIT),
    timestamp: (value) => (typeof value === 'string' && utcTimestamp(value, secondDigits)) || MISFIT,
    json: nulCharacters ? toJson : (value) => withoutEscapedNul(toJson(value)),
    binary: toBytes,
  };
}

function toText(value: unknown): string | typeof MISFIT {
  if (typeof value === 'string') return value.isWellFormed() ? value : MISFIT;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return isRawNumber(value) ? value.rawJSON : toJson(value);
}

function toInteger(value: unknown): number | typeof MISFIT {
  if (typeof value === 'string' && value.length <= LONGEST_BIGINT && WHOLE.test(value))
    return toInteger(Number(value));
  if (!Number.isSafeInteger(value)) return MISFIT;
  return (value as number) + 0; // -0 becomes 0
}

function toBigint(value: unknown): number | bigint | typeof MISFIT {
  const small = toInteger(value);
  if (small !== MISFIT) return small;
  // The digits, not the double: 12345678901234567000 is 12345678901234567168 as a double.
  const digits = typeof value === 'string' ? value : numberDigits(value);
  if (digits === undefined || digits.length > LONGEST_BIGINT || !WHOLE.test(digits)) return MISFIT;
  const big = BigInt(digits);
  return big >= LEAST_BIGINT && big <= GREATEST_BIGINT ? big : MISFIT;
}

function toDecimal(value: unknown): string | typeof MISFIT {
  return (typeof value === 'string' ? plainDecimal(value) : numberDigits(value)) ?? MISFIT;
}

function toDouble(value: unknown): number | typeof MISFIT {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && isExactDouble(value) ? Number(value) : MISFIT;
}

/** The plain digits of a JSON number. */
function numberDigits(value: unknown): string | undefined {
  if (typeof value === 'number') return plainDecimal(String(value));
  return isRawNumber(value) ? plainDecimal(value.rawJSON) : undefined;
}

// JSON.stringify writes a lone surrogate as \ud800; an escaped backslash before "ud800" is none.
const LONE_SURROGATE = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;
const ESCAPED_NUL = /(?<!\\)(?:\\\\)*\\u0000/;

function toJson(value: unknown): string | typeof MISFIT {
  const text = jsonText(value);
  return text === undefined || (text.includes('\\ud') && LONE_SURROGATE.test(text)) ? MISFIT : text;
}

/** undefined: the value is nested too deeply (some thousand levels) to be written. */
function jsonText(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function toBytes(value: unknown): Uint8Array | typeof MISFIT {
  if (typeof value !== 'string') return MISFIT;
  const bytes = Buffer.from(value, 'base64');
  return bytes.toString('base64').replace(/=+$/, '') === value.replace(/={1,2}$/, '') ? bytes : MISFIT;
}

function withoutNul(text: string | typeof MISFIT): string | typeof MISFIT {
  return text !== MISFIT && text.includes('\0') ? MISFIT : text;
}

function withoutEscapedNul(json: string | typeof MISFIT): string | typeof MISFIT {
  return json !== MISFIT && json.includes('\\u0000') && ESCAPED_NUL.test(json) ? MISFIT : json;
}

const TAKES: Record<ColumnType, string> = {
  string: 'any text',
  integer: 'whole numbers of ±9007199254740991 (bigint takes longer ones)',
  bigint: 'whole numbers from -9223372036854775808 to 9223372036854775807 (decimal takes longer ones)',
  decimal: 'numbers of up to 10000 digits, also as a string of digits',
  double: 'numbers that a double holds exactly (decimal takes any digits)',
  boolean: 'true and false',
  date: 'dates such as "2024-01-31"',
  timestamp: 'timestamps such as "2024-01-31T10:00:00Z"',
  json: 'any JSON value',
  binary: 'strings in base64',
};

/** What a column takes, said to somebody whose value did not fit. */
export function takes(type: ColumnType, value: unknown, limits: CellLimits): string {
  const text = jsonText(value);
  if (text === undefined) return `${TAKES[type]}, nested some thousand levels deep at most`;
  if (LONE_SURROGATE.test(text)) return `${TAKES[type]}, without half characters (lone surrogates)`;
  if (!limits.nulCharacters && ESCAPED_NUL.test(text)) return `${TAKES[type]}, without the character U+0000`;
  if (type === 'timestamp')
    return `${TAKES.timestamp}, with up to ${limits.secondDigits} digits of the second`;
  return TAKES[type];
}

export function valueExcerpt(value: unknown): string {
  return excerpt(jsonText(value) ?? (Array.isArray(value) ? '[[[…' : '{…'));
}

/** The JSON text of a cell that is not null. Stores without booleans give 0 and 1; a number may come as a bigint. */
export const cellTexts: Record<ColumnType, (cell: NonNullable<Cell>) => string> = {
  string: (cell) => JSON.stringify(cell),
  integer: String,
  bigint: (cell) => (isSafe(cell) ? String(cell) : `"${String(cell)}"`),
  decimal: (cell) => `"${cell as string}"`,
  double: (cell) => (Object.is(cell, -0) ? '-0' : String(cell)),
  boolean: (cell) => (cell === true || Number(cell) === 1 ? 'true' : 'false'),
  date: (cell) => `"${cell as string}"`,
  timestamp: (cell) => `"${cell as string}"`,
  json: (cell) => cell as string,
  binary: (cell) => `"${bytesOf(cell as Uint8Array).toString('base64')}"`,
};

function isSafe(cell: Cell): boolean {
  return Number.isSafeInteger(Number(cell));
}

function bytesOf(cell: Uint8Array): Buffer {
  return Buffer.from(cell.buffer, cell.byteOffset, cell.byteLength);
}
