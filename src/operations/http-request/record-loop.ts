import type { OperationContext } from '../operation.ts';
import { eachAtOnce } from './at-once.ts';
import type { LoopState } from './loop-state.ts';
import type { RecordToSend } from './outbox.ts';
import type { PageCommitter } from './page-committer.ts';
import type { PagedRequest } from './paged-request.ts';
import type { Source, SourceRecord } from './source-records.ts';
import type { SourceSender } from './source-sender.ts';

interface RecordLoopParts {
  context: OperationContext;
  source: Source;
  state: LoopState;
  request: PagedRequest;
  committer: PageCommitter;
  /** null: the requests change nothing out there, or are made for no records. */
  sender: SourceSender | null;
  concurrency: number;
}

/** The pages of all records, each committed before the next one of its record is asked for. */
export async function loopOverRecords(parts: RecordLoopParts): Promise<void> {
  const { context, source, request, committer, sender, concurrency } = parts;
  try {
    const items = sender ? sender.toSend(source.records()) : withoutHistory(source.records());
    await eachAtOnce(items, concurrency, (item, failed) => loop(item, failed, parts));
  } finally {
    try {
      await committer.settle();
    } finally {
      await sender?.close();
    }
    // After the pages before them, so that the page log has their order.
    for (const { log, body } of request.failedPages) context.report.page(log, body);
  }
}

async function loop(
  item: RecordToSend,
  failed: AbortSignal,
  { context, state, request, committer, sender }: RecordLoopParts,
): Promise<void> {
  const { record } = item;
  const entry = state.of(record);
  const pages = sender ? sender.pages(item, entry) : request.pages(record, entry);
  let isPassedOver = !state.isDone(record);
  for await (const page of pages) {
    isPassedOver = false;
    await committer.commit(page);
    context.stopSignal.throwIfAborted();
    failed.throwIfAborted();
  }
  if (isPassedOver) await committer.passOver(record);
}

async function* withoutHistory(records: AsyncGenerator<SourceRecord>): AsyncGenerator<RecordToSend> {
  for await (const record of records) yield { record, done: [] };
}
