import { isDeepStrictEqual } from 'node:util';
import type { HttpRequest } from '../../model/http-request.ts';
import { HttpFailure, type FailureKind } from '../../http/failure.ts';
import { mayRetryFreely } from '../../http/retry.ts';
import type { Outbox } from '../../system/outbox.ts';
import { HttpStatusError, jobErrorOf } from '../failure.ts';
import type { OperationContext } from '../operation.ts';
import {
  afterAccepted,
  afterRefused,
  nextPart,
  partsOf,
  without,
  type Parts,
  type Range,
  type Refusal,
  type Rejection,
} from './bisect.ts';
import type { PageLoad } from './load-tables.ts';
import type { JobStores } from './job-stores.ts';
import type { LoopState, RecordState } from './loop-state.ts';
import { JobOutbox, type RecordToSend, type Sent } from './outbox.ts';
import type { Answer, Page, Sending } from './page.ts';
import type { PagedRequest } from './paged-request.ts';
import { rejectLoad, rejectTableName, type RejectTable } from './reject-table.ts';
import type { SourceRecord } from './source-records.ts';

interface SourceSenderParts {
  config: HttpRequest;
  context: OperationContext;
  request: PagedRequest;
  outbox: JobOutbox;
  rejectTable: RejectTable;
}

interface OpenParts {
  config: HttpRequest;
  context: OperationContext;
  request: PagedRequest;
  outbox: Outbox;
  state: LoopState;
  stores: JobStores;
  homeSource: string;
}

/** RFC 9110, 9.2.2: sent twice, they do what they do once. */
const IDEMPOTENT: readonly string[] = ['PUT', 'DELETE'];
/** Answers by which a system says that it took nothing of a batch, because of something in it. */
const REFUSALS: readonly number[] = [400, 409, 413, 422];
/** A gateway says by them that it does not know what became of the request. */
const NO_ANSWERS: readonly number[] = [502, 504];
/** Failures before anything of a request goes out. */
const NOT_SENT: readonly FailureKind[] = [
  'invalid_url',
  'invalid_method',
  'invalid_header',
  'egress',
  'dns',
  'connect_timeout',
  'connection',
  'tls',
  'proxy',
];

/** Sends a record, or a batch in one part or in many, so that no row goes out a second time unasked. */
export class SourceSender {
  readonly #parts: SourceSenderParts;

  private constructor(parts: SourceSenderParts) {
    this.#parts = parts;
  }

  /** null: the requests change nothing out there, or are made for no records. */
  static async open({
    config,
    context,
    request,
    outbox,
    state,
    stores,
    homeSource,
  }: OpenParts): Promise<SourceSender | null> {
    const { method, options } = config.request;
    if (!config.sourceTable || mayRetryFreely(method)) return null;
    const onUnknown = options.onUnknown ?? (IDEMPOTENT.includes(method) ? 'resend' : 'fail');
    const { defaultSpace } = await stores.of(homeSource, 'target.source');
    const place = { source: homeSource, space: defaultSpace, table: rejectTableName(config) };
    const rejectTable = { place, jobId: context.jobId };
    const opened = await JobOutbox.open(outbox, context, state, onUnknown);
    return new SourceSender({ config, context, request, outbox: opened, rejectTable });
  }

  toSend(records: AsyncGenerator<SourceRecord>): AsyncGenerator<RecordToSend> {
    return this.#parts.outbox.toSend(records);
  }

  /** Writes what is left to be said of what was sent. */
  close(): Promise<void> {
    return this.#parts.outbox.close();
  }

  /** How many source records are in which state. */
  counts(): Promise<Record<string, number>> {
    return this.#parts.outbox.counts();
  }

  async *pages({ record, done }: RecordToSend, state: RecordState | null): AsyncGenerator<Page> {
    const { request, outbox } = this.#parts;
    let parts = withoutDone(state?.parts ?? partsOf([{ from: 0, to: record.count }]), done);
    let requests = state?.requests ?? 0;
    let goesOn = state?.next === null ? null : state;
    for (let part = nextPart(parts); part; part = nextPart(parts)) {
      const sent: Sent = { record, part, request: requests };
      for await (const page of request.pages(recordsOf(record, part), goesOn, this.#sending(sent))) {
        requests += 1;
        const { refusal } = page;
        const isOver = page.next === null;
        const after = isOver ? this.#after(parts, part, refusal) : { parts, rejected: null };
        parts = after.parts;
        if (refusal) await outbox.refused(sent, refusal, refusal.reason);
        const onCommitted = refusal ? null : () => outbox.committed(sent, answerOf(page), isOver);
        yield await this.#withRejected({ ...page, record, requests, parts, onCommitted }, after.rejected);
      }
      goesOn = null;
    }
  }

  #after(parts: Parts, part: Range, refusal: Refusal | null) {
    return refusal ? afterRefused(parts, part, refusal) : afterAccepted(parts, part);
  }

  /** The bad record lands in the reject table with the page by which it was found. */
  async #withRejected(page: Page, rejected: Rejection | null): Promise<Page> {
    if (!rejected) return page;
    const { outbox, context, rejectTable } = this.#parts;
    const { record } = page;
    const { index, by } = rejected;
    const sent = { record, part: { from: index, to: index + 1 }, request: page.requests };
    await outbox.refused(sent, by, by.reason);
    const number = record.first + index;
    const load = rejectLoad(rejectTable, { number, recordJson: recordsJson(record)[index] ?? 'null', by });
    context.report.log('warn', `the system refused the source record ${number}: ${by.reason}`);
    return withLoad(page, load);
  }

  #sending(sent: Sent): Sending {
    const { outbox, config } = this.#parts;
    const { batching } = config.sourceTable ?? {};
    const { onRejectedBatch } = config.request.options;
    const { record, part } = sent;
    return {
      idempotencyOf: [...outbox.idempotencyOf, record.id, `${part.from}-${part.to}`],
      goesOut: () => {
        sent.request += 1;
        return outbox.goesOut(sent);
      },
      refused: (error, iteration) => {
        if (!batching || onRejectedBatch !== 'bisect' || iteration > 1) return null;
        if (!(error instanceof HttpStatusError) || !REFUSALS.includes(error.statusCode)) return null;
        return { status: error.statusCode, reason: error.message };
      },
      failed: (error, answer) => {
        const status = isRefusal(error, answer) ? 'failed' : 'unknown';
        outbox.failed(sent, status, answer, jobErrorOf(error).message);
      },
    };
  }
}

/** Where some of it is passed over, a bad record is searched for anew. */
function withoutDone(parts: Parts, done: readonly Range[]): Parts {
  const todo = done.reduce(without, parts.todo);
  return isDeepStrictEqual(todo, parts.todo) ? parts : { ...parts, todo, refused: null };
}

/** Whether it is certain that the system has not taken the record. */
function isRefusal(error: unknown, answer: Answer | null): boolean {
  if (answer) return answer.status >= 300 && !NO_ANSWERS.includes(answer.status);
  if (error instanceof HttpFailure) return !error.sent && NOT_SENT.includes(error.kind);
  return true;
}

function answerOf({ log, responseId }: Page): Answer {
  return { status: log.status ?? 0, responseId };
}

function recordsJson({ dataJson }: SourceRecord): string[] {
  return (JSON.parse(dataJson) as unknown[]).map((row) => JSON.stringify(row));
}

function recordsOf(record: SourceRecord, { from, to }: Range): SourceRecord {
  if (from === 0 && to === record.count) return record;
  const dataJson = `[${recordsJson(record).slice(from, to).join(',')}]`;
  return { ...record, dataJson };
}

function withLoad(page: Page, { place, load, rowCount }: PageLoad): Page {
  const tables = [...page.log.tables, { ...place, records: rowCount }];
  return {
    ...page,
    loads: [...page.loads, { place, load, rowCount }],
    log: { ...page.log, records: page.log.records + rowCount, tables },
  };
}
