import { createHash } from 'node:crypto';
import type { Connection } from 'mariadb';
import { StoreUnavailable } from '../../table-errors.ts';
import type { Checkpoint, TableName } from '../../table-store.ts';
import { hasErrno } from './errors.ts';
import type { Place } from './place.ts';
import { quote } from './sql-names.ts';

/** Whose a table is, and whether readers see it yet. Tables that are no job's own have no record. */
export interface Standing {
  temporary: boolean;
  staged: boolean;
  jobId: string;
  /** '' unless it is staged. */
  step: string;
}

export interface OwnTable {
  /** 16 hexadecimal digits: the table's identity, and part of its name in the database. */
  id: string;
  name: TableName;
  standing: Standing;
  /** Whether a page that loaded into it was committed; else it stands for nothing, and is dropped when met. */
  committed: boolean;
}

interface OwnRow {
  id: string;
  space: string;
  name: string;
  temporary: number;
  staged: number;
  committed: number;
  job_id: string;
  step: string;
}

const LAYOUT = 1;
const SETUP_LOCK_S = 60;
const TEXT = 'TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL';

/** `hash` is that of what identifies a row: texts of any length make no index. */
function definitions(checkpoint: string, table: string): string[] {
  const options = 'ENGINE=InnoDB ROW_FORMAT=DYNAMIC';
  return [
    `CREATE TABLE IF NOT EXISTS ${checkpoint} (
       hash BINARY(32) PRIMARY KEY, job_id ${TEXT}, step ${TEXT}, epoch BIGINT NOT NULL, page BIGINT NOT NULL,
       cursor_text LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NULL, INDEX (job_id(64))
     ) ${options}`,
    // Made last: where it is, all is there. hash is null once a table only waits to be dropped.
    `CREATE TABLE IF NOT EXISTS ${table} (
       id CHAR(16) CHARACTER SET ascii PRIMARY KEY, hash BINARY(32) NULL UNIQUE, space ${TEXT}, name ${TEXT},
       temporary BOOLEAN NOT NULL, staged BOOLEAN NOT NULL, committed BOOLEAN NOT NULL, job_id ${TEXT}, step ${TEXT},
       made_at DATETIME NOT NULL, INDEX (job_id(64))
     ) ${options} COMMENT='millrace layout ${LAYOUT}'`,
  ];
}

/** The checkpoints, and the tables that are a job's own, in two tables beside those of the users. */
export class Bookkeeping {
  readonly #home: string;
  readonly #checkpoint: string;
  readonly #table: string;
  #there = false;

  constructor({ home }: Place) {
    this.#home = home;
    this.#checkpoint = `${quote(home)}.\`millrace_checkpoint\``;
    this.#table = `${quote(home)}.\`millrace_table\``;
  }

  /** Creates what is missing; several nodes may do so at once. */
  async setUp(connection: Connection): Promise<void> {
    if (this.#there || (await this.isThere(connection))) return;
    const lock = `millrace set up ${digest([this.#home]).toString('hex')}`;
    await lockNames(connection, [lock], SETUP_LOCK_S);
    await createDatabase(connection, this.#home);
    for (const sql of definitions(this.#checkpoint, this.#table)) await connection.query(sql);
    await connection.query('DO RELEASE_ALL_LOCKS()');
    this.#there = true;
  }

  async isThere(connection: Connection): Promise<boolean> {
    if (this.#there) return true;
    const rows = await connection.execute<{ comment: string }[]>(
      `SELECT TABLE_COMMENT AS comment FROM information_schema.TABLES
       WHERE TABLE_SCHEMA = ? AND TABLE_NAME = 'millrace_table'`,
      [this.#home],
    );
    if (rows.length === 0) return false;
    const layout = Number(/^millrace layout (\d+)$/.exec(rows[0]?.comment ?? '')?.[1]);
    if (!(layout <= LAYOUT)) {
      throw new StoreUnavailable({ problem: 'its bookkeeping was written by a newer version' });
    }
    this.#there = true;
    return true;
  }

  /** Waits for a page in flight. null: the epoch is no later one. */
  async claim(
    connection: Connection,
    jobId: string,
    step: string,
    epoch: number,
  ): Promise<Checkpoint | null> {
    const hash = digest([jobId, step]);
    await connection.execute(
      `INSERT INTO ${this.#checkpoint} (hash, job_id, step, epoch, page, cursor_text) VALUES (?, ?, ?, ?, 0, NULL)
       ON DUPLICATE KEY UPDATE hash = hash`,
      [hash, jobId, step, String(Number.MIN_SAFE_INTEGER)],
    );
    const [row] = await connection.execute<{ epoch: number; page: number; cursor_text: string | null }[]>(
      `SELECT CAST(epoch AS DOUBLE) AS epoch, CAST(page AS DOUBLE) AS page, cursor_text
       FROM ${this.#checkpoint} WHERE hash = ? FOR UPDATE`,
      [hash],
    );
    if (!row || row.epoch >= epoch) return null;
    await connection.execute(`UPDATE ${this.#checkpoint} SET epoch = ? WHERE hash = ?`, [
      String(epoch),
      hash,
    ]);
    return { page: row.page, cursor: row.cursor_text };
  }

  /** Whether the page is the next one of the epoch; from then on nobody else loads for the step. */
  async advance(
    connection: Connection,
    {
      jobId,
      step,
      epoch,
      page,
      cursor,
    }: { jobId: string; step: string; epoch: number; page: number; cursor: string },
  ): Promise<boolean> {
    const { affectedRows } = await connection.execute<{ affectedRows: number }>(
      `UPDATE ${this.#checkpoint} SET page = page + 1, cursor_text = ? WHERE hash = ? AND epoch = ? AND page = ?`,
      [cursor, digest([jobId, step]), String(epoch), String(page)],
    );
    return affectedRows > 0;
  }

  /** Under the claim's lock. undefined: the epoch has lost its claim. */
  async pagesCommitted(
    connection: Connection,
    jobId: string,
    step: string,
    epoch: number,
  ): Promise<number | undefined> {
    const [row] = await connection.execute<{ page: number }[]>(
      `SELECT CAST(page AS DOUBLE) AS page FROM ${this.#checkpoint} WHERE hash = ? AND epoch = ? FOR UPDATE`,
      [digest([jobId, step]), String(epoch)],
    );
    return row?.page;
  }

  async forget(connection: Connection, jobId: string): Promise<void> {
    await connection.execute(`DELETE FROM ${this.#checkpoint} WHERE job_id = ?`, [jobId]);
  }

  async jobs(connection: Connection): Promise<string[]> {
    const rows = await connection.query<{ job_id: string }[]>(
      `SELECT job_id FROM ${this.#checkpoint} UNION SELECT job_id FROM ${this.#table} WHERE job_id <> '' ORDER BY 1`,
    );
    return rows.map(({ job_id }) => job_id);
  }

  async tablesOf(connection: Connection, jobId: string): Promise<OwnTable[]> {
    const rows = await connection.execute<OwnRow[]>(
      `SELECT id, space, name, temporary, staged, committed, job_id, step FROM ${this.#table}
       WHERE job_id = ? AND hash IS NOT NULL ORDER BY made_at, id`,
      [jobId],
    );
    return rows.map(toOwnTable);
  }

  /** Tables that only wait to be dropped: left by a crash, or by a write of no job a day ago. */
  async garbageOf(connection: Connection, jobId: string): Promise<OwnTable[]> {
    const rows = await connection.execute<OwnRow[]>(
      `SELECT id, space, name, temporary, staged, committed, job_id, step FROM ${this.#table}
       WHERE job_id = ? AND (hash IS NULL OR (job_id = '' AND made_at < UTC_TIMESTAMP() - INTERVAL 1 DAY))`,
      [jobId],
    );
    return rows.map(toOwnTable);
  }

  async add(connection: Connection, { id, name, standing }: OwnTable): Promise<void> {
    const { temporary, staged, jobId, step } = standing;
    await connection.execute(
      `INSERT INTO ${this.#table} (id, hash, space, name, temporary, staged, committed, job_id, step, made_at)
       VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, UTC_TIMESTAMP())`,
      // A write that is no job's has a table to itself.
      [
        id,
        hashOf(name, standing, jobId === '' ? id : ''),
        name.space,
        name.table,
        temporary,
        staged,
        jobId,
        step,
      ],
    );
  }

  async markCommitted(connection: Connection, { id }: OwnTable): Promise<void> {
    await connection.execute(`UPDATE ${this.#table} SET committed = 1 WHERE id = ?`, [id]);
  }

  /** Another table may take its place. */
  async discard(connection: Connection, { id }: OwnTable): Promise<void> {
    await connection.execute(`UPDATE ${this.#table} SET hash = NULL WHERE id = ?`, [id]);
  }

  /** A staged temporary table is seen by its job from now on. */
  async show(connection: Connection, { id, name, standing }: OwnTable): Promise<void> {
    const shown = { ...standing, staged: false, step: '' };
    await connection.execute(`UPDATE ${this.#table} SET hash = ?, staged = 0, step = '' WHERE id = ?`, [
      hashOf(name, shown, ''),
      id,
    ]);
  }

  async remove(connection: Connection, { id }: OwnTable): Promise<void> {
    await connection.execute(`DELETE FROM ${this.#table} WHERE id = ?`, [id]);
  }
}

function toOwnTable(row: OwnRow): OwnTable {
  return {
    id: row.id,
    name: { space: row.space, table: row.name },
    standing: {
      temporary: Boolean(row.temporary),
      staged: Boolean(row.staged),
      jobId: row.job_id,
      step: row.step,
    },
    committed: Boolean(row.committed),
  };
}

function hashOf(
  { space, table }: TableName,
  { temporary, staged, jobId, step }: Standing,
  own: string,
): Buffer {
  return digest([space, table, temporary, staged, jobId, step, own]);
}

export function digest(parts: (string | boolean)[]): Buffer {
  return createHash('sha256').update(JSON.stringify(parts)).digest();
}

/** Locks by name, until the connection gives up all of them. In one order everywhere, so that nobody waits in a ring. */
export async function lockNames(connection: Connection, names: string[], waitSeconds: number): Promise<void> {
  for (const name of [...new Set(names)].toSorted()) {
    const [row] = await connection.execute<{ got: number | null }[]>(
      'SELECT CAST(GET_LOCK(?, ?) AS INT) AS got',
      [name, waitSeconds],
    );
    if (Number(row?.got) === 1) continue;
    const problem = `another page or change of the same table took longer than ${waitSeconds} s`;
    throw new StoreUnavailable({ problem });
  }
}

/** Asks first: who may use a database may not always create one. */
export async function createDatabase(connection: Connection, database: string): Promise<void> {
  const there = await connection.execute<{ name: string }[]>(
    'SELECT SCHEMA_NAME AS name FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?',
    [database],
  );
  // The comparison in SQL takes é for e.
  if (there.some(({ name }) => name === database)) return;
  try {
    await connection.query(`CREATE DATABASE ${quote(database)} CHARACTER SET utf8mb4`);
  } catch (error) {
    if (!hasErrno(error, 'ER_DB_CREATE_EXISTS')) throw error;
  }
}
