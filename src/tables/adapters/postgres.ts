import { movable } from '../movable.ts';
import type {
  Batch,
  Checkpoint,
  Column,
  PageCommit,
  PageOutcome,
  ReadOptions,
  RowsPage,
  RowsWrite,
  SnapshotOptions,
  SourceRows,
  StoreCapabilities,
  TableAsk,
  TableDescription,
  TableName,
  TableStore,
} from '../table-store.ts';
import { Thread } from '../thread.ts';
import type { ConnectionOptions } from './postgres/connections.ts';
import { POSTGRES_CAPABILITIES } from './postgres/names.ts';
import type { OpenedSnapshot, PostgresTables } from './postgres/store.ts';

export interface PostgresTablesOptions {
  connectionString: string;
  /** Of the pool; each open snapshot has one more. */
  maxConnections?: number;
  ssl?: ConnectionOptions['ssl'];
  /** Hears of connections that break while nobody uses them; they are replaced. */
  onConnectionLost?: (error: Error) => void;
}

const CONNECTIONS = 10;

/** The tables of one database; a space is a schema. It is connected to with the first call. */
export function openPostgresTables(options: PostgresTablesOptions): TableStore {
  const { connectionString, maxConnections = CONNECTIONS, ssl, onConnectionLost } = options;
  const place: ConnectionOptions = { connectionString, maxConnections, ...(ssl !== undefined && { ssl }) };
  const entry = new URL('./postgres/thread-entry.ts', import.meta.url);
  return new ThreadedTables(new Thread(entry, place, onConnectionLost));
}

/**
 * All of it in a thread, because reading JSON and writing the text for COPY holds up a thread for 5 ms per 1,000 rows
 * of 10 columns; the service's own spends 0.3 ms on them, of 12 ms in all (on a busy machine).
 */
class ThreadedTables implements TableStore {
  readonly capabilities: StoreCapabilities = POSTGRES_CAPABILITIES;
  readonly #thread: Thread<PostgresTables>;

  constructor(thread: Thread<PostgresTables>) {
    this.#thread = thread;
  }

  columns(table: TableAsk): Promise<Column[] | null> {
    return this.#thread.call('columns', [table]);
  }

  tables(): Promise<TableDescription[]> {
    return this.#thread.call('tables', []);
  }

  count(table: TableAsk): Promise<number> {
    return this.#thread.call('count', [table]);
  }

  claim(jobId: string, step: string, epoch: number): Promise<Checkpoint | null> {
    return this.#thread.call('claim', [jobId, step, epoch]);
  }

  commitPage(commit: PageCommit): Promise<PageOutcome> {
    const transfer: ArrayBuffer[] = [];
    const loads = commit.loads.map((load) => ({ ...load, rows: movable(load.rows, transfer) }));
    return this.#thread.call('commitPage', [{ ...commit, loads }], transfer);
  }

  finish(jobId: string, step: string, epoch: number): Promise<void> {
    return this.#thread.call('finish', [jobId, step, epoch]);
  }

  abandon(jobId: string): Promise<void> {
    return this.#thread.call('abandon', [jobId]);
  }

  dropTemporary(jobId: string): Promise<void> {
    return this.#thread.call('dropTemporary', [jobId]);
  }

  jobs(): Promise<string[]> {
    return this.#thread.call('jobs', []);
  }

  read(table: TableAsk, options: ReadOptions): Promise<RowsPage> {
    return this.#thread.call('read', [table, options]);
  }

  async openSnapshot(table: TableAsk, options: SnapshotOptions = {}): Promise<SourceRows> {
    return new ThreadedSnapshot(this.#thread, await this.#thread.call('openSnapshot', [table, options]));
  }

  writeRows(write: RowsWrite): Promise<number> {
    const transfer: ArrayBuffer[] = [];
    const rows = movable(write.rows, transfer);
    return this.#thread.call('writeRows', [{ ...write, rows }], transfer);
  }

  dropTable(table: TableName): Promise<boolean> {
    return this.#thread.call('dropTable', [table]);
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

class ThreadedSnapshot implements SourceRows {
  readonly columns: Column[];
  readonly lastKey: string;
  readonly #thread: Thread<PostgresTables>;
  readonly #id: string;

  constructor(thread: Thread<PostgresTables>, { id, columns, lastKey }: OpenedSnapshot) {
    this.#thread = thread;
    this.#id = id;
    this.columns = columns;
    this.lastKey = lastKey;
  }

  nextBatch(size: number, maxBytes?: number): Promise<Batch | null> {
    return this.#thread.call('nextBatch', [this.#id, size, maxBytes]);
  }

  close(): Promise<void> {
    return this.#thread.call('closeSnapshot', [this.#id]);
  }
}
