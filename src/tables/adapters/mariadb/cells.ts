import {
  cellMakers,
  cellTexts,
  MISFIT,
  valueExcerpt,
  type Cell,
  type CellMakers,
  type ToCell,
} from '../../cells.ts';
import { parseExact } from '../../exact-json.ts';
import { RowCells, type Row } from '../../row-cells.ts';
import { CellError, RowsError } from '../../table-errors.ts';
import type { ColumnType, TableName } from '../../table-store.ts';
import type { StoredColumn } from './catalog.ts';
import { mariadbCapabilities } from './sql-names.ts';

const LIMITS = mariadbCapabilities('');
const base = cellMakers(LIMITS);
const asText =
  (toCell: ToCell): ToCell =>
  (value) => {
    const cell = toCell(value);
    return typeof cell === 'number' || typeof cell === 'bigint' ? String(cell) : cell;
  };

/**
 * Everything but bytes goes as text, which the server turns into numbers and dates without loss: the connector sends
 * the rows of a batch in one packet only as long as each column keeps to one type of JavaScript, and a number is of
 * two, according to its size.
 */
const MAKERS: CellMakers = {
  ...base,
  integer: asText(base.integer),
  bigint: asText(base.bigint),
  double: asText(base.double),
  boolean: (value) => (typeof value === 'boolean' ? String(Number(value)) : MISFIT),
  timestamp: (value) => {
    const cell = base.timestamp(value);
    return typeof cell === 'string' ? cell.slice(0, -1).replace('T', ' ') : cell;
  },
};

export type Cells = Cell[];

/** Room in a packet beside the cells. */
const PACKET_MARGIN = 1024;
const CELL_MARGIN = 10;

/** The cells of all rows, or the error that names the first one at fault. */
export function cellsOf(
  table: TableName,
  columns: StoredColumn[],
  rows: Row[],
  packetBytes: number,
  keys: string[] = [],
): Cells[] {
  const makeCells = new RowCells(table, columns, MAKERS, LIMITS, keys);
  const ruled = [...columns.entries()].filter(([, { rule }]) => rule);
  const most = packetBytes - PACKET_MARGIN - CELL_MARGIN * columns.length;
  return rows.map((row, index) => {
    const cells: Cells = Array.from({ length: columns.length }, () => null);
    makeCells.write(row, index, cells, 0);
    for (const [at, column] of ruled) checkRule(table, column, row, index, cells[at] ?? null);
    checkSize(table, columns, row, index, cells, most);
    return cells;
  });
}

function checkRule(
  table: TableName,
  { name, type, rule }: StoredColumn,
  row: Row,
  index: number,
  cell: Cell,
): void {
  if (cell === null || !rule || rule.fits(cell)) return;
  throw new CellError({
    table,
    row: index,
    column: name,
    type,
    value: valueExcerpt(row[name]),
    takes: rule.takes,
  });
}

/** A character has three bytes at most for each of its one or two places in the text. */
const BYTES_A_PLACE = 3;

function checkSize(
  table: TableName,
  columns: StoredColumn[],
  row: Row,
  index: number,
  cells: Cells,
  most: number,
): void {
  let places = 0;
  for (const cell of cells) if (cell !== null) places += (cell as string | Uint8Array).length;
  if (places * BYTES_A_PLACE <= most) return;
  let bytes = 0;
  for (const [at, { name, type }] of columns.entries()) {
    const size = Buffer.byteLength((cells[at] ?? '') as string | Uint8Array);
    bytes += size;
    if (size <= most) continue;
    const takes = `values of up to ${most} bytes, which the server's max_allowed_packet leaves`;
    throw new CellError({ table, row: index, column: name, type, value: valueExcerpt(row[name]), takes });
  }
  if (bytes <= most) return;
  const problem = `its ${bytes} bytes are more than the ${most} that the server's max_allowed_packet leaves`;
  throw new RowsError({ table, row: index, problem });
}

/** A cell on its way into a wider column goes the way that it would go through JSON. */
export function recast(text: string, to: ColumnType): Cell {
  const cell = MAKERS[to](parseExact(text));
  if (cell === MISFIT) throw new Error(`${text.slice(0, 80)} does not fit into ${to}`);
  return cell;
}

/** The JSON text of a cell as it is sent to the server. */
export function sentText(type: ColumnType, cell: NonNullable<Cell>): string {
  if (type === 'boolean') return cell === '1' ? 'true' : 'false';
  if (type === 'timestamp') return `"${String(cell).replace(' ', 'T')}Z"`;
  if (type === 'double') return cellTexts.double(Number(cell));
  return cellTexts[type](cell);
}
