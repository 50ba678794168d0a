import type { RowsText } from './table-store.ts';

/** A copy of its own, to be moved into a thread: a view would drag along all of the memory that it looks at. */
export function movable(rows: RowsText, transfer: ArrayBuffer[]): RowsText {
  if (typeof rows === 'string') return rows;
  const copy = new Uint8Array(rows);
  transfer.push(copy.buffer);
  return copy;
}
