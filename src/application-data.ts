import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileStore } from './files/file-store.ts';
import type { DataPlaces } from './operations/data-places.ts';
import type { TableStore } from './tables/table-store.ts';

export interface ApplicationDataParts {
  /** The data folder. */
  folder: string;
  openTables(file: string): TableStore;
  openFiles(folder: string): Promise<FileStore>;
  /** Whether jobs of the application run: their store stays open. */
  isBusy(appId: string): boolean;
  now: () => number;
}

interface OpenStore {
  store: TableStore;
  usedAt: number;
}

/** A store has two threads of its own: one that nobody has used for this long is closed. */
const IDLE_MS = 5 * 60_000;

/** The tables and files of each application: one SQLite file and one folder. */
export class ApplicationData implements DataPlaces {
  readonly #parts: ApplicationDataParts;
  readonly #tables = new Map<string, Promise<OpenStore>>();
  readonly #files = new Map<string, Promise<FileStore>>();
  readonly #timer: NodeJS.Timeout;

  constructor(parts: ApplicationDataParts) {
    this.#parts = parts;
    this.#timer = setInterval(() => void this.#closeIdle(), IDLE_MS / 5).unref();
  }

  async tables(appId: string): Promise<TableStore> {
    let opening = this.#tables.get(appId);
    if (!opening) {
      opening = this.#openTables(appId);
      this.#tables.set(appId, opening);
      // Not remembered, so that the next call tries again; this one rejects by itself.
      opening.catch(() => this.#tables.delete(appId));
    }
    const open = await opening;
    open.usedAt = this.#parts.now();
    return open.store;
  }

  files(appId: string): Promise<FileStore> {
    let opening = this.#files.get(appId);
    if (!opening) {
      opening = this.#folderOf(appId).then((folder) => this.#parts.openFiles(join(folder, 'files')));
      this.#files.set(appId, opening);
      opening.catch(() => this.#files.delete(appId));
    }
    return opening;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const stores = [...this.#tables.values()];
    this.#tables.clear();
    await Promise.all(stores.map(async (opening) => (await opening).store.close()));
  }

  async #openTables(appId: string): Promise<OpenStore> {
    const folder = await this.#folderOf(appId);
    return { store: this.#parts.openTables(join(folder, 'local.sqlite')), usedAt: this.#parts.now() };
  }

  /** An appId has no characters that mean anything to a file system. */
  async #folderOf(appId: string): Promise<string> {
    const folder = join(this.#parts.folder, 'applications', appId);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }

  async #closeIdle(): Promise<void> {
    for (const [appId, opening] of this.#tables) {
      const { store, usedAt } = await opening;
      if (this.#parts.isBusy(appId) || this.#parts.now() - usedAt < IDLE_MS) continue;
      this.#tables.delete(appId);
      await store.close();
    }
  }
}
