import type { TableStore } from '../../tables/table-store.ts';
import type { FileStore } from '../../files/file-store.ts';
import { openTables, type DataPlaces } from '../data-places.ts';
import type { TableReference, TransmitSource } from './body.ts';
import { requireTable } from './source-records.ts';
import { encodeTable } from './table-encoding.ts';

const ROWS_AT_ONCE = 1_000;

/** The content of tables and files for bodies: streamed, never whole in memory. */
export function transmitTables(places: DataPlaces, appId: string, jobId: string): TransmitSource {
  return {
    async open(reference, contentType, path) {
      const { sourceName } = reference;
      const found = (await places.sources(appId)).get(sourceName);
      if (found?.type === 'FileSource') {
        return openFile(await places.files(appId, sourceName), found.defaultSpace, reference);
      }
      const opened = await openTables(places, appId, sourceName, `${path}.sourceName`);
      return openTable(opened, reference, contentType, jobId, path);
    },
  };
}

async function openFile(files: FileStore, defaultSpace: string, { spaceName, tableName }: TableReference) {
  const file = await files.open({ space: spaceName ?? defaultSpace, name: tableName });
  return { stream: () => file.stream(), length: file.size };
}

async function openTable(
  { store, defaultSpace }: { store: TableStore; defaultSpace: string },
  { spaceName, tableName }: TableReference,
  contentType: string,
  jobId: string,
  path: string,
) {
  const table = { space: spaceName ?? defaultSpace, table: tableName, jobId };
  await requireTable(store, table, `${path}.tableName`);
  const columns = (await store.columns(table)) ?? [];
  async function* batches() {
    const rows = await store.openSnapshot(table);
    try {
      for (
        let batch = await rows.nextBatch(ROWS_AT_ONCE);
        batch;
        batch = await rows.nextBatch(ROWS_AT_ONCE)
      ) {
        yield batch.rows;
      }
    } finally {
      await rows.close();
    }
  }
  const names = columns.map(({ name }) => name);
  encodeTable({ columns: names, batches: [] }, contentType); // refuses an unknown Content-Type before it is sent
  return { stream: () => encodeTable({ columns: names, batches: batches() }, contentType) };
}
