import type { JobStats } from '../../model/job.ts';
import type { Json } from '../../model/json.ts';
import type { Parts } from './bisect.ts';
import type { LoopRounds } from './loop-guard.ts';
import type { Page } from './page.ts';
import type { SourcePosition, SourceRecord } from './source-records.ts';
import { TableTally, type TableRecords } from './table-tally.ts';

/** How far the doWhile loop of one record is. */
export interface RecordState {
  /** Of the pages that are committed. */
  iteration: number;
  /** null: its loop has ended. */
  next: string | null;
  rounds: LoopRounds | null;
  /** Where records are worked on at once, each has its own. */
  executionContext: Record<string, Json> | null;
  /** How many of its requests are committed. */
  requests: number;
  /** What of it is still to be sent; null: it is not sent in parts. */
  parts: Parts | null;
}

interface RecordEntry extends RecordState {
  number: number;
  key: string | null;
  count: number;
}

/** Of a record that nothing more is to be done with, though no page says so. */
export type PassedOver = Pick<SourceRecord, 'number' | 'key' | 'count'>;

/** What stands in the checkpoint: all that a worker needs to go on after the last page that is committed. */
interface Cursor {
  /** All records up to there are done with. */
  source: SourcePosition;
  /** Records behind it of which pages are committed. */
  records: RecordEntry[];
  executionContext: Record<string, Json>;
  /** Application variables that the last page has set: they are set again, should the worker have died before. */
  application: Record<string, Json>;
  /** Of this operation alone; those of the job count all steps. */
  counts: Counts;
  tables: TableRecords[];
  files: { space: string; name: string; bytes: number }[];
  stats: JobStats;
}

export interface Counts {
  pages: number;
  records: number;
  bytes: number;
}

const BEGINNING: SourcePosition = { after: null, number: 0, rows: 0, until: null };

/** How far an operation is; read from its checkpoint, and carried on with each page. */
export class LoopState {
  tally: TableTally;
  counts: Counts;
  readonly #restored: Cursor | null;
  #source: SourcePosition;
  #records = new Map<number, RecordEntry>();

  constructor(cursor: string | null) {
    this.#restored = cursor === null ? null : (JSON.parse(cursor) as Cursor);
    this.#source = { ...BEGINNING, ...this.#restored?.source };
    for (const entry of this.#restored?.records ?? []) this.#records.set(entry.number, entry);
    this.tally = new TableTally(this.#restored?.tables);
    this.counts = { pages: 0, records: 0, bytes: 0, ...this.#restored?.counts };
  }

  /** null: this is the beginning. */
  get restored(): Pick<Cursor, 'executionContext' | 'application' | 'files' | 'stats'> | null {
    return this.#restored;
  }

  get source(): SourcePosition {
    return this.#source;
  }

  endsAt(until: string | null): void {
    this.#source = { ...this.#source, until };
  }

  /** null: nothing of the record is committed yet. */
  of({ number }: SourceRecord): RecordState | null {
    return this.#records.get(number) ?? null;
  }

  isDone({ number }: Pick<SourceRecord, 'number'>): boolean {
    const entry = this.#records.get(number);
    return number <= this.#source.number || (entry !== undefined && isDone(entry));
  }

  /** What the checkpoint says of a request that was sent: whether its page is committed, and was the last. */
  standingOf({ number, request }: { number: number; request: number }): 'open' | 'goes on' | 'done' {
    if (number <= this.#source.number) return 'done';
    const entry = this.#records.get(number);
    if (!entry || entry.requests < request) return 'open';
    return entry.next !== null && entry.requests === request ? 'goes on' : 'done';
  }

  /** As it will be with these pages; nothing changes before they are committed. */
  with(
    pages: readonly Page[],
    passedOver: readonly PassedOver[],
  ): { cursor(now: CursorNow): string; accept(): void } {
    const records = new Map(this.#records);
    const tally = new TableTally(this.tally.list());
    const counts = { ...this.counts };
    for (const page of pages) {
      const { number } = page.record;
      records.set(number, entryOf(page));
      tally.add(page.loads);
      counts.pages += 1;
      counts.records += page.log.records;
      counts.bytes += page.bytes;
    }
    for (const record of passedOver) records.set(record.number, { ...NOTHING_LEFT, ...record });
    const source = advanced(this.#source, records);
    return {
      cursor: (now) =>
        JSON.stringify({
          source,
          records: [...records.values()],
          counts,
          tables: tally.list(),
          ...now,
        } satisfies Cursor),
      accept: () => {
        this.#source = source;
        this.#records = records;
        this.tally = tally;
        this.counts = counts;
      },
    };
  }
}

type CursorNow = Omit<Cursor, 'source' | 'records' | 'counts' | 'tables'>;

const NOTHING_LEFT: RecordState = {
  iteration: 0,
  next: null,
  rounds: null,
  executionContext: null,
  requests: 0,
  parts: null,
};

function entryOf(page: Page): RecordEntry {
  const { record, iteration, next, rounds, variables, isApart, requests, parts } = page;
  const { number, key, count } = record;
  const executionContext = isApart && next ? { ...variables.executionContext } : null;
  return {
    number,
    key,
    count,
    iteration,
    next: next?.url ?? null,
    rounds,
    executionContext,
    requests,
    parts,
  };
}

/** Its loop has ended, or those of all its parts. */
export function isDone({ next, parts }: { next: unknown; parts: Parts | null }): boolean {
  return next === null && (parts === null || parts.todo.length === 0);
}

/** Behind all records that are done with one after the other; these are forgotten. */
function advanced(from: SourcePosition, records: Map<number, RecordEntry>): SourcePosition {
  let source = from;
  for (;;) {
    const entry = records.get(source.number + 1);
    if (!entry || !isDone(entry)) return source;
    records.delete(entry.number);
    const { number, key: after, count } = entry;
    source = { ...source, number, after, rows: source.rows + count };
  }
}
