import type { PageLoad } from './load-tables.ts';

export interface TableRecords {
  source: string;
  space: string;
  table: string;
  records: number;
}

/** How many records each table got. */
export class TableTally {
  readonly #tables = new Map<string, TableRecords>();

  constructor(before: readonly TableRecords[] = []) {
    for (const { source, space, table, records } of before) this.#add(source, space, table, records);
  }

  add(loads: readonly PageLoad[]): void {
    for (const { place, rowCount } of loads) this.#add(place.source, place.space, place.table, rowCount);
  }

  list(): TableRecords[] {
    return [...this.#tables.values()];
  }

  #add(source: string, space: string, table: string, records: number): void {
    const key = JSON.stringify([source, space, table]);
    const before = this.#tables.get(key)?.records ?? 0;
    this.#tables.set(key, { source, space, table, records: before + records });
  }
}
