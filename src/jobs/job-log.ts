import { deflateRaw } from 'node:zlib';
import { promisify } from 'node:util';
import { DatabaseUnavailable, isUnavailable } from '../database/database.ts';
import type { Json } from '../model/json.ts';
import type { JobEvent, JobPage, JobStats } from '../model/job.ts';
import { Fenced, type JobReport, type LogLevel, type PageBody } from '../operations/operation.ts';
import type { JobNews } from '../system/job-history.ts';
import type { JobWork } from '../system/job-work.ts';
import type { Jobs } from '../system/jobs.ts';

export interface JobLogSettings {
  /** The bodies of so many pages are kept, of the last ones; that of a failed page always is. */
  keptPageBodies: number;
  keptBodyBytes: number;
  /** Log lines beyond these are counted and left out: a script could write for ever. */
  logLinesPerJob: number;
}

export interface JobLogParts {
  jobs: Jobs;
  work: Pick<JobWork, 'jobId' | 'epoch' | 'stats' | 'pageCount'>;
  settings: JobLogSettings;
  now: () => number;
  onWritten: () => void;
  /** Nothing more can be written: the job has to end. */
  onLost: (reason: unknown) => void;
}

/** Pages and events are written together, at most this often: a commit each would set the pace of small pages. */
const FLUSH_MS = 200;
const FLUSH_AT = 100;
const TRY_AGAIN_MS = 1_000;
/** A secret that the end of what is kept would cut in two is seen whole. */
const CUT_MARGIN_BYTES = 8_192;

/** While the records are away, so much is kept in memory; a job that has more to tell has to end. */
const MOST_UNWRITTEN = 20_000;

const deflate = promisify(deflateRaw);

/** What a job tells while it runs, on its way into the records. */
export class JobLog implements JobReport {
  readonly stats: JobStats;
  readonly #parts: JobLogParts;
  readonly #startedAt: number;
  readonly #durationBefore: number;
  #events: Omit<JobEvent, 'n'>[] = [];
  #pages: JobPage[] = [];
  #pageNumber: number;
  #logLines = 0;
  /** The bodies of the last pages; written at the end, so that a long download does not compress each page. */
  #bodies: { n: number; body: PageBody }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  readonly #redactions: ((text: string) => string)[] = [];

  constructor(parts: JobLogParts) {
    const { stats, pageCount } = parts.work;
    this.#parts = parts;
    this.stats = { ...stats };
    this.#pageNumber = pageCount;
    this.#startedAt = parts.now();
    this.#durationBefore = stats.durationMs;
  }

  redactWith(redact: (text: string) => string): void {
    this.#redactions.push(redact);
  }

  redacted(text: string): string {
    return this.#redactions.reduce((shown, redact) => redact(shown), text);
  }

  log(level: LogLevel, text: string): void {
    const { logLinesPerJob } = this.#parts.settings;
    this.#logLines += 1;
    if (this.#logLines > logLinesPerJob) return;
    const isLast = this.#logLines === logLinesPerJob;
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
    if (this.#bodies.length > Math.max(1, this.#parts.settings.keptPageBodies)) this.#bodies.shift();
  }

  state(state: string, detail: Record<string, Json> = {}): void {
    this.#event('state', { state, ...detail });
  }

  /** Ends the writing; what it gives is to be written by whoever ends the job. */
  async lastNews(): Promise<JobNews> {
    clearTimeout(this.#timer);
    await this.#flushing;
    clearTimeout(this.#timer);
    const bodies = await Promise.all(
      this.#bodies.map(async ({ n, body }) => ({ n, body: await this.#stored(body) })),
    );
    return { ...this.#news(), bodies };
  }

  async #stored({ bytes, redact }: PageBody): Promise<Uint8Array> {
    const { keptBodyBytes } = this.#parts.settings;
    const text = redact(Buffer.from(bytes.subarray(0, keptBodyBytes + CUT_MARGIN_BYTES)).toString());
    return deflate(Buffer.from(text).subarray(0, keptBodyBytes));
  }

  #event(type: JobEvent['type'], data: Record<string, Json>): void {
    this.#events.push({ type, at: new Date(this.#parts.now()).toISOString(), data });
    if (this.#events.length >= MOST_UNWRITTEN)
      this.#parts.onLost(new DatabaseUnavailable('the records were away for too long'));
    else if (this.#events.length === FLUSH_AT) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushing = this.#flushing.then(() => this.#write());
  }

  #news(): JobNews {
    const [pages, events] = [this.#pages, this.#events];
    [this.#pages, this.#events] = [[], []];
    this.stats.durationMs = this.#durationBefore + this.#parts.now() - this.#startedAt;
    return { stats: { ...this.stats }, pages, events, bodies: [] };
  }

  async #write(): Promise<void> {
    const { jobs, work, onWritten, onLost } = this.#parts;
    const news = this.#news();
    try {
      const isOurs = await jobs.life.note(work.jobId, work.epoch, news);
      if (isOurs) onWritten();
      else onLost(new Fenced('another worker has taken the job'));
    } catch (error) {
      if (!isUnavailable(error)) {
        onLost(error);
        return;
      }
      // Kept for the next time.
      this.#pages.unshift(...news.pages);
      this.#events.unshift(...news.events);
      this.#timer ??= setTimeout(() => this.#flush(), TRY_AGAIN_MS);
    }
  }
}
