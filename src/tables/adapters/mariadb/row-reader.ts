import type { Connection, FieldInfo } from 'mariadb';
import { cellTexts } from '../../cells.ts';
import { ColumnsError, quoted } from '../../table-errors.ts';
import { sqlName, type StoredColumn, type StoredTable } from './catalog.ts';
import { BEGINNING, beyond, type Position } from './keys.ts';
import { quote } from './sql-names.ts';

export interface ReadRows {
  /** JSON text: an array of objects. */
  rows: string;
  count: number;
  last: Position;
  more: boolean;
}

export interface ReadRow {
  position: Position;
  /** JSON text: an object. */
  text: string;
}

type Raw = string | Buffer | null;

/** Of a statement; what is left of it when a page is full is received in vain. */
const LEAST_ROWS = 16;
const MOST_ROWS = 10_000;
/** The character set of bytes. */
const BINARY = 63;
/** From VARCHAR on the types have texts or bytes; those before are numbers and dates, sent as text. */
const FIRST_OF_BYTES = 15;
const DECIMAL = 246;

/** Reads rows of one table in their order, as JSON text. The names stand in no statement, so none is mistaken. */
export class RowReader {
  readonly #connection: Connection;
  readonly #table: StoredTable;
  readonly #cells: { before: string; text: (raw: NonNullable<Raw>) => string }[];
  readonly #select: string;
  readonly #order: string;

  /** `names`: of the columns, where they are not all that the table shows. */
  constructor(connection: Connection, table: StoredTable, names?: string[]) {
    this.#connection = connection;
    this.#table = table;
    this.#cells = table.columns.map((column, at) => ({
      before: `${at === 0 ? '{' : ','}${JSON.stringify(column.name)}:`,
      text: cellText(table, column),
    }));
    const keys = table.order.map(({ name }) => `t.${quote(name)}, `).join('');
    const cells = names?.map((name) => `t.${quote(name)}`).join(', ') ?? 't.*';
    // A table without columns has nothing but the row number, which is invisible.
    this.#select = `SELECT ${table.columns.length > 0 ? `${keys}${cells}` : keys.slice(0, -2)} FROM ${sqlName(table)} AS t`;
    this.#order = table.order.map(({ name }) => quote(name)).join(', ');
  }

  /** Ends before `maxBytes` (counted in characters) are passed, but not before the first row. */
  async read(after: Position, limit: number, maxBytes: number): Promise<ReadRows> {
    const texts: string[] = [];
    const state = { size: 0, last: after, more: false };
    const atOnce = Math.floor(maxBytes / Math.max(1, this.#table.rowBytes));
    const chunk = Math.min(Math.max(LEAST_ROWS, atOnce), MOST_ROWS);
    for (let wanted = 0, received = 0; received === wanted && !state.more;) {
      // One row more than asked for tells whether there are more.
      wanted = Math.min(limit + 1 - texts.length, chunk);
      received = 0;
      await this.each(state.last, null, wanted, ({ position, text }) => {
        received++;
        state.size += text.length;
        state.more = texts.length === limit || (state.size > maxBytes && texts.length > 0);
        if (state.more) return false;
        texts.push(text);
        state.last = position;
        return true;
      });
    }
    const { last, more } = state;
    return { rows: `[${texts.join(',')}]`, count: texts.length, last, more };
  }

  /** Gives row by row to `take`, which says whether, or when, to go on. `until` null: no end. */
  each(
    after: Position,
    until: Position | null,
    limit: number | null,
    take: (row: ReadRow) => boolean | Promise<void>,
  ): Promise<void> {
    const started = Number(after[0] ?? 0);
    let at = started;
    const width = this.#table.order.length;
    const stream = this.#connection.queryStream({
      sql: this.#sql(after, until, limit),
      rowsAsArray: true,
      typeCast: rawValue,
    });
    return new Promise((resolve, reject) => {
      let stopped = false;
      const stop = () => {
        stopped = true;
        // The connector's own way to be rid of the rest; `destroy` would leave the connection paused for ever.
        (stream as unknown as { close(): void }).close();
      };
      stream.on('data', (row: Raw[]) => {
        if (stopped) return;
        try {
          at++;
          const position = width > 0 ? row.slice(0, width).map(positionText) : [String(at)];
          const goOn = take({ position, text: this.#text(row, width) });
          if (goOn === false) stop();
          if (typeof goOn === 'boolean') return;
          stream.pause();
          goOn.then(() => stream.resume(), reject);
        } catch (error) {
          stop();
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
      stream.on('error', reject);
      stream.on('end', resolve);
    });
  }

  async last(): Promise<Position> {
    const { order } = this.#table;
    const name = sqlName(this.#table);
    if (order.length === 0) {
      const [row] = await this.#connection.query<[number][]>({
        sql: `SELECT CAST(count(*) AS DOUBLE) FROM ${name}`,
        rowsAsArray: true,
      });
      return [String(row?.[0] ?? 0)];
    }
    const columns = order.map(({ name }) => quote(name));
    const [row] = await this.#connection.query<Raw[][]>({
      sql: `SELECT ${columns.join(', ')} FROM ${name} ORDER BY ${columns.map((column) => `${column} DESC`).join(', ')} LIMIT 1`,
      rowsAsArray: true,
      typeCast: rawValue,
    });
    return row ? row.map(positionText) : BEGINNING;
  }

  #sql(after: Position, until: Position | null, limit: number | null): string {
    if (this.#order === '') {
      const from = Number(after[0] ?? 0);
      const rest = until === null ? Number.MAX_SAFE_INTEGER : Math.max(0, Number(until[0] ?? 0) - from);
      return `${this.#select} LIMIT ${from}, ${Math.min(rest, limit ?? rest)}`;
    }
    const end =
      until === null ? '' : until.length === 0 ? ' AND FALSE' : ` AND NOT ${beyond(this.#table, until)}`;
    const count = limit === null ? '' : ` LIMIT ${limit}`;
    return `${this.#select} WHERE ${beyond(this.#table, after)}${end} ORDER BY ${this.#order}${count}`;
  }

  #text(row: Raw[], from: number): string {
    let text = this.#cells.length > 0 ? '' : '{';
    let at = from; // what orders the row comes before its cells
    for (const { before, text: textOf } of this.#cells) {
      const raw = row[at++] ?? null;
      text += before + (raw === null ? 'null' : textOf(raw));
    }
    return `${text}}`;
  }
}

/** Text as the server writes it, and bytes where the column holds bytes. */
function rawValue(field: FieldInfo): Raw {
  const { columnType, collation } = field;
  const isBytes = columnType >= FIRST_OF_BYTES && columnType !== DECIMAL && collation.index === BINARY;
  return isBytes ? field.buffer() : field.string();
}

function positionText(raw: Raw): string {
  if (raw === null) return '';
  return typeof raw === 'string' ? raw : raw.toString('hex');
}

function cellText(table: StoredTable, { name, type, own }: StoredColumn): (raw: NonNullable<Raw>) => string {
  switch (type) {
    case 'integer':
    case 'bigint':
    case 'decimal':
      // ZEROFILL
      return own ? cellTexts[type] : (raw) => cellTexts[type](String(raw).replace(/^(-?)0+(?=\d)/, '$1'));
    case 'double':
      return (raw) => cellTexts.double(Number(raw));
    case 'boolean':
      return (raw) => booleanText(table, name, String(raw));
    case 'timestamp':
      return (raw) => `"${timestampText(String(raw))}"`;
    case 'string':
      return (raw) => JSON.stringify(typeof raw === 'string' ? raw : raw.toString());
    default:
      return cellTexts[type];
  }
}

function booleanText(table: StoredTable, name: string, text: string): string {
  if (text === '1') return 'true';
  if (text === '0') return 'false';
  const problem = `${quoted(name)} is tinyint(1), which is boolean, but a row holds ${text}; make it smallint`;
  throw new ColumnsError({ table: table.name, column: name, problem });
}

/** From 2024-01-31 10:00:00.250000. */
function timestampText(text: string): string {
  const [second = '', fraction = ''] = text.replace(' ', 'T').split('.');
  const significant = fraction.replace(/0+$/, '');
  if (significant === '') return `${second}Z`;
  return `${second}.${significant.padEnd(Math.ceil(significant.length / 3) * 3, '0')}Z`;
}
