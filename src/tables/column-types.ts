import { isRawNumber, plainDecimal } from './exact-json.ts';
import type { Row } from './row-cells.ts';
import type { Column, ColumnType, InferenceHints } from './table-store.ts';

/** `undecided`: only nulls were seen, so the type (string until then) is still free. */
export interface InferredColumn extends Column {
  undecided: boolean;
}

const NO_HINTS: InferenceHints = { digits: [], nested: 'json' };
const WHOLE_TYPES: ColumnType[] = ['integer', 'bigint', 'decimal'];

/**
 * The narrowest type that holds all values of both types exactly; in whatever order types are joined, the result is
 * the same.
 */
export function join(one: ColumnType, other: ColumnType): ColumnType {
  if (one === other) return one;
  const types = [one, other];
  const whole = types.map((type) => WHOLE_TYPES.indexOf(type));
  if (whole.every((at) => at >= 0)) return WHOLE_TYPES[Math.max(...whole)] as ColumnType;
  if (types.includes('double')) {
    if (types.includes('integer')) return 'double';
    if (whole.some((at) => at >= 0)) return 'decimal';
  }
  return 'string';
}

/** The columns of the rows, in the order in which their properties are met first. */
export function inferColumns(rows: Row[], hints: InferenceHints = NO_HINTS): InferredColumn[] {
  const types = new Map<string, ColumnType | undefined>();
  for (const row of rows) {
    for (const name of Object.keys(row)) {
      const known = types.get(name);
      const type = known === 'string' ? known : typeOf(row[name], name, hints);
      if (type === known && type !== undefined) continue;
      types.set(name, known && type ? join(known, type) : (type ?? known));
    }
  }
  return [...types].map(([name, type]) => ({ name, type: type ?? 'string', undecided: type === undefined }));
}

function typeOf(value: unknown, name: string, { digits, nested }: InferenceHints): ColumnType | undefined {
  switch (typeof value) {
    case 'string':
      return digits.includes(name) ? digitsType(plainDecimal(value)) : 'string';
    case 'boolean':
      return 'boolean';
    case 'number':
      return numberType(value);
    default:
      if (value === null || value === undefined) return undefined;
      if (isRawNumber(value)) return digitsType(plainDecimal(value.rawJSON));
      return nested === 'json' ? 'json' : 'string';
  }
}

function numberType(value: number): ColumnType {
  if (Number.isSafeInteger(value)) return 'integer';
  // A double shows whole numbers up to 1e21 by their digits: those were meant as whole numbers.
  return Number.isInteger(value) && Math.abs(value) < 1e21 ? digitsType(String(value)) : 'double';
}

function digitsType(digits: string | undefined): ColumnType {
  if (digits === undefined) return 'string';
  if (digits.includes('.')) return 'decimal';
  const whole = BigInt(digits);
  return BigInt.asIntN(64, whole) === whole ? 'bigint' : 'decimal';
}
