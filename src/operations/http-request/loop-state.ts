import type { JobStats } from '../../model/job.ts';
import type { Json } from '../../model/json.ts';
import type { LoopRounds } from './loop-guard.ts';
import type { Page } from './paged-request.ts';
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
}

interface RecordEntry extends RecordState {
  number: number;
  key: string | null;
  count: number;
}

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

const BEGINNING: SourcePosition = { after: null, number: 0, until: null };

/** How far an operation is; read from its checkpoint, and carried on with each page. */
export class LoopState {
  tally: TableTally;
  counts: Counts;
  readonly #restored: Cursor | null;
  #source: SourcePosition;
  #records = new Map<number, RecordEntry>();

  constructor(cursor: string | null) {
    this.#restored = cursor === null ? null : (JSON.parse(cursor) as Cursor);
    this.#source = this.#restored?.source ?? BEGINNING;
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

  /** As it will be with these pages; nothing changes before they are committed. */
  with(pages: readonly Page[]): { cursor(now: CursorNow): string; accept(): void } {
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

function entryOf({
  record: { number, key, count },
  iteration,
  next,
  rounds,
  variables,
  isApart,
}: Page): RecordEntry {
  const executionContext = isApart && next ? { ...variables.executionContext } : null;
  return { number, key, count, iteration, next: next?.url ?? null, rounds, executionContext };
}

/** Behind all records that are done with one after the other; these are forgotten. */
function advanced(from: SourcePosition, records: Map<number, RecordEntry>): SourcePosition {
  let source = from;
  for (;;) {
    const entry = records.get(source.number + 1);
    if (!entry || entry.next !== null) return source;
    records.delete(entry.number);
    source = { ...source, number: entry.number, after: entry.key };
  }
}
