import type { DatabaseSync } from 'node:sqlite';
import type { InferredColumn } from '../../column-types.ts';
import { foldCase } from '../../names.ts';
import { quoted, TableNameError } from '../../table-errors.ts';
import type { Column, ColumnType, TableAsk, TableDescription, TableName } from '../../table-store.ts';
import { columnDefinitions, physicalName, quote } from './sql-names.ts';
import { Statements } from './statements.ts';

/** Whose a table is, and whether readers see it yet. */
export interface Standing {
  temporary: boolean;
  staged: boolean;
  /** '' where the table is no job's own. */
  jobId: string;
  /** '' unless it is staged. */
  step: string;
}

export const PERMANENT: Standing = { temporary: false, staged: false, jobId: '', step: '' };

export interface TableRecord {
  id: number;
  name: TableName;
  physical: string;
  standing: Standing;
  columns: InferredColumn[];
}

interface TableRow {
  id: number;
  space: string;
  name: string;
  physical: string;
  temporary: number;
  staged: number;
  job_id: string;
  step: string;
}

const FIND = `SELECT * FROM _table
  WHERE space = ? AND name = ? AND temporary = ? AND staged = ? AND job_id = ? AND step = ?`;

/** Which tables there are in the file, with the types of their columns. */
export class Catalog {
  readonly #database: DatabaseSync;
  readonly #statements: Statements;

  constructor(database: DatabaseSync, statements: Statements = new Statements(database)) {
    this.#database = database;
    this.#statements = statements;
  }

  find({ space, table }: TableName, standing: Standing): TableRecord | undefined {
    const { temporary, staged, jobId, step } = standing;
    const row = this.#statements.get(FIND).get(space, table, Number(temporary), Number(staged), jobId, step);
    return row && this.#record(row as unknown as TableRow);
  }

  /** The table that a reader means: the job's own temporary one before that of everybody. */
  findForReading({ space, table, jobId }: TableAsk): TableRecord | undefined {
    const own = jobId && this.find({ space, table }, { ...PERMANENT, temporary: true, jobId });
    return own || this.find({ space, table }, PERMANENT);
  }

  ofJob(jobId: string): TableRecord[] {
    const rows = this.#statements.get('SELECT * FROM _table WHERE job_id = ? ORDER BY id').all(jobId);
    return (rows as unknown as TableRow[]).map((row) => this.#record(row));
  }

  list(): TableDescription[] {
    const rows = this.#statements
      .get('SELECT * FROM _table WHERE staged = 0 AND temporary = 0 ORDER BY space, name')
      .all() as unknown as TableRow[];
    return rows.map((row) => ({
      space: row.space,
      table: row.name,
      columns: plainColumns(this.#columns(row.id)),
    }));
  }

  jobs(): string[] {
    const sql =
      "SELECT job_id FROM _checkpoint UNION SELECT job_id FROM _table WHERE job_id <> '' ORDER BY job_id";
    return (this.#statements.get(sql).all() as { job_id: string }[]).map((row) => row.job_id);
  }

  create(name: TableName, standing: Standing, columns: InferredColumn[]): TableRecord {
    if (!standing.temporary) this.#checkFolded(name);
    const { temporary, staged, jobId, step } = standing;
    const { id } = this.#statements
      .get(
        `INSERT INTO _table (space, name, physical, folded, temporary, staged, job_id, step)
         VALUES (?, ?, '', hex(randomblob(16)), ?, ?, ?, ?) RETURNING id`,
      )
      .get(name.space, name.table, Number(temporary), Number(staged), jobId, step) as { id: number };
    const physical = temporary || staged ? `_own_${id}` : physicalName(name);
    this.#setPhysical(id, physical);
    this.#database.exec(`CREATE TABLE ${quote(physical)} (${columnDefinitions(columns)}) STRICT`);
    this.setColumns(id, columns);
    return { id, name, physical, standing, columns };
  }

  setColumns(id: number, columns: InferredColumn[]): void {
    this.#statements.get('DELETE FROM _column WHERE table_id = ?').run(id);
    const insert = this.#statements.get(
      'INSERT INTO _column (table_id, position, name, type, undecided) VALUES (?, ?, ?, ?, ?)',
    );
    for (const [position, { name, type, undecided }] of columns.entries()) {
      insert.run(id, position, name, type, Number(undecided));
    }
  }

  drop({ id, physical }: TableRecord): void {
    this.#database.exec(`DROP TABLE ${quote(physical)}`);
    this.#statements.get('DELETE FROM _column WHERE table_id = ?').run(id);
    this.#statements.get('DELETE FROM _table WHERE id = ?').run(id);
  }

  /** The staged table takes the place of the one that readers see. */
  publish({ id, name, physical, standing }: TableRecord): void {
    const { temporary } = standing;
    const jobId = temporary ? standing.jobId : '';
    const old = this.find(name, { temporary, staged: false, jobId, step: '' });
    if (old) this.drop(old);
    else if (!temporary) this.#checkFolded(name);
    if (!temporary) {
      this.#database.exec(`ALTER TABLE ${quote(physical)} RENAME TO ${quote(physicalName(name))}`);
      this.#setPhysical(id, physicalName(name));
    }
    this.#statements.get("UPDATE _table SET staged = 0, job_id = ?, step = '' WHERE id = ?").run(jobId, id);
  }

  #checkFolded(name: TableName): void {
    const row = this.#statements
      .get('SELECT space, name FROM _table WHERE folded = ?')
      .get(foldCase(physicalName(name))) as { space: string; name: string } | undefined;
    if (!row || (row.space === name.space && row.name === name.table)) return;
    const other = `${quoted(row.space)}.${quoted(row.name)}`;
    const problem = `it differs only in case from ${other}, which the database does not tell apart`;
    throw new TableNameError({ table: name, problem });
  }

  #setPhysical(id: number, physical: string): void {
    this.#statements
      .get('UPDATE _table SET physical = ?, folded = ? WHERE id = ?')
      .run(physical, foldCase(physical), id);
  }

  #record(row: TableRow): TableRecord {
    return {
      id: row.id,
      name: { space: row.space, table: row.name },
      physical: row.physical,
      standing: {
        temporary: row.temporary === 1,
        staged: row.staged === 1,
        jobId: row.job_id,
        step: row.step,
      },
      columns: this.#columns(row.id),
    };
  }

  #columns(id: number): InferredColumn[] {
    const rows = this.#statements
      .get('SELECT name, type, undecided FROM _column WHERE table_id = ? ORDER BY position')
      .all(id) as { name: string; type: ColumnType; undecided: number }[];
    return rows.map(({ name, type, undecided }) => ({ name, type, undecided: undecided === 1 }));
  }
}

export function plainColumns(columns: InferredColumn[]): Column[] {
  return columns.map(({ name, type }) => ({ name, type }));
}
