import { sql, type Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { JobEvent, JobPage, JobStats } from '../model/job.ts';
import { deleteOutboxOf } from './outbox.ts';
import type { Records } from './records.ts';

/** What a worker has to tell of a job since it last did. */
export interface JobNews {
  stats: JobStats;
  /** Their numbers follow those of the pages before. */
  pages: readonly JobPage[];
  /** They get their numbers here, without gaps, whoever else writes events of the job. */
  events: readonly Omit<JobEvent, 'n'>[];
  /** Responses to be kept, of these pages or of ones before. */
  bodies: readonly { n: number; body: Uint8Array }[];
}

interface Ask {
  after?: number;
  limit: number;
}

/** The pages and events of jobs. */
export class JobHistory {
  readonly #database: Database<Records>;

  constructor(database: Database<Records>) {
    this.#database = database;
  }

  async pages(jobId: string, { after = 0, limit }: Ask): Promise<JobPage[]> {
    const rows = await this.#database.query
      .selectFrom('job_page')
      .select(['record', (select) => select('body', 'is not', null).as('has_body')])
      .where('job_id', '=', jobId)
      .where('n', '>', after)
      .orderBy('n')
      .limit(limit)
      .execute();
    return rows.map(({ record, has_body }) => ({
      ...(JSON.parse(record) as JobPage),
      hasBody: Boolean(has_body),
    }));
  }

  async pageBody(jobId: string, n: number): Promise<Uint8Array | null> {
    const row = await this.#database.query
      .selectFrom('job_page')
      .select('body')
      .where('job_id', '=', jobId)
      .where('n', '=', n)
      .executeTakeFirst();
    return row?.body ?? null;
  }

  async events(jobId: string, { after = 0, limit }: Ask): Promise<JobEvent[]> {
    const rows = await this.#database.query
      .selectFrom('job_event')
      .select(['n', 'type', 'at', 'data'])
      .where('job_id', '=', jobId)
      .where('n', '>', after)
      .orderBy('n')
      .limit(limit)
      .execute();
    return rows.map(({ n, type, at, data }) => ({
      n,
      type: type as JobEvent['type'],
      at: new Date(at).toISOString(),
      data: JSON.parse(data) as JobEvent['data'],
    }));
  }
}

/**
 * Under the epoch of a claim, or, without one, whoever has the job. false: the job is another worker's now, and
 * nothing was written. The job's row is locked first, so that events get their numbers one after the other.
 */
export async function writeNews(
  transaction: Transaction<Records>,
  jobId: string,
  epoch: number | null,
  { stats, pages, events, bodies }: Omit<JobNews, 'stats'> & { stats: JobStats | null },
): Promise<boolean> {
  const job = await transaction
    .updateTable('job')
    .set((set) => ({
      ...(stats && { stats: JSON.stringify(stats) }),
      page_count: set('page_count', '+', pages.length),
      event_count: set('event_count', '+', events.length),
    }))
    .where('job_id', '=', jobId)
    .$if(epoch !== null, (query) => query.where('epoch', '=', epoch as number))
    .returning('event_count')
    .executeTakeFirst();
  if (!job) return false;
  if (pages.length > 0) {
    await transaction
      .insertInto('job_page')
      .values(pages.map((page) => ({ job_id: jobId, n: page.n, record: JSON.stringify(page), body: null })))
      .execute();
  }
  for (const { n, body } of bodies) {
    await transaction
      .updateTable('job_page')
      .set({ body })
      .where('job_id', '=', jobId)
      .where('n', '=', n)
      .execute();
  }
  if (events.length > 0) {
    const first = job.event_count - events.length + 1;
    await transaction
      .insertInto('job_event')
      .values(
        events.map(({ type, at, data }, index) => ({
          job_id: jobId,
          n: first + index,
          type,
          at: Date.parse(at),
          data: JSON.stringify(data),
        })),
      )
      .execute();
  }
  return true;
}

/** So many jobs that ended before then go, with their pages, events and outboxes. Gives their number. */
export async function deleteJobsEndedBefore(
  database: Database<Records>,
  time: number,
  most: number,
): Promise<number> {
  const { query } = database;
  const deleted = await query
    .deleteFrom('job')
    .where(
      'job_id',
      'in',
      query
        .selectFrom('job')
        .select('job_id')
        .where('ended_at', '<', time)
        .where('clean_up_at', 'is', null)
        .orderBy('ended_at')
        .limit(most),
    )
    .returning(['job_id', 'rerun_of'])
    .execute();
  await deleteOutboxOf(
    database,
    deleted.map(({ job_id, rerun_of }) => rerun_of ?? job_id),
  );
  return deleted.length;
}

/** The kept responses of so many jobs that ended before then go. Gives the number of responses. */
export async function deleteBodiesEndedBefore(
  { query }: Database<Records>,
  time: number,
  most: number,
): Promise<number> {
  const { numUpdatedRows } = await query
    .updateTable('job_page')
    .set({ body: null })
    .where('body', 'is not', null)
    .where(
      'job_id',
      'in',
      query
        .selectFrom('job')
        .select('job_id')
        .where('ended_at', '<', time)
        .where(({ exists, selectFrom }) =>
          exists(
            selectFrom('job_page')
              .select(sql<number>`1`.as('one'))
              .whereRef('job_page.job_id', '=', 'job.job_id')
              .where('job_page.body', 'is not', null),
          ),
        )
        .limit(most),
    )
    .executeTakeFirst();
  return Number(numUpdatedRows);
}
