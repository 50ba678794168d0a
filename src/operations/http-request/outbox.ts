import { ServiceError } from '../../model/errors.ts';
import {
  RESUME_NOTE,
  type Decision,
  type OnUnknown,
  type OutboxStatus,
  type ResumeNote,
} from '../../model/outbox.ts';
import type { Outbox, OutboxEntry, OutboxOwner } from '../../system/outbox.ts';
import { Fenced, type OperationContext } from '../operation.ts';
import type { Range } from './bisect.ts';
import type { LoopState } from './loop-state.ts';
import type { Answer } from './page.ts';
import type { SourceRecord } from './source-records.ts';

/** What goes out: a record, a batch, or a part of one. */
export interface Sent {
  record: SourceRecord;
  part: Range;
  /** Which request of the record it is. */
  request: number;
}

const READ_AT_ONCE = 200;
const NUMBERS_SHOWN = 10;
const NO_ANSWER = 'the job ended before an answer had come and what it brought was committed';

/**
 * The outbox of one operation. That a record is sent is written before it goes out; that it was taken is written
 * with the next one that goes out: until then the checkpoint tells it.
 */
export class JobOutbox {
  readonly #outbox: Outbox;
  readonly #owner: OutboxOwner;
  readonly #context: OperationContext;
  readonly #onUnknown: OnUnknown;
  readonly #hasHistory: boolean;
  #queue = new Map<string, OutboxEntry>();
  #underWay = new Map<string, OutboxEntry>();
  #next: Promise<void> | null = null;
  #writing: Promise<void> = Promise.resolve();

  private constructor(outbox: Outbox, context: OperationContext, history: History) {
    this.#outbox = outbox;
    this.#context = context;
    this.#owner = ownerOf(context);
    this.#onUnknown = history.onUnknown;
    this.#hasHistory = history.isThere;
  }

  /** Finds out what became of what was sent before, as far as that can be known; the rest is the policy's matter. */
  static async open(
    outbox: Outbox,
    context: OperationContext,
    state: LoopState,
    onUnknown: OnUnknown,
  ): Promise<JobOutbox> {
    const { originId, jobId } = context;
    const rival = await outbox.rival(originId, jobId);
    if (rival !== null) {
      const problem = `the job ${rival} sends the same records and is not over: wait for its end, or cancel it`;
      throw new ServiceError('conflict', problem);
    }
    await settle(outbox, context, state);
    const asked = await decide(outbox, context);
    const isThere = Object.keys(await outbox.counts(ownerOf(context))).length > 0;
    if (isThere && (asked === 'fail' || onUnknown === 'fail')) await refuseUndecided(outbox, context);
    return new JobOutbox(outbox, context, { onUnknown, isThere });
  }

  /** With what of each record is still to be sent. */
  async *toSend(records: AsyncGenerator<SourceRecord>): AsyncGenerator<RecordToSend> {
    if (!this.#hasHistory) {
      for await (const record of records) yield { record, done: [] };
      return;
    }
    let read: SourceRecord[] = [];
    for await (const record of records) {
      read.push(record);
      // Batches may be large: they are not gathered.
      if (read.length < READ_AT_ONCE && record.count === 1) continue;
      yield* await this.#withHistory(read);
      read = [];
    }
    if (read.length > 0) yield* await this.#withHistory(read);
  }

  async goesOut(sent: Sent): Promise<void> {
    const entry = entryOf(sent, 'sent');
    this.#underWay.set(keyOf(entry), entry);
    await this.#write(entry);
  }

  /** The page is committed. `isOver`: no other request for it follows. */
  committed(sent: Sent, answer: Answer, isOver: boolean): void {
    const entry = entryOf(sent, 'ok', answer);
    this.#underWay.delete(keyOf(entry));
    if (isOver) this.#queue.set(keyOf(entry), entry);
  }

  /** Before the page is committed that says so: nobody else would tell it from what was taken. */
  async refused(sent: Sent, answer: Pick<Answer, 'status'>, reason: string): Promise<void> {
    const entry = entryOf(sent, 'failed', { responseId: null, ...answer }, this.#redacted(reason));
    this.#underWay.delete(keyOf(entry));
    await this.#write(entry);
  }

  failed(sent: Sent, status: 'failed' | 'unknown', answer: Answer | null, reason: string): void {
    const entry = entryOf(sent, status, answer, this.#redacted(reason));
    // What failed before it went out is as it was.
    if (this.#underWay.delete(keyOf(entry))) this.#queue.set(keyOf(entry), entry);
  }

  /** Writes what is left to be said. */
  async close(): Promise<void> {
    for (const [key, entry] of this.#underWay)
      this.#queue.set(key, { ...entry, status: 'unknown', error: NO_ANSWER });
    this.#underWay.clear();
    await this.#writing;
    if (this.#queue.size > 0) await this.#flush();
  }

  async counts(): Promise<Record<'ok' | 'failed' | 'unknown', number>> {
    return { ok: 0, failed: 0, unknown: 0, ...(await this.#outbox.counts(this.#owner)) };
  }

  get idempotencyOf(): readonly string[] {
    return [this.#owner.originId, this.#owner.step];
  }

  async #withHistory(records: readonly SourceRecord[]): Promise<RecordToSend[]> {
    const ids = records.map(({ id }) => id);
    const found = Map.groupBy(await this.#outbox.of(this.#owner, ids), (entry) => entry.record);
    return records.map((record) => {
      const done = (found.get(record.id) ?? [])
        .filter(({ status, decision }) => status === 'ok' || (status === 'unknown' && this.#skips(decision)))
        .map(({ first, count }) => ({ from: first, to: first + count }));
      return { record, done };
    });
  }

  /** What several records have to say at once is written together. */
  #write(entry: OutboxEntry): Promise<void> {
    this.#queue.set(keyOf(entry), entry);
    if (!this.#next) {
      this.#next = this.#writing.then(() => this.#flush());
      this.#writing = this.#next.catch(() => undefined); // thrown to those who wait for it
    }
    return this.#next;
  }

  async #flush(): Promise<void> {
    this.#next = null;
    const entries = [...this.#queue.values()];
    this.#queue = new Map();
    if (!(await this.#outbox.write(this.#owner, this.#context, entries)))
      throw new Fenced('another worker has taken the job');
  }

  #skips(decision: Decision | null): boolean {
    return (decision ?? this.#onUnknown) === 'skip';
  }

  #redacted(text: string): string {
    return this.#context.report.redacted(text);
  }
}

export interface RecordToSend {
  record: SourceRecord;
  /** Of its rows, what needs not be sent any more. */
  done: Range[];
}

interface History {
  onUnknown: OnUnknown;
  isThere: boolean;
}

/** What was sent when a worker stopped: the checkpoint tells what was committed, and nobody the rest. */
async function settle(outbox: Outbox, context: OperationContext, state: LoopState): Promise<void> {
  const owner = ownerOf(context);
  const settled: OutboxEntry[] = [];
  for (const entry of await outbox.sent(owner)) {
    const standing = state.standingOf(entry);
    if (standing === 'done') settled.push({ ...entry, status: 'ok' });
    if (standing === 'open') settled.push({ ...entry, status: 'unknown', error: NO_ANSWER });
  }
  if (settled.length === 0) return;
  if (!(await outbox.write(owner, context, settled))) throw new Fenced('another worker has taken the job');
}

/**
 * What was said by whoever resumed the job holds for what is unknown now, and for nothing that comes to it later. Gives
 * it where it was not followed yet.
 */
async function decide(outbox: Outbox, context: OperationContext): Promise<OnUnknown | undefined> {
  const { progress, step } = context;
  const resumed = progress.of(RESUME_NOTE) as ResumeNote | null;
  const followed = `${step} ${RESUME_NOTE}`;
  if (!resumed || progress.of(followed) === resumed.at) return undefined;
  const { onUnknown, at } = resumed;
  if (onUnknown === 'resend' || onUnknown === 'skip') {
    if (!(await outbox.decide(ownerOf(context), context, onUnknown)))
      throw new Fenced('another worker has taken the job');
  }
  if (onUnknown !== undefined) await progress.note(followed, at);
  return onUnknown;
}

async function refuseUndecided(outbox: Outbox, context: OperationContext): Promise<void> {
  const { count, numbers } = await outbox.undecided(ownerOf(context), NUMBERS_SHOWN);
  if (count === 0) return;
  const records = count === 1 ? '1 source record was' : `${count} source records were`;
  const shown = `${numbers.join(', ')}${numbers.length === NUMBERS_SHOWN ? ', …' : ''}`;
  throw new ServiceError(
    'outcome_unknown',
    `${records} sent, and whether the external system took them is not known (number ${shown}): no answer came, or ` +
      'what it brought could not be committed. Look there, then resume the job with {"onUnknown": "skip"} if they ' +
      'were taken, or {"onUnknown": "resend"} if not; the outbox of the job lists them',
    { path: 'request.options.onUnknown' },
  );
}

function ownerOf({ originId, step }: OperationContext): OutboxOwner {
  return { originId, step };
}

function keyOf({ record, first }: OutboxEntry): string {
  return `${first} ${record}`;
}

function entryOf(
  { record: { id, number }, part, request }: Sent,
  status: OutboxStatus,
  answer: Answer | null = null,
  error: string | null = null,
): OutboxEntry {
  return {
    record: id,
    first: part.from,
    count: part.to - part.from,
    number,
    request,
    status,
    decision: null,
    httpStatus: answer?.status ?? null,
    responseId: answer?.responseId ?? null,
    error,
  };
}
