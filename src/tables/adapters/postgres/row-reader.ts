import type { ColumnType } from '../../table-store.ts';
import { jsonTextOf } from './column-storage.ts';
import type { TextRow } from './connections.ts';

export interface ReadRows {
  /** JSON text: an array of objects. */
  rows: string;
  /** The key cells of each row. */
  keys: TextRow[];
  more: boolean;
}

interface ReadColumn {
  name: string;
  type: ColumnType;
  storage: string;
}

/** How many rows are asked for at first; it is not known yet how large they are. */
const FIRST_ROWS = 50;
const MOST_ROWS = 5_000;
const CHUNK_BYTES = 4 * 1024 * 1024;

interface Line {
  key: TextRow;
  text: string;
}

/** Makes JSON text of the rows that it fetches, a few at a time where they are large. */
export class RowReader {
  readonly #fetch: (count: number) => Promise<TextRow[]>;
  readonly #keyCells: number;
  readonly #cells: { before: string; text: (cell: string) => string }[];
  /** Fetched; those from `#next` on are not given out yet. */
  #lines: Line[] = [];
  #next = 0;
  #ended = false;
  #fetched = 0;
  #largest = 0;

  /** The rows that `fetch` gives begin with `keyCells` cells that are their keys. */
  constructor(columns: ReadColumn[], keyCells: number, fetch: (count: number) => Promise<TextRow[]>) {
    this.#fetch = fetch;
    this.#keyCells = keyCells;
    this.#cells = columns.map(({ name, type, storage }, at) => ({
      before: `${at === 0 ? '{' : ','}${JSON.stringify(name)}:`,
      text: jsonTextOf(storage, type),
    }));
  }

  /** Ends before `maxBytes` (counted in characters) are passed, but not before the first row. */
  async read(limit: number, maxBytes: number): Promise<ReadRows> {
    const texts: string[] = [];
    const keys: TextRow[] = [];
    let size = 0;
    for (;;) {
      const line = this.#lines[this.#next];
      if (!line) {
        if (this.#ended) break;
        await this.#fill(limit - texts.length);
        continue;
      }
      size += line.text.length;
      if (texts.length === limit || (size > maxBytes && texts.length > 0)) break;
      this.#next++;
      texts.push(line.text);
      keys.push(line.key);
    }
    return { rows: `[${texts.join(',')}]`, keys, more: this.#next < this.#lines.length };
  }

  /** Only when all lines are given out; one more than `wanted` tells whether there are more. */
  async #fill(wanted: number): Promise<void> {
    const most = this.#largest === 0 ? FIRST_ROWS : Math.max(1, Math.floor(CHUNK_BYTES / this.#largest));
    const count = Math.max(1, Math.min(wanted + 1, most, MOST_ROWS, FIRST_ROWS + this.#fetched * 8));
    const rows = await this.#fetch(count);
    this.#ended = rows.length < count;
    this.#fetched += rows.length;
    [this.#lines, this.#next] = [[], 0];
    for (const row of rows) {
      const text = this.#text(row);
      this.#largest = Math.max(this.#largest, text.length);
      this.#lines.push({ key: row.slice(0, this.#keyCells), text });
    }
  }

  #text(row: TextRow): string {
    let text = this.#cells.length > 0 ? '' : '{';
    let at = this.#keyCells;
    for (const { before, text: textOf } of this.#cells) {
      const cell = row[at++] ?? null;
      text += before + (cell === null ? 'null' : textOf(cell));
    }
    return `${text}}`;
  }
}
