import { sql, type Insertable, type Selectable, type Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { GrantType } from '../model/access.ts';
import { ACCESS_TOKEN_SECONDS } from '../model/token.ts';
import type { BearerTokens } from './bearer-tokens.ts';
import type { Records } from './records.ts';
import {
  grantsOfActiveOwner,
  insertColumns,
  prepareInsert,
  prepareInsertIfUnchanged,
  revokeFamily,
} from './token-queries.ts';
import { hashOf, newPairId, newToken, parseToken, type ParsedToken } from './token-text.ts';

export interface TokenSettings {
  refreshTokenSeconds: number;
  refreshTokenAbsoluteSeconds: number;
  clientCredentialsRefreshSeconds: number;
  refreshGraceSeconds: number;
}

/** A client that has shown its secret. */
export interface VerifiedClient {
  clientId: string;
  secretId: string;
  grants: readonly GrantType[];
}

export interface TokenPair {
  accessToken: string;
  refreshToken: string;
}

/** Why a refresh token brought nothing: it is not valid, or its client may not refresh. */
export type RefreshOutcome = TokenPair | 'invalid' | 'grant_not_allowed';

/** What introspection tells of a token that is valid. */
export interface ValidToken {
  kind: 'access' | 'refresh';
  clientId: string;
  username: string | null;
  issuedAt: number;
  expiresAt: number;
}

type TokenRecord = Selectable<Records['token']>;

/** Swept in steps of this size, so that no sweep holds up a token for long. */
const SWEEP_STEP = 1_000;

/** Access and refresh tokens: 256 random bits each, kept only as SHA-256. */
export class Tokens {
  readonly #database: Database<Records>;
  readonly #settings: TokenSettings;
  readonly #bearerTokens: BearerTokens;
  readonly #now: () => number;
  readonly #insert: ReturnType<typeof prepareInsert>;
  readonly #insertIfUnchanged: ReturnType<typeof prepareInsertIfUnchanged>;

  constructor(
    database: Database<Records>,
    settings: TokenSettings,
    bearerTokens: BearerTokens,
    now: () => number,
  ) {
    this.#database = database;
    this.#settings = settings;
    this.#bearerTokens = bearerTokens;
    this.#now = now;
    this.#insert = prepareInsert(database);
    this.#insertIfUnchanged = prepareInsertIfUnchanged(database);
  }

  /** The first pair of a new family. */
  async issue(clientId: string, userId: string | null): Promise<TokenPair> {
    const { pair, record } = this.#firstPair(clientId, userId);
    await this.#insert(...insertColumns.map((column) => record[column]));
    return pair;
  }

  /**
   * The same for a client whose secret was verified a short time ago, if client, secret and grants are still as they
   * were: one statement looks and issues. Null: something has changed.
   */
  async issueIfUnchanged({ clientId, secretId, grants }: VerifiedClient): Promise<TokenPair | null> {
    const { pair, record } = this.#firstPair(clientId, null);
    const values = insertColumns.map((column) => record[column]);
    const { changes } = await this.#insertIfUnchanged(...values, clientId, secretId, JSON.stringify(grants));
    return changes > 0 ? pair : null;
  }

  #firstPair(clientId: string, userId: string | null) {
    const now = this.#now();
    const pairId = newPairId(now);
    const lifetimeMs = userId
      ? this.#settings.refreshTokenAbsoluteSeconds * 1000
      : this.#settings.clientCredentialsRefreshSeconds * 1000;
    return this.#newPair(pairId, now, {
      family_id: pairId,
      parent_id: null,
      client_id: clientId,
      user_id: userId,
      family_expires_at: now + lifetimeMs,
    });
  }

  /**
   * Exchanges a refresh token for a new pair. Of callers that race for one token, each within the grace gets a
   * pair of its own and only the last of these pairs stays valid. A token that is used again later was stolen or
   * copied, so its whole family ends.
   */
  async refresh(refreshToken: string, expectedClientId?: string): Promise<RefreshOutcome> {
    const parsed = parseToken(refreshToken);
    if (parsed?.kind !== 'refresh') return 'invalid';
    // Only what was used before can end other tokens; a first use, which is the rule, leaves all as it was.
    let usedBefore = false;
    try {
      return await this.#database.query.transaction().execute(async (transaction) => {
        const token = await this.#lockFamilyOf(transaction, parsed);
        if (!token) return 'invalid';
        if (expectedClientId !== undefined && token.client_id !== expectedClientId) return 'invalid';
        usedBefore = token.spent_at !== null || token.superseded_at !== null;
        return this.#successor(transaction, token);
      });
    } finally {
      if (usedBefore) this.#bearerTokens.forget();
    }
  }

  async #successor(transaction: Transaction<Records>, token: TokenRecord): Promise<RefreshOutcome> {
    const now = this.#now();
    if (token.revoked_at !== null || token.refresh_expires_at <= now) return 'invalid';
    const grants = await grantsOfActiveOwner(transaction, token);
    if (!grants) return 'invalid';
    if (!grants.includes('refresh_token')) return 'grant_not_allowed';

    if (token.superseded_at !== null) {
      if (!this.#withinGrace(token.superseded_at, now)) await revokeFamily(transaction, token.family_id, now);
      return 'invalid';
    }
    if (token.spent_at !== null && !(await this.#supersedeSuccessor(transaction, token, now))) {
      await revokeFamily(transaction, token.family_id, now);
      return 'invalid';
    }
    await transaction
      .updateTable('token')
      .set({ spent_at: token.spent_at ?? now })
      .where('pair_id', '=', token.pair_id)
      .execute();
    const successor = this.#newPair(newPairId(now), now, { ...token, parent_id: token.pair_id });
    await transaction.insertInto('token').values(successor.record).execute();
    return successor.pair;
  }

  /** RFC 7662: what is known of a token, if it is valid. */
  async inspect(token: string): Promise<ValidToken | null> {
    const parsed = parseToken(token);
    if (!parsed) return null;
    const { kind, pairId, hash } = parsed;
    const row = await this.#database.query
      .selectFrom('token')
      .innerJoin('client', 'client.client_id', 'token.client_id')
      .leftJoin('user', 'user.user_id', 'token.user_id')
      .selectAll('token')
      .select('user.username')
      .where('token.pair_id', '=', pairId)
      .where(kind === 'access' ? 'token.access_hash' : 'token.refresh_hash', '=', hash)
      .where('token.revoked_at', 'is', null)
      .where('token.superseded_at', 'is', null)
      .where('client.revoked_at', 'is', null)
      .where('user.disabled_at', 'is', null)
      .executeTakeFirst();
    if (!row) return null;
    if (kind === 'refresh' && row.spent_at !== null) return null;
    const expiresAt = kind === 'access' ? row.access_expires_at : row.refresh_expires_at;
    if (expiresAt <= this.#now()) return null;
    return { kind, clientId: row.client_id, username: row.username, issuedAt: row.issued_at, expiresAt };
  }

  /** RFC 7009: a refresh token ends its whole family, an access token only itself. Others' tokens stay. */
  async revoke(token: string, clientId: string): Promise<void> {
    const parsed = parseToken(token);
    if (!parsed) return;
    const now = this.#now();
    const change = this.#database.query.transaction().execute(async (transaction) => {
      const found = await this.#lockFamilyOf(transaction, parsed);
      if (found?.client_id !== clientId) return;
      if (parsed.kind === 'refresh') {
        await revokeFamily(transaction, found.family_id, now);
        return;
      }
      await transaction
        .updateTable('token')
        .set({ access_expires_at: Math.min(now, found.access_expires_at) })
        .where('pair_id', '=', found.pair_id)
        .execute();
    });
    await this.#bearerTokens.forgetAfter(change);
  }

  /** Deletes what has ended, in small steps; says how many pairs that were. */
  async sweep(): Promise<number> {
    const now = this.#now();
    for (let swept = 0; ;) {
      const { numDeletedRows } = await this.#database.query
        .deleteFrom('token')
        .where('pair_id', 'in', (query) =>
          query.selectFrom('token').select('pair_id').where('ends_at', '<=', now).limit(SWEEP_STEP),
        )
        .executeTakeFirst();
      swept += Number(numDeletedRows);
      if (Number(numDeletedRows) < SWEEP_STEP) return swept;
    }
  }

  /**
   * Everything that changes a family happens under its lock, else a pair that is issued at the same moment
   * would escape a revocation.
   */
  async #lockFamilyOf(
    transaction: Transaction<Records>,
    { kind, pairId, hash }: ParsedToken,
  ): Promise<TokenRecord | undefined> {
    const find = transaction
      .selectFrom('token')
      .selectAll()
      .where('pair_id', '=', pairId)
      .where(kind === 'access' ? 'access_hash' : 'refresh_hash', '=', hash);
    const found = await find.executeTakeFirst();
    if (!found || !this.#database.capabilities.concurrentTransactions) return found;
    await sql`select pg_advisory_xact_lock(hashtextextended(${found.family_id}, 0))`.execute(transaction);
    return find.executeTakeFirst();
  }

  /**
   * A spent token came again: its answer may have been lost. While the pair that it brought is unused, that pair
   * gives way to a new one. False: it is used, or the grace is over.
   */
  async #supersedeSuccessor(
    transaction: Transaction<Records>,
    spent: TokenRecord,
    now: number,
  ): Promise<boolean> {
    if (!this.#withinGrace(spent.spent_at as number, now)) return false;
    const { numUpdatedRows } = await transaction
      .updateTable('token')
      .set({ superseded_at: now })
      .where('parent_id', '=', spent.pair_id)
      .where('family_id', '=', spent.family_id)
      .where('spent_at', 'is', null)
      .where('superseded_at', 'is', null)
      .executeTakeFirst();
    return numUpdatedRows === 1n;
  }

  #withinGrace(since: number, now: number): boolean {
    return now - since <= this.#settings.refreshGraceSeconds * 1000;
  }

  #newPair(
    pairId: string,
    now: number,
    family: Pick<TokenRecord, 'family_id' | 'parent_id' | 'client_id' | 'user_id' | 'family_expires_at'>,
  ): { pair: TokenPair; record: Insertable<Records['token']> } {
    const pair = { accessToken: newToken('access', pairId), refreshToken: newToken('refresh', pairId) };
    const accessExpiresAt = now + ACCESS_TOKEN_SECONDS * 1000;
    const slidingMs = family.user_id
      ? this.#settings.refreshTokenSeconds * 1000
      : this.#settings.clientCredentialsRefreshSeconds * 1000;
    const refreshExpiresAt = Math.min(now + slidingMs, family.family_expires_at);
    const record = {
      pair_id: pairId,
      access_hash: hashOf(pair.accessToken),
      refresh_hash: hashOf(pair.refreshToken),
      family_id: family.family_id,
      parent_id: family.parent_id,
      client_id: family.client_id,
      user_id: family.user_id,
      issued_at: now,
      access_expires_at: accessExpiresAt,
      refresh_expires_at: refreshExpiresAt,
      family_expires_at: family.family_expires_at,
      spent_at: null,
      revoked_at: null,
      superseded_at: null,
      ends_at: Math.max(accessExpiresAt, refreshExpiresAt),
    };
    return { pair, record };
  }
}
