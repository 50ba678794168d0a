import type { DatabaseSync, StatementSync } from 'node:sqlite';

const KEPT = 200;

/** Prepared statements, the least recently used ones forgotten. */
export class Statements {
  readonly #database: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  get(sql: string): StatementSync {
    const statement = this.#prepared.get(sql) ?? this.#database.prepare(sql);
    this.#prepared.delete(sql);
    this.#prepared.set(sql, statement);
    if (this.#prepared.size > KEPT) this.#prepared.delete(this.#prepared.keys().next().value as string);
    return statement;
  }

  clear(): void {
    this.#prepared.clear();
  }
}
