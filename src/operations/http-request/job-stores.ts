import { openTables, type DataPlaces } from '../data-places.ts';
import { Fenced, type OperationContext } from '../operation.ts';
import { TEMPORARY_NOTE } from '../../system/job-life.ts';
import type { TableStore } from '../../tables/table-store.ts';
import type { PageLoad } from './load-tables.ts';

interface Opened {
  store: TableStore;
  defaultSpace: string;
}

/** A store beside the home store, with its own checkpoint. */
interface Second {
  store: TableStore;
  /** How many pages were committed here. */
  page: number;
  /** Pages that are committed here, and not in the home store: they come once more. */
  ahead: Set<string>;
}

/** What stands in the checkpoint of such a store. */
interface SecondCursor {
  /** Which page is committed with it, and its number as the home store counts. */
  last: string;
  homePage: number;
  ahead: string[];
}

/** Under this name of `JobProgress`: the sources other than `local` that a job has written to. */
export const SOURCES_NOTE = 'sources';

/**
 * The stores that one operation writes to. The checkpoint, with all that the job goes on from, stands in the home
 * store, that of the target. A page for several stores is committed in the others first: where a worker dies before
 * the home store has the page, the next one asks for it anew, and each of the others knows that it has it already.
 * So each store gets each page exactly once, though not all at the same moment.
 */
export class JobStores {
  readonly home: TableStore;
  readonly #homeSource: string;
  readonly #places: DataPlaces;
  readonly #context: OperationContext;
  readonly #opened = new Map<string, Opened>();
  readonly #seconds = new Map<string, Second>();
  #page = 0;

  private constructor(places: DataPlaces, context: OperationContext, homeSource: string, home: Opened) {
    this.#places = places;
    this.#context = context;
    this.#homeSource = homeSource;
    this.home = home.store;
    this.#opened.set(homeSource, home);
  }

  static async open(places: DataPlaces, context: OperationContext, homeSource: string): Promise<JobStores> {
    const home = await openTables(places, context.appId, homeSource, 'target.source');
    const stores = new JobStores(places, context, homeSource, home);
    await stores.#note(homeSource);
    return stores;
  }

  /** The cursor to go on from. */
  async claim(): Promise<string | null> {
    const { page, cursor } = await this.#claim(this.home);
    this.#page = page;
    return cursor;
  }

  async of(source: string, path: string): Promise<Opened> {
    let opened = this.#opened.get(source);
    if (!opened) {
      opened = await openTables(this.#places, this.#context.appId, source, path);
      this.#opened.set(source, opened);
    }
    return opened;
  }

  isHome({ place }: PageLoad): boolean {
    return place.source === this.#homeSource;
  }

  /** `page`: which one it is, whoever asks for it. Where loads are not all for the home store, it is a single one. */
  async commit(page: string, cursor: string, loads: readonly PageLoad[]): Promise<void> {
    if (loads.some(({ load }) => load.temporary)) await this.#noteTemporary();
    const bySource = Map.groupBy(loads, ({ place }) => place.source);
    for (const [source, its] of bySource) {
      if (source !== this.#homeSource) await this.#commitSecond(source, page, its);
    }
    await this.#commitPage(this.home, this.#page, cursor, bySource.get(this.#homeSource) ?? []);
    this.#page += 1;
  }

  /** All staging tables take their places: in one step in each store. */
  async finish(): Promise<void> {
    const { jobId, step, epoch, progress } = this.#context;
    const noted = (progress.of(SOURCES_NOTE) ?? []) as string[];
    for (const source of noted) if (source !== this.#homeSource) await this.#second(source);
    for (const { store } of this.#seconds.values()) await store.finish(jobId, step, epoch);
    await this.home.finish(jobId, step, epoch);
  }

  async #commitSecond(source: string, page: string, loads: readonly PageLoad[]): Promise<void> {
    const second = await this.#second(source);
    if (second.ahead.delete(page)) return;
    const cursor: SecondCursor = { last: page, homePage: this.#page + 1, ahead: [...second.ahead] };
    await this.#commitPage(second.store, second.page, JSON.stringify(cursor), loads);
    second.page += 1;
  }

  async #second(source: string): Promise<Second> {
    let second = this.#seconds.get(source);
    if (!second) {
      await this.#note(source);
      const { store } = await this.of(source, 'sourceName');
      const { page, cursor } = await this.#claim(store);
      second = { store, page, ahead: this.#aheadOf(cursor) };
      this.#seconds.set(source, second);
    }
    return second;
  }

  #aheadOf(cursor: string | null): Set<string> {
    if (cursor === null) return new Set();
    const { last, homePage, ahead } = JSON.parse(cursor) as SecondCursor;
    return new Set(homePage > this.#page ? [...ahead, last] : ahead);
  }

  async #claim(store: TableStore) {
    const { jobId, step, epoch } = this.#context;
    const claimed = await store.claim(jobId, step, epoch);
    if (!claimed) throw new Fenced('another worker has taken the job');
    return claimed;
  }

  async #commitPage(
    store: TableStore,
    page: number,
    cursor: string,
    loads: readonly PageLoad[],
  ): Promise<void> {
    const { jobId, step, epoch } = this.#context;
    await store.commitPage({ jobId, step, epoch, page, cursor, loads: loads.map(({ load }) => load) });
  }

  async #noteTemporary(): Promise<void> {
    const { progress } = this.#context;
    if (progress.of(TEMPORARY_NOTE) === null) await progress.note(TEMPORARY_NOTE, true);
  }

  /** Before anything is written there, so that it is cleaned up however the job ends. */
  async #note(source: string): Promise<void> {
    const { progress } = this.#context;
    const noted = (progress.of(SOURCES_NOTE) ?? []) as string[];
    if (source !== 'local' && !noted.includes(source)) await progress.note(SOURCES_NOTE, [...noted, source]);
  }
}
