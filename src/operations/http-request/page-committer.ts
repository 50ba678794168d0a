import type { ApplicationVariables } from '../../system/application-variables.ts';
import { FencedError, TableError } from '../../tables/table-errors.ts';
import type { OperationContext } from '../operation.ts';
import type { JobStores } from './job-stores.ts';
import { isDone, type LoopState, type PassedOver } from './loop-state.ts';
import type { Page } from './page.ts';
import type { FileSaver } from './save-to-file.ts';

interface Waiting {
  /** null: only what was passed over. */
  page: Page | null;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** Pages of records that are worked on at once share a transaction where they come together: up to so many. */
const MOST_TOGETHER = 64;
const MOST_ROWS_TOGETHER = 1_000;
const MOST_PASSED_OVER = 1_000;

/**
 * Commits pages in the order in which they come, in one transaction each: the rows, and in the cursor the variables,
 * the next URL and the iteration. While a page is loaded, the next one may be fetched and parsed already, but only
 * where asking for it changes nothing out there: a GET whose page before it is not committed in the end did no harm.
 */
export class PageCommitter {
  readonly #parts: PageCommitterParts;
  #waiting: Waiting[] = [];
  #passedOver: PassedOver[] = [];
  #working: Promise<void> | null = null;
  #before: Promise<void> = Promise.resolve();
  /** Once a page could not be committed, those behind it must not be. */
  #failure: { reason: unknown } | null = null;

  constructor(parts: PageCommitterParts) {
    this.#parts = parts;
  }

  /** Resolves when the next page may be asked for; throws what went wrong with this page or the one before. */
  async commit(page: Page): Promise<void> {
    const { mayOverlap } = this.#parts;
    if (mayOverlap) await this.#before;
    page.variables.apply(page.changes);
    const committed = this.#enqueue(page);
    if (!mayOverlap) return committed;
    committed.catch(() => undefined); // thrown to whoever waits for it next
    this.#before = committed;
  }

  /** Nothing is to be done with the record: said with the next page, or soon. */
  async passOver({ number, key, count }: PassedOver): Promise<void> {
    this.#passedOver.push({ number, key, count });
    if (this.#passedOver.length >= MOST_PASSED_OVER) await this.#enqueue(null);
  }

  /** Until the last page is committed. */
  async settle(): Promise<void> {
    await this.#before;
    await this.#working;
    if (this.#passedOver.length > 0 && !this.#failure) await this.#enqueue(null);
  }

  #enqueue(page: Page | null): Promise<void> {
    const committed = new Promise<void>((resolve, reject) => this.#waiting.push({ page, resolve, reject }));
    this.#working ??= this.#work();
    return committed;
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      const together = this.#next();
      try {
        if (this.#failure) throw this.#failure.reason;
        await this.#commit(together.flatMap(({ page }) => page ?? []));
        for (const { resolve } of together) resolve();
      } catch (error) {
        if (together.length > 1 && isOfOnePage(error) && !this.#failure) {
          // Nothing is committed, and one of them is at fault: each alone tells which.
          this.#waiting.unshift(...together.map((waiting) => ({ ...waiting, page: alone(waiting.page) })));
          continue;
        }
        this.#failure ??= { reason: error };
        for (const { reject } of together) reject(error);
      }
    }
    this.#working = null;
  }

  #next(): Waiting[] {
    const { stores } = this.#parts;
    let [count, rows] = [0, 0];
    for (const { page } of this.#waiting) {
      rows += page?.log.records ?? 0;
      const isAlone = page !== null && (page.isAlone || !page.loads.every((load) => stores.isHome(load)));
      if (count > 0 && (isAlone || count >= MOST_TOGETHER || rows > MOST_ROWS_TOGETHER)) break;
      count += 1;
      if (isAlone) break;
    }
    return this.#waiting.splice(0, count);
  }

  async #commit(pages: readonly Page[]): Promise<void> {
    const { stores, variables, context, state, saver } = this.#parts;
    const { report, appId } = context;
    const counted = { ...report.stats };
    const application = Object.assign({}, ...pages.map(({ changes }) => changes.application));
    for (const page of pages) {
      counted.pages += 1;
      counted.records += page.log.records;
      if (isDone(page)) counted.sourceRecords += page.record.count;
    }
    const passedOver = [...this.#passedOver];
    for (const { count } of passedOver) counted.sourceRecords += count;
    const next = state.with(pages, passedOver);
    const cursor = next.cursor({
      executionContext: { ...context.variables.executionContext },
      application,
      files: saver?.files ?? [],
      stats: counted,
    });
    const start = performance.now();
    const [first] = pages;
    const which = first ? `${first.record.number}/${first.requests}` : '';
    await stores.commit(
      which,
      cursor,
      pages.flatMap(({ loads }) => loads),
    );
    const loadMs = Math.round(performance.now() - start);
    await variables.set(appId, application);
    next.accept();
    this.#passedOver.splice(0, passedOver.length);
    const { pages: pageCount, records, sourceRecords } = counted;
    Object.assign(report.stats, { pages: pageCount, records, sourceRecords });
    for (const { log, body, onCommitted } of pages) {
      onCommitted?.();
      log.timing.loadMs = loadMs;
      report.page(log, body);
    }
  }
}

interface PageCommitterParts {
  stores: JobStores;
  variables: ApplicationVariables;
  context: OperationContext;
  state: LoopState;
  saver: FileSaver | null;
  mayOverlap: boolean;
}

/** A value or a table is at fault; anything else may have struck after the rows were committed. */
function isOfOnePage(error: unknown): boolean {
  return error instanceof TableError && !error.transient && !(error instanceof FencedError);
}

function alone(page: Page | null): Page | null {
  return page && { ...page, isAlone: true };
}
