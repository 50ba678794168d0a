import type { ApplicationVariables } from '../../system/application-variables.ts';
import type { TableStore } from '../../tables/table-store.ts';
import type { OperationContext } from '../operation.ts';
import type { Page } from './paged-request.ts';
import { TableTally } from './table-tally.ts';

/**
 * Commits pages in their order, each in one transaction: the rows, and in the cursor the variables, the next URL and
 * the iteration. While a page is loaded, the next one may be fetched and parsed already, but only where asking for
 * it changes nothing out there: a GET whose page before it is not committed in the end did no harm.
 */
export class PageCommitter {
  readonly tally = new TableTally();
  readonly #store: TableStore;
  readonly #variables: ApplicationVariables;
  readonly #context: OperationContext;
  readonly #mayOverlap: boolean;
  #pageNumber: number;
  #underWay: Promise<void> = Promise.resolve();

  constructor(parts: {
    store: TableStore;
    variables: ApplicationVariables;
    context: OperationContext;
    mayOverlap: boolean;
    pageNumber: number;
  }) {
    this.#store = parts.store;
    this.#variables = parts.variables;
    this.#context = parts.context;
    this.#mayOverlap = parts.mayOverlap;
    this.#pageNumber = parts.pageNumber;
  }

  /** Resolves when the next page may be asked for; throws what went wrong with this page or the one before. */
  async commit(page: Page): Promise<void> {
    await this.#underWay;
    this.#context.variables.apply(page.changes);
    this.#underWay = this.#commit(page);
    if (this.#mayOverlap)
      this.#underWay.catch(() => undefined); // thrown to whoever waits for it next
    else await this.#underWay;
  }

  /** Until the last page is committed. */
  async settle(): Promise<void> {
    await this.#underWay;
  }

  async #commit(page: Page): Promise<void> {
    const { jobId, step, epoch, report, appId } = this.#context;
    const cursor = JSON.stringify({
      recordKey: page.record.key,
      iteration: page.iteration,
      next: page.next?.url ?? null,
      changes: page.changes,
    });
    const start = performance.now();
    const loads = page.loads.map(({ load }) => load);
    await this.#store.commitPage({ jobId, step, epoch, page: this.#pageNumber, cursor, loads });
    page.log.timing.loadMs = Math.round(performance.now() - start);
    await this.#variables.set(appId, page.changes.application);
    this.#pageNumber += 1;
    this.tally.add(page.loads);
    report.stats.pages += 1;
    report.stats.records += page.log.records;
    report.page(page.log, page.body);
  }
}
