import type { Checkpoint, PageCommit, TableName } from '../../table-store.ts';
import { rowsOf, type Client, type Connections } from './connections.ts';
import { hasCode } from './failures.ts';
import { lockKey, OWN_SCHEMA, quote } from './names.ts';

/** Whose a table is that only its job sees, or that readers do not see yet. */
export interface Standing {
  temporary: boolean;
  staged: boolean;
  jobId: string;
  /** '' unless it is staged. */
  step: string;
}

/** A staging or temporary table: it stands in OWN_SCHEMA, under a generated name. */
export interface OwnTable {
  id: string;
  name: TableName;
  relation: string;
  standing: Standing;
}

/**
 * `own_table`: see OwnTable. `replaced_table`: how often the rows of a table were replaced while the table itself
 * stayed; it is a part of the keys of reading.
 */
const TABLES = [
  `checkpoint (
    job_id text, step text, epoch bigint NOT NULL, page bigint NOT NULL, cursor text,
    PRIMARY KEY (job_id, step)
  )`,
  `own_table (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id text NOT NULL, step text NOT NULL, space text NOT NULL, name text NOT NULL,
    temporary boolean NOT NULL, staged boolean NOT NULL, relation text NOT NULL UNIQUE,
    UNIQUE (job_id, step, space, name, temporary, staged)
  )`,
  'replaced_table (relation oid PRIMARY KEY, times bigint NOT NULL)',
];

const THERE = `SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = '${OWN_SCHEMA}' AND c.relname = 'replaced_table' AND has_schema_privilege(n.oid, 'USAGE')`;

/** The tables of the bookkeeping; whoever only reads does without them. */
export class Bookkeeping {
  readonly #connections: Connections;
  #there = false;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  async isThere(client: Client): Promise<boolean> {
    this.#there ||= (await client.query(THERE)).rowCount === 1;
    return this.#there;
  }

  async ensure(): Promise<void> {
    if (this.#there) return;
    if (await this.#connections.use((client) => this.isThere(client))) return;
    await this.#connections.transaction('READ WRITE', create);
    this.#there = true;
  }
}

/** One after the other, where several nodes start at once. */
async function create(client: Client): Promise<void> {
  await client.query('SELECT pg_advisory_xact_lock($1)', [lockKey('bookkeeping')]);
  await createSchema(client, OWN_SCHEMA);
  for (const table of TABLES) await client.query(`CREATE TABLE IF NOT EXISTS ${OWN_SCHEMA}.${table}`);
}

/** `CREATE SCHEMA IF NOT EXISTS` would ask for the right to create schemas where the schema is there, too. */
export async function createSchema(client: Client, schema: string): Promise<void> {
  const isThere = async () =>
    (await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])).rowCount === 1;
  if (await isThere()) return;
  // Whoever tries and fails remembers for the rest of the transaction that there is no such schema.
  await client.query('SELECT pg_advisory_xact_lock($1)', [lockKey('schema', schema)]);
  if (await isThere()) return;
  await client.query('SAVEPOINT made');
  try {
    await client.query(`CREATE SCHEMA ${quote(schema)}`);
  } catch (error) {
    // Somebody else made it meanwhile.
    if (!hasCode(error, '42P06', '23505')) throw error;
    await client.query('ROLLBACK TO SAVEPOINT made');
  }
}

const CLAIM = {
  name: 'millrace_claim',
  text: `INSERT INTO ${OWN_SCHEMA}.checkpoint AS c (job_id, step, epoch, page) VALUES ($1, $2, $3, 0)
    ON CONFLICT (job_id, step) DO UPDATE SET epoch = excluded.epoch WHERE c.epoch < excluded.epoch
    RETURNING page, cursor`,
};

/** Waits for a page in flight, which holds the row. */
export async function claim(
  client: Client,
  jobId: string,
  step: string,
  epoch: number,
): Promise<Checkpoint | null> {
  const [row] = await rowsOf<{ page: string; cursor: string | null }>(client, CLAIM, [jobId, step, epoch]);
  return row ? { page: Number(row.page), cursor: row.cursor } : null;
}

const ADVANCE = {
  name: 'millrace_advance',
  text: `WITH advanced AS (
      UPDATE ${OWN_SCHEMA}.checkpoint SET page = page + 1, cursor = $4
      WHERE job_id = $1 AND step = $2 AND epoch = $3 AND page = $5 RETURNING job_id
    )
    SELECT o.id, o.step, o.space, o.name, o.temporary, o.staged, o.relation
    FROM advanced a LEFT JOIN ${OWN_SCHEMA}.own_table o ON o.job_id = a.job_id ORDER BY o.id`,
};

interface OwnRow {
  id: string;
  step: string;
  space: string;
  name: string;
  temporary: string;
  staged: string;
  relation: string;
}

/** The job's own tables; null: the checkpoint is not that of the page before. */
export async function advance(
  client: Client,
  { jobId, step, epoch, page, cursor }: PageCommit,
): Promise<OwnTable[] | null> {
  const rows = await rowsOf<OwnRow>(client, ADVANCE, [jobId, step, epoch, cursor, page]);
  if (rows.length === 0) return null;
  return rows.filter(({ id }) => id !== null).map((row) => ownTable(jobId, row));
}

/** Locked until the transaction ends. undefined: the step is not claimed under this epoch. */
export async function pagesCommitted(
  client: Client,
  jobId: string,
  step: string,
  epoch: number,
): Promise<number | undefined> {
  const text = `SELECT page FROM ${OWN_SCHEMA}.checkpoint
    WHERE job_id = $1 AND step = $2 AND epoch = $3 FOR UPDATE`;
  const [row] = await rowsOf<{ page: string }>(client, { text }, [jobId, step, epoch]);
  return row && Number(row.page);
}

export async function forgetCheckpoints(client: Client, jobId: string): Promise<void> {
  await client.query(`DELETE FROM ${OWN_SCHEMA}.checkpoint WHERE job_id = $1`, [jobId]);
}

export async function jobs(client: Client): Promise<string[]> {
  const text = `SELECT job_id FROM ${OWN_SCHEMA}.checkpoint
    UNION SELECT job_id FROM ${OWN_SCHEMA}.own_table ORDER BY 1`;
  return (await rowsOf<{ job_id: string }>(client, { text })).map((row) => row.job_id);
}

const OF_JOB = {
  name: 'millrace_own',
  text: `SELECT id, step, space, name, temporary, staged, relation FROM ${OWN_SCHEMA}.own_table
    WHERE job_id = $1 ORDER BY id`,
};

export async function ownTables(client: Client, jobId: string): Promise<OwnTable[]> {
  return (await rowsOf<OwnRow>(client, OF_JOB, [jobId])).map((row) => ownTable(jobId, row));
}

export async function addOwnTable(client: Client, table: Omit<OwnTable, 'id'>): Promise<OwnTable> {
  const { name, relation, standing } = table;
  const { jobId, step, temporary, staged } = standing;
  const text = `INSERT INTO ${OWN_SCHEMA}.own_table (job_id, step, space, name, temporary, staged, relation)
    VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`;
  const values = [jobId, step, name.space, name.table, temporary, staged, relation];
  const [row] = await rowsOf<{ id: string }>(client, { text }, values);
  return { ...table, id: row?.id ?? '' };
}

/** A staged temporary table takes its place. */
export async function showOwnTable(client: Client, { id }: OwnTable): Promise<void> {
  await client.query(`UPDATE ${OWN_SCHEMA}.own_table SET staged = false, step = '' WHERE id = $1`, [id]);
}

export async function forgetOwnTable(client: Client, { id }: OwnTable): Promise<void> {
  await client.query(`DELETE FROM ${OWN_SCHEMA}.own_table WHERE id = $1`, [id]);
}

export async function countReplacement(client: Client, oid: string): Promise<void> {
  await client.query(
    `INSERT INTO ${OWN_SCHEMA}.replaced_table AS r (relation, times) VALUES ($1, 1)
     ON CONFLICT (relation) DO UPDATE SET times = r.times + 1`,
    [oid],
  );
}

export async function forgetReplacements(client: Client, oid: string): Promise<void> {
  await client.query(`DELETE FROM ${OWN_SCHEMA}.replaced_table WHERE relation = $1`, [oid]);
}

function ownTable(jobId: string, row: OwnRow): OwnTable {
  const { id, step, space, name, relation } = row;
  const standing = { temporary: row.temporary === 't', staged: row.staged === 't', jobId, step };
  return { id, name: { space, table: name }, relation, standing };
}
