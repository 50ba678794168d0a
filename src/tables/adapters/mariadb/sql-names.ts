import type { InferredColumn } from '../../column-types.ts';
import type { ColumnType, NamePart, StoreCapabilities } from '../../table-store.ts';

/** The column of every data table that numbers its rows: the order and the keys of reading. */
export const ROW_NUMBER = '__row__';

const TEXT = 'LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin';

/**
 * DECIMAL holds 65 digits and wants to know beforehand how many stand behind the point, so exact decimals are text;
 * `CAST(price AS DECIMAL(38, 10))` calculates with them. JSON would be LONGTEXT with a check that refuses what is
 * nested deeper than 32 levels. The collation neither folds case nor drops spaces at the end.
 */
export const STORAGE: Record<ColumnType, string> = {
  string: TEXT,
  integer: 'BIGINT',
  bigint: 'BIGINT',
  decimal: 'TEXT CHARACTER SET ascii COLLATE ascii_nopad_bin',
  double: 'DOUBLE',
  boolean: 'BOOLEAN',
  date: 'DATE',
  timestamp: 'DATETIME(6)',
  json: TEXT,
  binary: 'LONGBLOB',
};

/** As information_schema tells them. */
export const DATA_TYPES: Record<ColumnType, string> = {
  string: 'longtext',
  integer: 'bigint',
  bigint: 'bigint',
  decimal: 'text',
  double: 'double',
  boolean: 'tinyint',
  date: 'date',
  timestamp: 'datetime',
  json: 'longtext',
  binary: 'longblob',
};

export function quote(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``;
}

/** The comment tells the type of the model, which the type of the database alone does not. */
export function columnDefinition({ name, type, undecided }: InferredColumn): string {
  return `${quote(name)} ${STORAGE[type]} NULL COMMENT 'millrace ${type}${undecided ? ' undecided' : ''}'`;
}

const COLUMN_COMMENT = /^millrace ([a-z]+)( undecided)?$/;

/** undefined: the column was not made here. */
export function readColumnComment(comment: string): { type: ColumnType; undecided: boolean } | undefined {
  const [, type = '', undecided] = COLUMN_COMMENT.exec(comment) ?? [];
  if (!Object.hasOwn(STORAGE, type)) return undefined;
  return { type: type as ColumnType, undecided: undecided !== undefined };
}

/** `id` tells a table from the one that took its place; being a comment, it goes with the table when it is renamed. */
export function tableDefinition(id: string, columns: InferredColumn[]): string {
  const row = `${quote(ROW_NUMBER)} BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY`;
  // Without any column that shows, the database makes no table.
  const first = columns.length > 0 ? `${row} INVISIBLE` : row;
  const options = 'ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin';
  return `(${[first, ...columns.map(columnDefinition)].join(', ')}) ${options} COMMENT='millrace ${id}'`;
}

/** For a table that gets its first columns. */
export const HIDE_ROW_NUMBER = `MODIFY COLUMN ${quote(ROW_NUMBER)} BIGINT NOT NULL AUTO_INCREMENT INVISIBLE`;

export function readTableComment(comment: string): string | undefined {
  return /^millrace ([0-9a-f]{16})$/.exec(comment)?.[1];
}

const LONGEST_NAME = 64;
/** Of a file's name, less the suffix of a table. */
const LONGEST_FILE_NAME = 251;
const SYSTEM_SPACES = ['information_schema', 'performance_schema', 'mysql', 'sys'];
const OWN_TABLE = /^millrace_(?:(?:own|old)_[0-9a-f]{16}|checkpoint|table)$/i;

/** Tables that are the store's own: bookkeeping, staging and temporary ones. */
export function isOwnTable(name: string): boolean {
  return OWN_TABLE.test(name);
}

export function isSystemSpace(database: string): boolean {
  return SYSTEM_SPACES.includes(database.toLowerCase());
}

/** `prefix` stands before the name of every space and counts. */
export function mariadbCapabilities(prefix: string): StoreCapabilities {
  return {
    /** InnoDB takes 1,017 with the row number and its own. */
    maxColumns: 1_000,
    nulCharacters: true,
    secondDigits: 6,
    caseSensitiveNames: false,
    caseSensitiveTables: true,
    foldName,
    nameProblem: (part, name) => nameProblem(part, part === 'space' ? prefix + name : name),
  };
}

/** Names of columns are compared letter by letter in lower case, beyond A to Z too: é is É, but not e. */
export function foldName(name: string): string {
  return Array.from(name, (letter) => letter.toLowerCase()[0]).join('');
}

function nameProblem(part: NamePart, name: string): string | undefined {
  if (name === '') return 'is empty';
  if (/[ \t\n\v\f\r]$/.test(name)) return 'ends with white space, which the database does not keep';
  if (/[\u{10000}-\u{10ffff}]/u.test(name)) return 'has a character beyond U+FFFF, as no name here may have';
  if (name.length > LONGEST_NAME)
    return `is ${name.length} characters long; the database takes ${LONGEST_NAME}`;
  if (part === 'column') {
    return foldName(name) === ROW_NUMBER ? 'is reserved for the numbers of the rows' : undefined;
  }
  if (/^#mysql50#/i.test(name)) return 'begins with "#mysql50#", which the database reads as something else';
  if (fileNameLength(name) > LONGEST_FILE_NAME) return 'is too long for the name of a file of the database';
  if (part === 'table' && isOwnTable(name)) return 'is reserved for the bookkeeping';
  if (part === 'space' && isSystemSpace(name)) return "is one of the database's own";
  return undefined;
}

/** The database writes letters beyond A to Z into the file's name as @ and two or four characters. */
function fileNameLength(name: string): number {
  const width = (letter: string) =>
    /\w/.test(letter)
      ? 1
      : /[\u00c0-\u05ff\u1e00-\u1fff\u2160-\u217f\u24b0-\u24ef\uff20-\uff5f]/.test(letter)
        ? 3
        : 5;
  return Array.from(name).reduce((sum, letter) => sum + width(letter), 0);
}
