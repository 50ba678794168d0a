import { deflateRaw } from 'node:zlib';
import { promisify } from 'node:util';
import type { Json } from '../model/json.ts';
import { noStats, type JobEvent, type JobPage, type JobStats } from '../model/job.ts';
import type { JobReport, LogLevel, PageBody } from '../operations/operation.ts';
import type { Jobs } from '../system/jobs.ts';

export interface JobLogSettings {
  /** The bodies of so many pages are kept, of the last ones; that of a failed page always is. */
  keptPageBodies: number;
  keptBodyBytes: number;
  /** Log lines beyond these are counted and left out: a script could write for ever. */
  logLinesPerJob: number;
}

/** Pages and events are written together, at most this often: a commit each would set the pace of small pages. */
const FLUSH_MS = 200;
const FLUSH_AT = 100;
/** A secret that the end of what is kept would cut in two is seen whole. */
const CUT_MARGIN_BYTES = 8_192;

const deflate = promisify(deflateRaw);

/** What a job tells while it runs, on its way into the records. */
export class JobLog implements JobReport {
  readonly stats: JobStats = { ...noStats };
  readonly #jobs: Jobs;
  readonly #jobId: string;
  readonly #settings: JobLogSettings;
  readonly #now: () => number;
  readonly #onEvents: () => void;
  readonly #startedAt: number;
  #events: JobEvent[] = [];
  #pages: JobPage[] = [];
  #eventNumber: number;
  #pageNumber = 0;
  #logLines = 0;
  /** The bodies of the last pages; written at the end, so that a long download does not compress each page. */
  #bodies: { n: number; body: PageBody }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #failure: unknown;
  readonly #redactions: ((text: string) => string)[] = [];

  constructor(parts: {
    jobs: Jobs;
    jobId: string;
    settings: JobLogSettings;
    now: () => number;
    firstEvent: number;
    onEvents: () => void;
  }) {
    this.#jobs = parts.jobs;
    this.#jobId = parts.jobId;
    this.#settings = parts.settings;
    this.#now = parts.now;
    this.#eventNumber = parts.firstEvent;
    this.#onEvents = parts.onEvents;
    this.#startedAt = parts.now();
  }

  redactWith(redact: (text: string) => string): void {
    this.#redactions.push(redact);
  }

  redacted(text: string): string {
    return this.#redactions.reduce((shown, redact) => redact(shown), text);
  }

  log(level: LogLevel, text: string): void {
    this.#logLines += 1;
    if (this.#logLines > this.#settings.logLinesPerJob) return;
    const isLast = this.#logLines === this.#settings.logLinesPerJob;
    this.#event('log', {
      level,
      text: isLast ? 'the log of this job is full; further lines are left out' : this.redacted(text),
    });
  }

  page(page: Omit<JobPage, 'n' | 'hasBody'>, body: PageBody | null): void {
    this.#pageNumber += 1;
    const n = this.#pageNumber;
    this.#pages.push({ ...page, n, hasBody: false });
    const { record, iteration, status, records, bytes, next, error } = page;
    this.#event('page', { n, record, iteration, status, records, bytes, more: next !== null, error });
    if (!body) return;
    this.#bodies.push({ n, body });
    if (this.#bodies.length > Math.max(1, this.#settings.keptPageBodies)) this.#bodies.shift();
  }

  state(state: string, detail: Record<string, Json> = {}): void {
    this.#event('state', { state, ...detail });
  }

  /** Writes all there is; throws what went wrong with any of it. */
  async close(): Promise<void> {
    this.stats.durationMs = this.#now() - this.#startedAt;
    await this.#flush();
    for (const { n, body } of this.#bodies) {
      await this.#jobs.keepBody(this.#jobId, n, await this.#stored(body));
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #stored({ bytes, redact }: PageBody): Promise<Uint8Array> {
    const { keptBodyBytes } = this.#settings;
    const text = redact(Buffer.from(bytes.subarray(0, keptBodyBytes + CUT_MARGIN_BYTES)).toString());
    return deflate(Buffer.from(text).subarray(0, keptBodyBytes));
  }

  #event(type: JobEvent['type'], data: Record<string, Json>): void {
    this.#eventNumber += 1;
    this.#events.push({ n: this.#eventNumber, type, at: new Date(this.#now()).toISOString(), data });
    if (this.#events.length >= FLUSH_AT) void this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush(), FLUSH_MS);
  }

  #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  async #write(): Promise<void> {
    const [pages, events] = [this.#pages, this.#events];
    [this.#pages, this.#events] = [[], []];
    this.stats.durationMs = this.#now() - this.#startedAt;
    try {
      await this.#jobs.addPages(this.#jobId, pages);
      await this.#jobs.addEvents(this.#jobId, events);
      await this.#jobs.noteStats(this.#jobId, this.stats);
      this.#onEvents();
    } catch (error) {
      this.#failure ??= error; // told by close()
    }
  }
}
