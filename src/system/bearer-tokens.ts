import type { Database } from '../database/database.ts';
import type { Principal, Role } from '../model/access.ts';
import type { Records } from './records.ts';
import { prepareFindPrincipal } from './token-queries.ts';
import { parseToken } from './token-text.ts';

/** A revocation by another process - another node, the command line - takes effect after this long at the latest. */
const VERIFIED_MS = 1_000;
const TOKENS = 10_000;

interface Verified {
  principal: Principal;
  expiresAt: number;
}

/**
 * Who access tokens stand for. What was found is remembered for a second: with a look into the records at every
 * request, a small answer took more than three times as long as without a check. Whatever in this process may end a
 * token or change what it stands for says so by `forget`, and takes effect at once.
 */
export class BearerTokens {
  readonly #find: ReturnType<typeof prepareFindPrincipal>;
  readonly #now: () => number;
  /** By the text itself, for that second: to hash it at every request was most of the price of the check. */
  readonly #verified = new Map<string, Verified>();
  readonly #looks = new Map<string, Promise<Principal | null>>();
  /** Runs from the first look since the last `forget`: all that is remembered is forgotten together. */
  #timer: NodeJS.Timeout | undefined;
  /** Counts what was forgotten: a look that began before may have found what is not true any more. */
  #forgotten = 0;

  constructor(database: Database<Records>, now: () => number = Date.now) {
    this.#find = prepareFindPrincipal(database);
    this.#now = now;
  }

  /** Without a look into the records; null: it takes one. */
  verifiedLately(accessToken: string): Principal | null {
    const verified = this.#verified.get(accessToken);
    return verified && verified.expiresAt > this.#now() ? verified.principal : null;
  }

  /** Who a valid access token stands for; null: it is not valid. Callers that ask together share one look. */
  principal(accessToken: string): Promise<Principal | null> {
    let look = this.#looks.get(accessToken);
    if (!look) {
      look = this.#look(accessToken).finally(() => {
        if (this.#looks.get(accessToken) === look) this.#looks.delete(accessToken);
      });
      this.#looks.set(accessToken, look);
    }
    return look;
  }

  async #look(accessToken: string): Promise<Principal | null> {
    const parsed = parseToken(accessToken);
    if (parsed?.kind !== 'access') return null;
    // From now, not from the answer: a slow look must not add to the second.
    this.#timer ??= setTimeout(() => this.forget(), VERIFIED_MS).unref();
    const forgotten = this.#forgotten;
    const { rows } = await this.#find(parsed.pairId, parsed.hash, this.#now());
    const [row] = rows;
    if (!row) return null;
    const principal = {
      clientId: row.client_id,
      username: row.username,
      role: (row.user_role ?? row.client_role) as Role,
      applications: row.applications === null ? null : (JSON.parse(row.applications) as string[]),
    };
    if (forgotten === this.#forgotten) {
      this.#remember(accessToken, { principal, expiresAt: row.access_expires_at });
    }
    return principal;
  }

  forget(): void {
    this.#forgotten += 1;
    this.#verified.clear();
    this.#looks.clear();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Also when the change fails: it may have been made all the same. */
  async forgetAfter<Result>(change: Promise<Result>): Promise<Result> {
    try {
      return await change;
    } finally {
      this.forget();
    }
  }

  #remember(accessToken: string, verified: Verified): void {
    if (this.#verified.size >= TOKENS) this.#verified.delete(this.#verified.keys().next().value as string);
    this.#verified.set(accessToken, verified);
  }
}
