import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { cellTexts, type Cell } from '../../cells.ts';
import { KeyError } from '../../table-errors.ts';
import type { TableRecord } from './catalog.ts';
import { quote, ROW_NUMBER } from './sql-names.ts';

export interface ReadRows {
  /** JSON text: an array of objects. */
  rows: string;
  count: number;
  /** Of the rows. */
  numbers: number[];
  more: boolean;
}

/** Reads rows of one table in the order of their numbers, as JSON text. */
export class RowReader {
  readonly table: TableRecord;
  readonly #statement: StatementSync;
  readonly #cells: { before: string; text: (cell: NonNullable<Cell>) => string }[];

  constructor(database: DatabaseSync, table: TableRecord) {
    this.table = table;
    const row = quote(ROW_NUMBER);
    const names = table.columns.map(({ name }) => `, ${quote(name)}`).join('');
    this.#statement = database.prepare(
      `SELECT ${row}${names} FROM ${quote(table.physical)} WHERE ${row} > ? AND ${row} <= ? ORDER BY ${row} LIMIT ?`,
    );
    this.#statement.setReturnArrays(true);
    this.#statement.setReadBigInts(table.columns.some(({ type }) => type === 'bigint'));
    this.#cells = table.columns.map(({ name, type }, at) => ({
      before: `${at === 0 ? '{' : ','}${JSON.stringify(name)}:`,
      text: cellTexts[type],
    }));
  }

  /** Ends before `maxBytes` (counted in characters) are passed, but not before the first row. `until` null: no end. */
  read(after: number, until: number | null, limit: number, maxBytes: number): ReadRows {
    const texts: string[] = [];
    const numbers: number[] = [];
    let [size, more] = [0, false];
    // One row more than asked for tells whether there are more.
    const found = this.#statement.iterate(after, until ?? Number.MAX_SAFE_INTEGER, limit + 1);
    for (const row of found as unknown as Iterable<Cell[]>) {
      const text = this.#text(row);
      size += text.length;
      if (texts.length === limit || (size > maxBytes && texts.length > 0)) {
        more = true;
        break;
      }
      texts.push(text);
      numbers.push(Number(row[0]));
    }
    return { rows: `[${texts.join(',')}]`, count: texts.length, numbers, more };
  }

  #text(row: Cell[]): string {
    let text = this.#cells.length > 0 ? '' : '{';
    let at = 1; // the row's number comes before its cells
    for (const { before, text: textOf } of this.#cells) {
      const cell = row[at++] ?? null;
      text += before + (cell === null ? 'null' : textOf(cell));
    }
    return `${text}}`;
  }
}

/** The table's number in it tells a table from the one that took its place. */
export function keyOf({ id }: TableRecord, row: number): string {
  return `${id}-${row}`;
}

export function rowAfter({ id, name }: TableRecord, key: string): number {
  const [, table, row] = /^(\d{1,15})-(\d{1,16})$/.exec(key) ?? [];
  if (table === undefined)
    throw new KeyError({ table: name, problem: 'it is no key that this service gave out' });
  if (Number(table) !== id) {
    throw new KeyError({
      table: name,
      problem: 'the table was replaced since the key was given out; begin again',
    });
  }
  return Number(row);
}
