import type { Cell } from '../../cells.ts';
import type { ColumnType } from '../../table-store.ts';

/** A column as information_schema.COLUMNS describes it. */
export interface ColumnFacts {
  name: string;
  /** In lower case, such as "decimal". */
  dataType: string;
  /** With its details, such as "decimal(10,2) unsigned". */
  columnType: string;
  characters: number | null;
  precision: number | null;
  scale: number | null;
  secondDigits: number | null;
  extra: string;
  comment: string;
  isJson: boolean;
}

/** What a column of somebody else's takes, beyond its type. */
export interface CellRule {
  takes: string;
  fits: (cell: NonNullable<Cell>) => boolean;
}

const TYPES: Record<string, ColumnType> = {
  tinyint: 'integer',
  smallint: 'integer',
  mediumint: 'integer',
  int: 'integer',
  year: 'integer',
  bigint: 'bigint',
  decimal: 'decimal',
  float: 'double',
  double: 'double',
  date: 'date',
  datetime: 'timestamp',
  timestamp: 'timestamp',
  binary: 'binary',
  varbinary: 'binary',
  tinyblob: 'binary',
  blob: 'binary',
  mediumblob: 'binary',
  longblob: 'binary',
  bit: 'binary',
  geometry: 'binary',
  point: 'binary',
  linestring: 'binary',
  polygon: 'binary',
  multipoint: 'binary',
  multilinestring: 'binary',
  multipolygon: 'binary',
  geometrycollection: 'binary',
};

/** tinyint(1) is what BOOLEAN becomes. Types without a counterpart (time, enum, uuid …) are read as their text. */
export function foreignType({ dataType, columnType, isJson }: ColumnFacts): ColumnType {
  if (columnType === 'tinyint(1)') return 'boolean';
  if (dataType === 'bigint' && columnType.includes('unsigned')) return 'decimal';
  if (isJson) return 'json';
  return TYPES[dataType] ?? 'string';
}

export function isComputed({ extra }: ColumnFacts): boolean {
  return /\bGENERATED\b/i.test(extra);
}

/** The columns that take any text that fits, and give it back as it was. */
const TEXTS = new Set(['varchar', 'tinytext', 'text', 'mediumtext', 'longtext', 'char', 'json']);
/** The server refuses what is out of their range, so no rule is needed. */
const PLAIN = new Set(['tinyint', 'smallint', 'mediumint', 'int', 'double', 'date', 'binary', 'varbinary']);

/** undefined: whatever the type takes, or the server refuses it by itself. */
export function foreignRule(facts: ColumnFacts): CellRule | undefined {
  const { dataType, columnType, characters } = facts;
  if (isComputed(facts)) return nothing('it is computed by the database');
  if (columnType === 'tinyint(1)' || PLAIN.has(dataType) || dataType.endsWith('blob')) {
    return dataType === 'binary' ? bytesOfWidth(characters ?? 0) : undefined;
  }
  if (TEXTS.has(dataType))
    return dataType.endsWith('char') ? charactersUpTo(characters ?? 0, dataType) : undefined;
  if (dataType === 'decimal' || dataType === 'bigint') {
    return dataType === 'bigint' && !columnType.includes('unsigned') ? undefined : decimalOf(facts);
  }
  if (dataType === 'float')
    return { takes: 'numbers of six digits, as its type FLOAT keeps them', fits: isFloat };
  if (dataType === 'datetime' || dataType === 'timestamp') return secondsOf(facts.secondDigits ?? 0);
  return nothing(`its type is ${excerptOf(columnType)}, which only the database itself writes exactly`);
}

function nothing(reason: string): CellRule {
  return { takes: `no value but null: ${reason}`, fits: () => false };
}

function bytesOfWidth(width: number): CellRule {
  // Shorter values would be filled up with zeros.
  return { takes: `${width} bytes`, fits: (cell) => cell instanceof Uint8Array && cell.byteLength === width };
}

function charactersUpTo(most: number, dataType: string): CellRule {
  return {
    takes: `text of up to ${most} characters${dataType === 'char' ? ' without spaces at its end' : ''}`,
    fits: (cell) => {
      const text = cell as string;
      if (dataType === 'char' && text.endsWith(' ')) return false;
      return text.length <= most || Array.from(text).length <= most;
    },
  };
}

function decimalOf({ precision, scale, columnType }: ColumnFacts): CellRule {
  const [digits, behind] = [precision ?? 0, scale ?? 0];
  const unsigned = columnType.includes('unsigned');
  return {
    takes: `${unsigned ? 'positive ' : ''}numbers of up to ${digits - behind} digits before the point and ${behind} behind it`,
    fits: (cell) => {
      const [, sign = '', whole = '', fraction = ''] = /^(-?)(\d+)\.?(\d*)$/.exec(cell as string) ?? [];
      const significant = whole.replace(/^0+/, '');
      return !(sign && unsigned) && significant.length <= digits - behind && fraction.length <= behind;
    },
  };
}

function isFloat(cell: NonNullable<Cell>): boolean {
  const value = Number(cell);
  return Number.isFinite(Math.fround(value)) && Number(Math.fround(value).toPrecision(6)) === value;
}

function secondsOf(digits: number): CellRule {
  return {
    takes: `timestamps of up to ${digits} digits of the second`,
    fits: (cell) => (/\.(\d*[1-9])/.exec(cell as string)?.[1]?.length ?? 0) <= digits,
  };
}

function excerptOf(columnType: string): string {
  return columnType.length <= 40 ? columnType : `${columnType.slice(0, 40)}…`;
}
