import type { HttpRequest } from '../../model/http-request.ts';
import { didYouMean } from '../../model/did-you-mean.ts';
import { ServiceError } from '../../model/errors.ts';
import type { TableAsk, TableStore } from '../../tables/table-store.ts';
import { sourceOfType } from '../data-places.ts';

/** What one request is made for: a record, a batch of records, or nothing, where there is no source table. */
export interface SourceRecord {
  /** From 1; null: there is no source table. */
  number: number | null;
  /** `$ctx.data`. */
  dataJson: string;
  /** How many records of the table it stands for. */
  count: number;
  /** Where the table goes on after it. */
  key: string | null;
}

/** Records are read this many at once where each gets a request of its own. */
const READ_AHEAD = 200;

export function sourceTableName(
  sourceTable: NonNullable<HttpRequest['sourceTable']>,
  jobId: string,
): TableAsk {
  const { defaultSpace } = sourceOfType(sourceTable.source, 'TableSource', 'sourceTable.source');
  return { space: sourceTable.space ?? defaultSpace, table: sourceTable.table, jobId };
}

export async function requireTable(store: TableStore, table: TableAsk, path: string): Promise<void> {
  if ((await store.columns(table)) !== null) return;
  const known = (await store.tables())
    .filter(({ space }) => space === table.space)
    .map((found) => found.table);
  throw new ServiceError(
    'unknown_table',
    `${path}: there is no table "${table.table}" in the space "${table.space}".` +
      `${didYouMean(table.table, known)} Known: ${known.slice(0, 20).join(', ') || 'none'}`,
    { path },
  );
}

/** Reads a stable picture of the table by the order of its keys, however much is written meanwhile. */
export async function* sourceRecords(
  { sourceTable }: HttpRequest,
  store: TableStore,
  jobId: string,
): AsyncGenerator<SourceRecord> {
  if (!sourceTable) {
    yield { number: null, dataJson: 'null', count: 0, key: null };
    return;
  }
  const table = sourceTableName(sourceTable, jobId);
  await requireTable(store, table, 'sourceTable.table');
  const { batching, batchSize } = sourceTable;
  const rows = await store.openSnapshot(table);
  try {
    let number = 0;
    for (;;) {
      const batch = await rows.nextBatch(batching ? batchSize : READ_AHEAD);
      if (!batch) return;
      if (batching) {
        number += 1;
        yield { number, dataJson: batch.rows, count: batch.count, key: batch.lastKey };
        continue;
      }
      for (const row of JSON.parse(batch.rows) as unknown[]) {
        number += 1;
        yield { number, dataJson: JSON.stringify(row), count: 1, key: batch.lastKey };
      }
    }
  } finally {
    await rows.close();
  }
}
