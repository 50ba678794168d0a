import type { HttpRequest, SourceTable } from '../../model/http-request.ts';
import { didYouMean } from '../../model/did-you-mean.ts';
import { ServiceError } from '../../model/errors.ts';
import type { Json } from '../../model/json.ts';
import { INPUT_SOURCE } from '../../model/source.ts';
import type { TableAsk, TableStore } from '../../tables/table-store.ts';
import { openTables, type DataPlaces } from '../data-places.ts';
import type { OperationContext } from '../operation.ts';

/** What requests are made for: a record, a batch of records, or nothing, where there is no source table. */
export interface SourceRecord {
  /** From 1, in the order of the table. */
  number: number;
  /** null: there is no source table. */
  shownNumber: number | null;
  /** `$ctx.data`. */
  dataJson: string;
  /** How many records of the table it stands for. */
  count: number;
  /** The number of the first of them, from 1. */
  first: number;
  /** Says which it is, when the source is read again: the keys of its first and its last row. */
  id: string;
  /** Of its last row: the table goes on after it. */
  key: string | null;
}

/** Where reading goes on. */
export interface SourcePosition {
  after: string | null;
  /** How many records, or batches, lie before it. */
  number: number;
  /** How many rows. */
  rows: number;
  /** The last row of all, as it was when the job began. */
  until: string | null;
}

/** The records of one job's source, opened. */
export interface Source {
  /** Of all records; null: there is no source table. */
  readonly total: number | null;
  /** Where its end is. */
  readonly until: string | null;
  records(): AsyncGenerator<SourceRecord>;
  close(): Promise<void>;
}

/** Records are read this many at once where each gets a request of its own. */
const READ_AHEAD = 200;

export type TableOfSource = NonNullable<HttpRequest['sourceTable']>;

export interface OpenTable {
  store: TableStore;
  table: TableAsk;
}

/** Of which there has to be one. */
export async function openSourceTable(
  sourceTable: TableOfSource,
  places: DataPlaces,
  { appId, jobId }: Pick<OperationContext, 'appId' | 'jobId'>,
): Promise<OpenTable> {
  const { source, space, table: name = '' } = sourceTable;
  const { store, defaultSpace } = await openTables(places, appId, source, 'sourceTable.source');
  const table = { space: space ?? defaultSpace, table: name, jobId };
  await requireTable(store, table, 'sourceTable.table');
  return { store, table };
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

export function isInput(sourceTable: Pick<SourceTable, 'source'>): boolean {
  return sourceTable.source === INPUT_SOURCE;
}

/** Without a source table there is one round of requests, and `$ctx.data` is what the scenario was given. */
export function noSource({ number }: SourcePosition, input: readonly Json[] | null): Source {
  return {
    total: null,
    until: null,
    async *records() {
      if (number > 0) return;
      const dataJson = JSON.stringify(input);
      yield { number: 1, shownNumber: null, dataJson, count: 0, first: 1, id: '', key: null };
    },
    close: async () => {},
  };
}

/** The records that the scenario was given, as if they were a table. */
export function inputSource(
  { batching, batchSize }: TableOfSource,
  position: SourcePosition,
  input: readonly Json[] | null,
): Source {
  if (!input) {
    const problem = 'sourceTable.source: "input" stands for the data of a scenario, and none was given';
    throw new ServiceError('invalid_configuration', problem, { path: 'sourceTable.source' });
  }
  const size = batching ? batchSize : 1;
  return {
    total: input.length,
    until: null,
    async *records() {
      for (let number = position.number + 1; (number - 1) * size < input.length; number += 1) {
        const from = (number - 1) * size;
        const records = input.slice(from, from + size);
        const dataJson = JSON.stringify(batching ? records : records[0]);
        const place = { first: from + 1, id: `#${from + 1}` };
        yield { number, shownNumber: number, dataJson, count: records.length, ...place, key: null };
      }
    },
    close: async () => {},
  };
}

/** Reads a stable picture of the table by the order of its keys, however much is written meanwhile. */
export async function tableSource(
  { batching, batchSize }: TableOfSource,
  position: SourcePosition,
  { store, table }: OpenTable,
): Promise<Source> {
  const { after, until } = position;
  const rows = await store.openSnapshot(table, { after, until });
  return {
    total: await store.count(table),
    until: rows.lastKey,
    async *records() {
      let { number, rows: before } = position;
      for (;;) {
        const batch = await rows.nextBatch(batching ? batchSize : READ_AHEAD);
        if (!batch) return;
        const { count, keys } = batch;
        const first = before + 1;
        before += count;
        if (batching) {
          number += 1;
          const key = keys.at(-1) ?? null;
          const id = `${keys[0] ?? first}..${key ?? before}`;
          yield { number, shownNumber: number, dataJson: batch.rows, count, first, id, key };
          continue;
        }
        for (const [index, row] of (JSON.parse(batch.rows) as unknown[]).entries()) {
          number += 1;
          const key = keys[index] ?? null;
          const dataJson = JSON.stringify(row);
          yield {
            number,
            shownNumber: number,
            dataJson,
            count: 1,
            first: number,
            id: key ?? `#${number}`,
            key,
          };
        }
      }
    },
    close: () => rows.close(),
  };
}
