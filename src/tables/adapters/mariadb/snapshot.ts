import { mkdtemp, open, rm, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreUnavailable } from '../../table-errors.ts';
import { MAX_PAGE_BYTES, type Batch, type Column, type SourceRows } from '../../table-store.ts';
import { plainColumns, type StoredTable } from './catalog.ts';
import { keyOf, type Position } from './keys.ts';
import type { ReadRow } from './row-reader.ts';

const CHUNK_CHARACTERS = 256 * 1024;
/** What stays in memory; the rest waits in a file. */
const MEMORY_CHARACTERS = 2 * 1024 * 1024;

type Chunk = ReadRow[] | { offset: number; length: number };

/**
 * The rows of a table, received all at once and kept on this side. A transaction that stays open would keep every
 * change of the table's columns and every swap waiting, for as long as somebody reads; this one ends as soon as the
 * rows are here (380,000 a second), and nothing that happens to the table or to the connection reaches the reader.
 */
export class SnapshotRows implements SourceRows {
  readonly columns: Column[];
  readonly lastKey: string;
  readonly #table: StoredTable;
  readonly #spool = new Spool();
  readonly #abort: () => void;
  #current: ReadRow[] = [];
  #at = 0;
  #closed = false;

  constructor(table: StoredTable, last: Position, abort: () => void) {
    this.#table = table;
    this.#abort = abort;
    this.columns = plainColumns(table.columns);
    this.lastKey = keyOf(table, last);
  }

  get spool(): Spool {
    return this.#spool;
  }

  async nextBatch(size: number, maxBytes: number = MAX_PAGE_BYTES): Promise<Batch | null> {
    if (!Number.isInteger(size) || size < 1)
      throw new RangeError(`${size} rows: a batch has at least one row`);
    if (this.#closed) throw new StoreUnavailable({ problem: 'the snapshot is closed' });
    const texts: string[] = [];
    let characters = 0;
    const keys: string[] = [];
    while (texts.length < size) {
      const row = this.#current[this.#at] ?? (await this.#nextRow());
      if (!row) break;
      characters += row.text.length;
      if (characters > maxBytes && texts.length > 0) break;
      texts.push(row.text);
      keys.push(keyOf(this.#table, row.position));
      this.#at++;
    }
    if (texts.length === 0) return null;
    return { rows: `[${texts.join(',')}]`, count: texts.length, keys };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#abort();
    await this.#spool.close();
  }

  async #nextRow(): Promise<ReadRow | undefined> {
    this.#current = (await this.#spool.take()) ?? [];
    this.#at = 0;
    return this.#current[0];
  }
}

/** A queue of rows: its beginning in memory, what does not fit there in a file that has no name any more. */
export class Spool {
  readonly #chunks: Chunk[] = [];
  #filling: ReadRow[] = [];
  #fillingCharacters = 0;
  #memoryCharacters = 0;
  #file: Promise<FileHandle> | undefined;
  #fileBytes = 0;
  #writing: Promise<void> = Promise.resolve();
  #chunksInWriting = 0;
  #ended: { error: Error | undefined } | undefined;
  #wake: () => void = () => {};

  /** Whether more may come at once; otherwise after `drained`. */
  add(row: ReadRow): boolean {
    this.#filling.push(row);
    this.#fillingCharacters += row.text.length;
    if (this.#fillingCharacters < CHUNK_CHARACTERS) return true;
    return this.#flush();
  }

  drained(): Promise<void> {
    return this.#writing;
  }

  async end(error?: Error): Promise<void> {
    this.#flush();
    await this.#writing;
    this.#ended ??= { error };
    this.#wake();
  }

  /** undefined: that was all. */
  async take(): Promise<ReadRow[] | undefined> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk) return this.#load(chunk);
      if (this.#ended?.error) throw this.#ended.error;
      if (this.#ended) return undefined;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async close(): Promise<void> {
    this.#ended ??= { error: new StoreUnavailable({ problem: 'the snapshot is closed' }) };
    this.#chunks.length = 0;
    this.#wake();
    await this.#writing;
    await (await this.#file)?.close();
    this.#file = undefined;
  }

  #flush(): boolean {
    const [rows, characters] = [this.#filling, this.#fillingCharacters];
    if (rows.length === 0 || this.#ended) return true;
    this.#filling = [];
    this.#fillingCharacters = 0;
    if (this.#chunksInWriting === 0 && this.#memoryCharacters + characters <= MEMORY_CHARACTERS) {
      this.#memoryCharacters += characters;
      this.#chunks.push(rows);
      this.#wake();
      return true;
    }
    this.#chunksInWriting++;
    this.#writing = this.#writing.then(() => this.#write(rows)).catch((error: Error) => this.#fail(error));
    return false;
  }

  async #write(rows: ReadRow[]): Promise<void> {
    const bytes = Buffer.from(JSON.stringify(rows));
    const offset = this.#fileBytes;
    this.#fileBytes += bytes.length;
    this.#file ??= openNameless();
    const file = await this.#file;
    for (let done = 0; done < bytes.length;) {
      done += (await file.write(bytes, done, bytes.length - done, offset + done)).bytesWritten;
    }
    this.#chunks.push({ offset, length: bytes.length });
    this.#chunksInWriting--;
    this.#wake();
  }

  #fail(error: Error): void {
    this.#ended ??= {
      error: new StoreUnavailable({ problem: `a snapshot cannot be kept: ${error.message}` }),
    };
    this.#wake();
  }

  async #load(chunk: Chunk): Promise<ReadRow[]> {
    if (Array.isArray(chunk)) {
      this.#memoryCharacters -= chunk.reduce((sum, { text }) => sum + text.length, 0);
      return chunk;
    }
    const file = await this.#file;
    if (!file) throw new StoreUnavailable({ problem: 'the snapshot is closed' });
    const bytes = Buffer.alloc(chunk.length);
    for (let done = 0; done < bytes.length;) {
      const { bytesRead } = await file.read(bytes, done, bytes.length - done, chunk.offset + done);
      if (bytesRead === 0) throw new Error('the file of a snapshot is shorter than what was written to it');
      done += bytesRead;
    }
    return JSON.parse(bytes.toString()) as ReadRow[];
  }
}

/** Gone with the process, whatever way that ends. */
async function openNameless(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-snapshot-'));
  const file = await open(join(folder, 'rows'), 'wx+', 0o600);
  await rm(folder, { recursive: true });
  return file;
}
