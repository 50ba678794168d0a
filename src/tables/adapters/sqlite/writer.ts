import type { DatabaseSync } from 'node:sqlite';
import { prepareLoad } from '../../load-plan.ts';
import { FencedError } from '../../table-errors.ts';
import type { Checkpoint, PageCommit, PageOutcome, RowsWrite, TableName } from '../../table-store.ts';
import { Catalog, PERMANENT, type TableRecord } from './catalog.ts';
import { SQLITE_CAPABILITIES } from './insert.ts';
import { Loader } from './load.ts';
import { inTransaction, openForWriting } from './open-file.ts';
import { Statements } from './statements.ts';
import { registerCast } from './widen.ts';

/** Everything that changes the file. */
export class SqliteWriter {
  readonly #database: DatabaseSync;
  readonly #statements: Statements;
  readonly #catalog: Catalog;
  readonly #loader: Loader;

  constructor(file: string) {
    this.#database = openForWriting(file);
    registerCast(this.#database);
    this.#statements = new Statements(this.#database);
    this.#catalog = new Catalog(this.#database, this.#statements);
    this.#loader = new Loader(this.#database, this.#catalog, this.#statements);
  }

  /** For the reader, which can only open a file that is there. */
  open(): void {}

  claim(jobId: string, step: string, epoch: number): Checkpoint | null {
    const row = this.#statements
      .get(
        `INSERT INTO _checkpoint (job_id, step, epoch, page, cursor) VALUES (?, ?, ?, 0, NULL)
         ON CONFLICT (job_id, step) DO UPDATE SET epoch = excluded.epoch WHERE _checkpoint.epoch < excluded.epoch
         RETURNING page, cursor`,
      )
      .all(jobId, step, epoch)[0] as unknown as Checkpoint | undefined;
    return row ? { page: row.page, cursor: row.cursor } : null;
  }

  commitPage(commit: PageCommit): PageOutcome {
    const loads = commit.loads.map((load) => prepareLoad(load, SQLITE_CAPABILITIES));
    const rowCounts = loads.map(({ rows }) => rows.length);
    return inTransaction(this.#database, () => {
      if (!this.#advance(commit)) return { outcome: 'repeated', rowCounts };
      for (const load of loads) this.#loader.load(load, commit);
      return { outcome: 'committed', rowCounts };
    });
  }

  /** false: the page is committed already, under this very epoch. */
  #advance({ jobId, step, epoch, page, cursor }: PageCommit): boolean {
    const { changes } = this.#statements
      .get(
        `UPDATE _checkpoint SET page = page + 1, cursor = ?
         WHERE job_id = ? AND step = ? AND epoch = ? AND page = ?`,
      )
      .run(cursor, jobId, step, epoch, page);
    if (changes > 0) return true;
    if (this.#pagesCommitted(jobId, step, epoch) === page + 1) return false;
    throw new FencedError({ jobId, step, epoch, page });
  }

  #pagesCommitted(jobId: string, step: string, epoch: number): number | undefined {
    const row = this.#statements
      .get('SELECT page FROM _checkpoint WHERE job_id = ? AND step = ? AND epoch = ?')
      .get(jobId, step, epoch) as { page: number } | undefined;
    return row?.page;
  }

  finish(jobId: string, step: string, epoch: number): void {
    inTransaction(this.#database, () => {
      if (this.#pagesCommitted(jobId, step, epoch) === undefined) {
        throw new FencedError({ jobId, step, epoch, page: null });
      }
      for (const table of this.#catalog.ofJob(jobId)) {
        if (table.standing.staged && table.standing.step === step) this.#catalog.publish(table);
      }
    });
  }

  abandon(jobId: string): void {
    inTransaction(this.#database, () => {
      this.#dropOfJob(jobId, (table) => table.standing.staged);
      this.#statements.get('DELETE FROM _checkpoint WHERE job_id = ?').run(jobId);
    });
  }

  dropTemporary(jobId: string): void {
    inTransaction(this.#database, () => this.#dropOfJob(jobId, (table) => table.standing.temporary));
  }

  #dropOfJob(jobId: string, which: (table: TableRecord) => boolean): void {
    for (const table of this.#catalog.ofJob(jobId)) if (which(table)) this.#catalog.drop(table);
  }

  writeRows({ table, columns, mode, keys, widen = false, rows }: RowsWrite): number {
    const load = prepareLoad(
      {
        table,
        columns,
        mode: mode === 'replace' ? 'createThenAppend' : mode,
        ...(keys && { keys }),
        temporary: false,
        widen,
        rows,
      },
      SQLITE_CAPABILITIES,
    );
    return inTransaction(this.#database, () => {
      const nobody = { jobId: '', step: '' };
      const replaced = mode === 'replace' && !columns && !widen && this.#catalog.find(table, PERMANENT);
      // Without a model a table keeps its columns when its rows are replaced.
      this.#loader.load(replaced ? { ...load, columns: replaced.columns } : load, nobody);
      const staged = this.#catalog.find(table, { ...PERMANENT, staged: true });
      if (staged) this.#catalog.publish(staged);
      return load.rows.length;
    });
  }

  dropTable(name: TableName): boolean {
    return inTransaction(this.#database, () => {
      const table = this.#catalog.find(name, PERMANENT);
      if (table) this.#catalog.drop(table);
      return table !== undefined;
    });
  }

  close(): void {
    this.#statements.clear();
    this.#database.close();
  }
}
