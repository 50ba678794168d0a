import type { PageLoad } from './load-tables.ts';

/** How many records each table got. */
export class TableTally {
  readonly #tables = new Map<string, { source: string; space: string; table: string; records: number }>();

  add(loads: readonly PageLoad[]): void {
    for (const { place, rowCount } of loads) {
      const key = JSON.stringify(place);
      const known = this.#tables.get(key) ?? { ...place, records: 0 };
      this.#tables.set(key, { ...known, records: known.records + rowCount });
    }
  }

  list(): { source: string; space: string; table: string; records: number }[] {
    return [...this.#tables.values()];
  }
}
