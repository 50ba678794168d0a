import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileStore } from './files/file-store.ts';
import { ServiceError } from './model/errors.ts';
import { builtInSources, defaultSpaceOf, type TableSource } from './model/source.ts';
import type { DataPlaces, PlaceSource } from './operations/data-places.ts';
import type { Sources } from './system/sources.ts';
import type { TableStore } from './tables/table-store.ts';

export interface ApplicationDataParts {
  /** The data folder. */
  folder: string;
  sources: Sources;
  /** The tables of the source `local`. */
  openLocal(appId: string, folder: string): TableStore;
  /** Those of a source that somebody has defined. */
  openDefined(source: TableSource): Promise<TableStore>;
  openFiles(folder: string): Promise<FileStore>;
  /** Whether jobs of the application run: its stores stay open. */
  isBusy(appId: string): boolean;
  now: () => number;
}

interface OpenStore {
  appId: string;
  store: TableStore;
  usedAt: number;
}

/** A store has threads or connections of its own: one that nobody has used for this long is closed. */
const IDLE_MS = 5 * 60_000;

/** The tables and files of each application: those of its own, and those of the databases that it names. */
export class ApplicationData implements DataPlaces {
  readonly #parts: ApplicationDataParts;
  /** By application and source. */
  readonly #tables = new Map<string, Promise<OpenStore>>();
  readonly #files = new Map<string, Promise<FileStore>>();
  readonly #timer: NodeJS.Timeout;

  constructor(parts: ApplicationDataParts) {
    this.#parts = parts;
    parts.sources.onChange((sourceKey) => this.#closeWhenIdle(sourceKey));
    this.#timer = setInterval(() => void this.#closeIdle(), IDLE_MS / 5).unref();
  }

  async sources(appId: string): Promise<ReadonlyMap<string, PlaceSource>> {
    const defined = await this.#parts.sources.ofType(appId, 'TableSource');
    return new Map<string, PlaceSource>([
      ...Object.entries(builtInSources),
      ...defined.map(
        (source) => [source.name, { type: source.type, defaultSpace: defaultSpaceOf(source) }] as const,
      ),
    ]);
  }

  async tables(appId: string, source: string): Promise<TableStore> {
    const key = `${appId}/${source}`;
    let opening = this.#tables.get(key);
    if (!opening) {
      opening = this.#openTables(appId, source);
      this.#tables.set(key, opening);
      // Not remembered, so that the next call tries again; this one rejects by itself.
      opening.catch(() => this.#tables.delete(key));
    }
    const open = await opening;
    open.usedAt = this.#parts.now();
    return open.store;
  }

  files(appId: string, source: string): Promise<FileStore> {
    const key = `${appId}/${source}`;
    let opening = this.#files.get(key);
    if (!opening) {
      opening = this.#folderOf(appId).then((folder) => this.#parts.openFiles(join(folder, source)));
      this.#files.set(key, opening);
      opening.catch(() => this.#files.delete(key));
    }
    return opening;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const stores = [...this.#tables.values()];
    this.#tables.clear();
    await Promise.all(stores.map(async (opening) => (await opening).store.close()));
  }

  async #openTables(appId: string, source: string): Promise<OpenStore> {
    const { openLocal, openDefined, sources, now } = this.#parts;
    if (source === 'local') {
      const store = openLocal(appId, await this.#folderOf(appId));
      return { appId, store, usedAt: now() };
    }
    const defined = await sources.tables(appId, source);
    if (!defined) throw new ServiceError('unknown_source', `there is no TableSource "${source}"`);
    return { appId, store: await openDefined(defined), usedAt: now() };
  }

  /** An appId has no characters that mean anything to a file system. */
  async #folderOf(appId: string): Promise<string> {
    const folder = join(this.#parts.folder, 'applications', appId);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }

  /** The source is another one: whoever uses the old connection keeps it, the next one gets a new one. */
  async #closeWhenIdle(sourceKey: string): Promise<void> {
    const opening = this.#tables.get(sourceKey);
    if (!opening) return;
    this.#tables.delete(sourceKey);
    const { store, appId } = await opening;
    const close = () => {
      if (this.#parts.isBusy(appId)) setTimeout(close, IDLE_MS / 5).unref();
      else void store.close();
    };
    close();
  }

  async #closeIdle(): Promise<void> {
    for (const [key, opening] of this.#tables) {
      const { appId, store, usedAt } = await opening;
      if (this.#parts.isBusy(appId) || this.#parts.now() - usedAt < IDLE_MS) continue;
      this.#tables.delete(key);
      await store.close();
    }
  }
}
