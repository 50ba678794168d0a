import {
  MISFIT,
  takes,
  valueExcerpt,
  type Cell,
  type CellLimits,
  type CellMakers,
  type ToCell,
} from './cells.ts';
import { parseExact } from './exact-json.ts';
import { CellError, RowsError } from './table-errors.ts';
import type { Column, RowsText, TableName } from './table-store.ts';
import { isUtf8 } from 'node:buffer';

export type Row = Record<string, unknown>;

/** The objects of a JSON text, every number with all its digits. */
export function parseRows(table: TableName, text: RowsText): Row[] {
  if (typeof text !== 'string' && !isUtf8(text)) {
    throw new RowsError({ table, row: null, problem: 'the text is not valid UTF-8' });
  }
  const rows = parsed(
    table,
    typeof text === 'string' ? text : Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString(),
  );
  if (!Array.isArray(rows)) throw new RowsError({ table, row: null, problem: 'it is no JSON array' });
  for (const [at, row] of (rows as unknown[]).entries()) {
    if (typeof row === 'object' && row !== null && !Array.isArray(row)) continue;
    throw new RowsError({ table, row: at, problem: `${valueExcerpt(row)} is no object` });
  }
  return rows as Row[];
}

function parsed(table: TableName, text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    throw new RowsError({ table, row: null, problem: `it is no valid JSON: ${(error as Error).message}` });
  }
}

interface Slot {
  column: Column;
  toCell: ToCell;
  /** A name such as "constructor" is there on every object, its own or not. */
  inherited: boolean;
  /** A key of a merge. */
  required: boolean;
}

const KEY_TAKES = 'any value but null, because it is a key of the merge';

/** Turns rows into cells, in the order of the columns. */
export class RowCells {
  readonly #table: TableName;
  readonly #slots: Slot[];
  readonly #limits: CellLimits;

  constructor(
    table: TableName,
    columns: Column[],
    makers: CellMakers,
    limits: CellLimits,
    keys: string[] = [],
  ) {
    this.#table = table;
    this.#limits = limits;
    this.#slots = columns.map((column) => ({
      column,
      toCell: makers[column.type],
      inherited: column.name in Object.prototype,
      required: keys.includes(column.name),
    }));
  }

  /** Writes the cells of a row into `into`, from `at` on. */
  write(row: Row, index: number, into: Cell[], at: number): void {
    let offset = at;
    for (const { column, toCell, inherited, required } of this.#slots) {
      const value = inherited && !Object.hasOwn(row, column.name) ? null : (row[column.name] ?? null);
      const cell = value === null ? null : toCell(value);
      if (cell === MISFIT) throw this.#fault(column, value, index, takes(column.type, value, this.#limits));
      if (required && cell === null) throw this.#fault(column, null, index, KEY_TAKES);
      into[offset++] = cell;
    }
  }

  #fault({ name, type }: Column, value: unknown, row: number, takes: string): CellError {
    return new CellError({ table: this.#table, row, column: name, type, value: valueExcerpt(value), takes });
  }
}
