import type { Connection } from 'mariadb';
import { TableNameError } from '../../table-errors.ts';
import type { Bookkeeping, OwnTable } from './bookkeeping.ts';
import { sqlName, type Catalog } from './catalog.ts';
import { hasErrno } from './errors.ts';
import { ownPhysical } from './load.ts';
import type { Server } from './server.ts';
import { quote } from './sql-names.ts';

const TRIES = 5;

/**
 * Puts tables in the place of those that readers see, by one RENAME TABLE: whoever reads waits for it or has the old
 * table still. Inside a transaction that shuts out others. After a crash it is done again: what was renamed already is
 * no longer there under its own name, and the records go last.
 */
export class Publisher {
  readonly #server: Server;
  readonly #catalog: Catalog;
  readonly #bookkeeping: Bookkeeping;

  constructor(server: Server, catalog: Catalog, bookkeeping: Bookkeeping) {
    this.#server = server;
    this.#catalog = catalog;
    this.#bookkeeping = bookkeeping;
  }

  async publish(transaction: Connection, tables: OwnTable[]): Promise<void> {
    const permanent = tables.filter(({ standing }) => !standing.temporary);
    await this.#swap(transaction, permanent);
    await this.drop(transaction, permanent);
    for (const table of tables.filter(({ standing }) => standing.temporary))
      await this.#show(transaction, table);
  }

  /** Drops the tables, or what was left of them, and forgets them. */
  async drop(transaction: Connection, tables: OwnTable[]): Promise<void> {
    if (tables.length === 0) return;
    const names = tables.flatMap((table) => [
      this.#sqlName(table, ownPhysical(table)),
      this.#sqlName(table, old(table)),
    ]);
    await this.#server.define(transaction, `DROP TABLE IF EXISTS ${names.join(', ')}`);
    for (const table of tables) await this.#bookkeeping.remove(transaction, table);
  }

  async #show(transaction: Connection, table: OwnTable): Promise<void> {
    const { name, standing } = table;
    const owns = await this.#bookkeeping.tablesOf(transaction, standing.jobId);
    for (const own of owns) {
      const isShown = own.standing.temporary && !own.standing.staged;
      if (!isShown || own.name.space !== name.space || own.name.table !== name.table) continue;
      await this.#bookkeeping.discard(transaction, own);
    }
    await this.#bookkeeping.show(transaction, table);
  }

  async #swap(transaction: Connection, tables: OwnTable[]): Promise<void> {
    for (let tries = 1; ; tries++) {
      const renames: string[] = [];
      for (const table of tables) renames.push(...(await this.#renames(transaction, table)));
      if (renames.length === 0) return;
      try {
        await this.#server.define(transaction, `RENAME TABLE ${renames.join(', ')}`);
        return;
      } catch (error) {
        // Somebody else, who takes no lock of ours, created or dropped a table meanwhile.
        if (!hasErrno(error, 'ER_TABLE_EXISTS', 'ER_NO_SUCH_TABLE') || tries === TRIES) throw error;
      }
    }
  }

  async #renames(connection: Connection, table: OwnTable): Promise<string[]> {
    const { name } = table;
    const built = await this.#catalog.describe(connection, name, ownPhysical(table));
    if (!built) return [];
    const replaced = await this.#catalog.find(connection, name);
    if (replaced?.isView)
      throw new TableNameError({ table: name, problem: 'it is a view, which is not replaced' });
    const shown = this.#sqlName(table, name.table);
    const aside = replaced ? [`${shown} TO ${this.#sqlName(table, old(table))}`] : [];
    return [...aside, `${sqlName(built)} TO ${shown}`];
  }

  #sqlName({ name }: OwnTable, physical: string): string {
    return `${quote(this.#catalog.databaseOf(name.space))}.${quote(physical)}`;
  }
}

/** Where the table goes whose place it takes. */
function old({ id }: OwnTable): string {
  return `millrace_old_${id}`;
}
