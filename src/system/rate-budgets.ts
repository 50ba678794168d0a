import { sql, type Expression } from 'kysely';
import { prepared } from '../database/prepared.ts';
import type { Database, Outcome } from '../database/database.ts';
import type { Records } from './records.ts';

/** Turns that are this process's alone: the first is due in `waitMs`, the others follow in even steps. */
export interface Reservation {
  waitMs: number;
}

/** A source that takes no requests for so long. */
export interface Block {
  source: string;
  ms: number;
}

const US_IN_MS = 1000;

/**
 * When requests may go to a source, for all jobs of all processes. The clock is the database's: those of the processes
 * may differ by more than the time between two turns.
 */
export class RateBudgets {
  readonly #database: Database<Records>;
  readonly #reserve: (source: string, spanUs: number) => Promise<Outcome<{ wait_us: number }>>;
  readonly #blocks: () => Promise<Outcome<{ source: string; left_us: number }>>;

  constructor(database: Database<Records>) {
    this.#database = database;
    const { query } = database;
    const now = nowOf(database);
    this.#reserve = prepared(database, 2, (source: string, spanUs: number) => {
      const span = inMicroseconds(spanUs);
      return query
        .insertInto('rate_budget')
        .values({ source, free_at_us: sql<number>`${now} + ${span}`, blocked_until_us: 0 })
        .onConflict((conflict) =>
          conflict.column('source').doUpdateSet(({ ref }) => ({
            free_at_us: sql<number>`${latest(database, now, ref('rate_budget.free_at_us'), ref('rate_budget.blocked_until_us'))} + ${span}`,
          })),
        )
        .returning(sql<number>`free_at_us - ${span} - ${now}`.as('wait_us'));
    });
    this.#blocks = prepared(database, 0, () =>
      query
        .selectFrom('rate_budget')
        .select(['source', sql<number>`blocked_until_us - ${now}`.as('left_us')])
        .where('blocked_until_us', '>', now),
    );
  }

  /**
   * The next `turns` turns, `intervalMs` apart, behind those that others have reserved. One statement: what two
   * processes ask at the same moment is given one after the other.
   */
  async reserve(source: string, turns: number, intervalMs: number): Promise<Reservation> {
    const { rows } = await this.#reserve(source, Math.ceil(turns * intervalMs * US_IN_MS));
    return { waitMs: Math.max(0, (rows[0]?.wait_us ?? 0) / US_IN_MS) };
  }

  /** Nothing is to be sent to it for so long; a longer block that is there already stays. */
  async block({ source, ms }: Block): Promise<void> {
    const now = nowOf(this.#database);
    const until = sql<number>`${now} + ${inMicroseconds(Math.ceil(ms * US_IN_MS))}`;
    await this.#database.query
      .insertInto('rate_budget')
      .values({ source, free_at_us: 0, blocked_until_us: until })
      .onConflict((conflict) =>
        conflict.column('source').doUpdateSet(({ ref }) => ({
          blocked_until_us: latest(this.#database, ref('rate_budget.blocked_until_us'), until),
        })),
      )
      .execute();
  }

  /** Those that hold now, of all sources. */
  async blocks(): Promise<Block[]> {
    const { rows } = await this.#blocks();
    return rows.map(({ source, left_us: leftUs }) => ({ source, ms: leftUs / US_IN_MS }));
  }

  async forget(source: string): Promise<void> {
    await this.#database.query.deleteFrom('rate_budget').where('source', '=', source).execute();
  }
}

/** As it is when the row is at hand: a statement may have waited for another one. */
function nowOf({ kind }: Database<Records>): Expression<number> {
  return kind === 'sqlite'
    ? sql<number>`cast(unixepoch('subsec') * 1000000 as integer)`
    : sql<number>`(extract(epoch from clock_timestamp()) * 1000000)::bigint`;
}

function latest({ kind }: Database<Records>, ...times: Expression<number>[]): Expression<number> {
  return sql<number>`${sql.raw(kind === 'sqlite' ? 'max' : 'greatest')}(${sql.join(times)})`;
}

/** PostgreSQL would take the parameter for an integer of 32 bits. */
function inMicroseconds(value: number): Expression<number> {
  return sql<number>`cast(${value} as bigint)`;
}
