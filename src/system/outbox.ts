import { sql, type Selectable, type Transaction } from 'kysely';
import { z } from 'zod';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../model/errors.ts';
import type { Decision, OutboxItem, OutboxStatus } from '../model/outbox.ts';
import type { Records } from './records.ts';

/** Whose records: a job that runs another one again goes on with what that one has sent. */
export interface OutboxOwner {
  originId: string;
  step: string;
}

/** A record, a batch, or a part of one: so many of its records, from the first one on. */
export interface OutboxEntry {
  /** The identity of the record or batch. */
  record: string;
  first: number;
  count: number;
  number: number;
  /** Which request of the record or batch it is, from 1. */
  request: number;
  status: OutboxStatus;
  decision: Decision | null;
  httpStatus: number | null;
  responseId: string | null;
  error: string | null;
}

/** A job under the epoch of its worker. */
interface ClaimedJob {
  jobId: string;
  epoch: number;
}

interface Ask {
  status?: OutboxStatus | undefined;
  after?: string | undefined;
  limit: number;
}

/** How many values a statement may have differs; each entry has twelve. */
const ENTRIES_AT_ONCE = 500;

/** What was sent of the source records of jobs, and what became of it. */
export class Outbox {
  readonly #database: Database<Records>;
  readonly #now: () => number;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
  }

  /**
   * false: the job is another worker's now, and nothing was written. The job is held meanwhile: whoever takes it sees
   * what was written before, and after that nothing is.
   */
  async write(
    { originId, step }: OutboxOwner,
    job: ClaimedJob,
    entries: readonly OutboxEntry[],
  ): Promise<boolean> {
    return this.#under(job, async (transaction) => {
      const rows = entries.map((entry) => ({
        origin_id: originId,
        step,
        record: entry.record,
        first: entry.first,
        count: entry.count,
        number: entry.number,
        request: entry.request,
        status: entry.status,
        decision: null,
        http_status: entry.httpStatus,
        response_id: entry.responseId,
        error: entry.error,
        changed_at: this.#now(),
      }));
      for (let from = 0; from < rows.length; from += ENTRIES_AT_ONCE) {
        await transaction
          .insertInto('outbox')
          .values(rows.slice(from, from + ENTRIES_AT_ONCE))
          .onConflict((conflict) =>
            conflict.columns(['origin_id', 'step', 'record', 'first']).doUpdateSet(({ ref }) => ({
              count: ref('excluded.count'),
              number: ref('excluded.number'),
              request: ref('excluded.request'),
              status: ref('excluded.status'),
              decision: ref('excluded.decision'),
              http_status: ref('excluded.http_status'),
              response_id: ref('excluded.response_id'),
              error: ref('excluded.error'),
              changed_at: ref('excluded.changed_at'),
            })),
          )
          .execute();
      }
    });
  }

  /** All of these records, with all parts of them. */
  async of({ originId, step }: OutboxOwner, records: readonly string[]): Promise<OutboxEntry[]> {
    const rows = await this.#database.query
      .selectFrom('outbox')
      .selectAll()
      .where('origin_id', '=', originId)
      .where('step', '=', step)
      .where('record', 'in', records)
      .orderBy('first')
      .execute();
    return rows.map(asEntry);
  }

  /** What was sent, and is said nothing of yet. */
  async sent({ originId, step }: OutboxOwner): Promise<OutboxEntry[]> {
    const rows = await this.#database.query
      .selectFrom('outbox')
      .selectAll()
      .where('origin_id', '=', originId)
      .where('step', '=', step)
      .where('status', '=', 'sent' satisfies OutboxStatus)
      .execute();
    return rows.map(asEntry);
  }

  /** Of all that is unknown, and that nobody has decided on. false: the job is another worker's now. */
  async decide({ originId, step }: OutboxOwner, job: ClaimedJob, decision: Decision): Promise<boolean> {
    return this.#under(job, async (transaction) => {
      await transaction
        .updateTable('outbox')
        .set({ decision })
        .where('origin_id', '=', originId)
        .where('step', '=', step)
        .where('status', '=', 'unknown' satisfies OutboxStatus)
        .where('decision', 'is', null)
        .execute();
    });
  }

  /** What is unknown, and nobody has decided on: how many source records, and the first numbers. */
  async undecided(
    { originId, step }: OutboxOwner,
    most: number,
  ): Promise<{ count: number; numbers: number[] }> {
    const undecided = this.#database.query
      .selectFrom('outbox')
      .where('origin_id', '=', originId)
      .where('step', '=', step)
      .where('status', '=', 'unknown' satisfies OutboxStatus)
      .where('decision', 'is', null);
    const { records } = await undecided
      .select(({ fn }) => fn.sum<number | string | null>('count').as('records'))
      .executeTakeFirstOrThrow();
    const rows = await undecided.select('number').distinct().orderBy('number').limit(most).execute();
    return { count: Number(records ?? 0), numbers: rows.map(({ number }) => number) };
  }

  /** The number of source records by status. */
  async counts({ originId, step }: OutboxOwner): Promise<Partial<Record<OutboxStatus, number>>> {
    const rows = await this.#database.query
      .selectFrom('outbox')
      .select(['status', ({ fn }) => fn.sum<number | string>('count').as('records')])
      .where('origin_id', '=', originId)
      .where('step', '=', step)
      .groupBy('status')
      .execute();
    return Object.fromEntries(rows.map(({ status, records }) => [status, Number(records)]));
  }

  /** By step and number. `after`: the key of an item. */
  async list(originId: string, { status, after, limit }: Ask): Promise<{ item: OutboxItem; key: string }[]> {
    const rows = await this.#database.query
      .selectFrom('outbox')
      .selectAll()
      .where('origin_id', '=', originId)
      .$if(status !== undefined, (query) => query.where('status', '=', status as OutboxStatus))
      .$if(after !== undefined, (query) => {
        const [step, number, first, record] = partsOfKey(after as string);
        return query.where(
          sql<boolean>`(step, number, first, record) > (${step}, ${number}, ${first}, ${record})`,
        );
      })
      .orderBy('step')
      .orderBy('number')
      .orderBy('first')
      .orderBy('record')
      .limit(limit)
      .execute();
    return rows.map((row) => {
      const { number, first, count, request, status, decision, httpStatus, responseId, error } = asEntry(row);
      const entry = { number, first, count, request, status, decision, httpStatus, responseId, error };
      const changedAt = new Date(row.changed_at).toISOString();
      return { item: { step: row.step, ...entry, changedAt }, key: keyOf(row) };
    });
  }

  /** A job that sends the same records, and is not over. */
  async rival(originId: string, jobId: string): Promise<string | null> {
    const row = await this.#database.query
      .selectFrom('job')
      .select('job_id')
      .where(({ or, eb }) => or([eb('job_id', '=', originId), eb('rerun_of', '=', originId)]))
      .where('job_id', '!=', jobId)
      .where('state', 'in', ['running', 'waiting'])
      .executeTakeFirst();
    return row?.job_id ?? null;
  }

  async #under(
    { jobId, epoch }: ClaimedJob,
    write: (transaction: Transaction<Records>) => Promise<void>,
  ): Promise<boolean> {
    const { query, capabilities } = this.#database;
    return query.transaction().execute(async (transaction) => {
      const ours = await transaction
        .selectFrom('job')
        .select('job_id')
        .where('job_id', '=', jobId)
        .where('epoch', '=', epoch)
        .$if(capabilities.concurrentTransactions, (select) => select.forShare())
        .executeTakeFirst();
      if (ours) await write(transaction);
      return ours !== undefined;
    });
  }
}

/** Of jobs that are deleted, as far as no job is left that goes on with what they have sent. */
export async function deleteOutboxOf(
  { query }: Database<Records>,
  originIds: readonly string[],
): Promise<void> {
  if (originIds.length === 0) return;
  await query
    .deleteFrom('outbox')
    .where('origin_id', 'in', originIds)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('job')
            .select(sql<number>`1`.as('one'))
            .where(({ or, eb, ref }) =>
              or([
                eb('job.job_id', '=', ref('outbox.origin_id')),
                eb('job.rerun_of', '=', ref('outbox.origin_id')),
              ]),
            ),
        ),
      ),
    )
    .execute();
}

function asEntry(row: Selectable<Records['outbox']>): OutboxEntry {
  return {
    record: row.record,
    first: row.first,
    count: row.count,
    number: row.number,
    request: row.request,
    status: row.status as OutboxStatus,
    decision: row.decision as Decision | null,
    httpStatus: row.http_status,
    responseId: row.response_id,
    error: row.error,
  };
}

function keyOf({ step, number, first, record }: Selectable<Records['outbox']>): string {
  return Buffer.from(JSON.stringify([step, number, first, record])).toString('base64url');
}

const KeyParts = z.tuple([z.string(), z.int(), z.int(), z.string()]);

function partsOfKey(key: string): z.infer<typeof KeyParts> {
  try {
    return KeyParts.parse(JSON.parse(Buffer.from(key, 'base64url').toString()));
  } catch (error) {
    throw new ServiceError('invalid_request', 'after: must be the `next` of the page before', {
      path: 'after',
      cause: error,
    });
  }
}
