import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import { isUniqueViolation, type Database } from '../database/database.ts';
import { prepared } from '../database/prepared.ts';
import type { Client, ClientChange, GrantType, IssuedClient, NewClient, Role } from '../model/access.ts';
import { ServiceError } from '../model/errors.ts';
import type { BearerTokens } from './bearer-tokens.ts';
import type { Records } from './records.ts';
import type { SecretHashing } from './secret-hashing.ts';

/** So that a secret can be rotated without a moment in which none is right. */
const LIVE_SECRETS = 2;
/** `lastUsedAt` is for people: once a minute is exact enough, and a write at each token would not be. */
const LAST_USE_EXACT_TO_MS = 60_000;

/** What the token endpoint needs to know of a client. */
export interface ClientCredentials {
  clientId: string;
  grants: readonly GrantType[];
  secrets: readonly { secretId: string; argon2: string; lastUsedAt: number | null }[];
}

export class Clients {
  readonly #database: Database<Records>;
  readonly #hashing: SecretHashing;
  readonly #bearerTokens: BearerTokens;
  readonly #now: () => number;
  readonly #findCredentials: ReturnType<typeof prepareFindCredentials>;

  constructor(
    database: Database<Records>,
    hashing: SecretHashing,
    bearerTokens: BearerTokens,
    now: () => number,
  ) {
    this.#database = database;
    this.#hashing = hashing;
    this.#bearerTokens = bearerTokens;
    this.#now = now;
    this.#findCredentials = prepareFindCredentials(database);
  }

  /** With a given id and secret for a bootstrap client, else with new random ones. */
  async create(
    client: NewClient,
    given: { clientId: string; clientSecret: string } = newCredentials(),
  ): Promise<IssuedClient> {
    const createdAt = this.#now();
    const argon2 = await this.#hashing.hash(given.clientSecret);
    try {
      await this.#database.query.transaction().execute(async (transaction) => {
        await transaction
          .insertInto('client')
          .values({
            client_id: given.clientId,
            name: client.name,
            role: client.role,
            grants: JSON.stringify(client.grants),
            applications: client.applications && JSON.stringify(client.applications),
            created_at: createdAt,
            revoked_at: null,
          })
          .execute();
        await transaction
          .insertInto('client_secret')
          .values(secretRecord(given.clientId, given.clientSecret, argon2, createdAt))
          .execute();
      });
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw new ServiceError('conflict', `a client with the id "${given.clientId}" exists already`);
    }
    return { ...(await this.get(given.clientId)), client_secret: given.clientSecret };
  }

  async get(clientId: string): Promise<Client> {
    const client = await this.#database.query
      .selectFrom('client')
      .selectAll()
      .where('client_id', '=', clientId)
      .where('revoked_at', 'is', null)
      .executeTakeFirst();
    if (!client) throw notFound(clientId);
    const [found] = await this.#withSecrets([client]);
    return found as Client;
  }

  async list({ after = '', limit }: { after?: string | undefined; limit: number }): Promise<Client[]> {
    const clients = await this.#database.query
      .selectFrom('client')
      .selectAll()
      .where('client_id', '>', after)
      .where('revoked_at', 'is', null)
      .orderBy('client_id')
      .limit(limit)
      .execute();
    return this.#withSecrets(clients);
  }

  async count(): Promise<number> {
    const { count } = await this.#database.query
      .selectFrom('client')
      .select((expression) => expression.fn.countAll<number>().as('count'))
      .where('revoked_at', 'is', null)
      .executeTakeFirstOrThrow();
    return count;
  }

  async change(clientId: string, change: ClientChange): Promise<Client> {
    const { grants, applications, ...same } = change;
    const set = {
      ...same,
      ...(grants && { grants: JSON.stringify(grants) }),
      ...(applications !== undefined && { applications: applications && JSON.stringify(applications) }),
    };
    if (Object.keys(set).length > 0) {
      const update = this.#database.query
        .updateTable('client')
        .set(set)
        .where('client_id', '=', clientId)
        .where('revoked_at', 'is', null);
      await this.#bearerTokens.forgetAfter(update.execute());
    }
    return this.get(clientId);
  }

  /** Adds a secret; of the others only the newest stays right, so that there are never more than two. */
  async rotateSecret(clientId: string): Promise<IssuedClient> {
    const { clientSecret } = newCredentials();
    const argon2 = await this.#hashing.hash(clientSecret);
    const createdAt = this.#now();
    await this.#database.query.transaction().execute(async (transaction) => {
      const client = await transaction
        .updateTable('client')
        .set({ client_id: clientId }) // changes nothing: the row's lock keeps two rotations apart
        .where('client_id', '=', clientId)
        .where('revoked_at', 'is', null)
        .returning('client_id')
        .executeTakeFirst();
      if (!client) throw notFound(clientId);
      const older = await transaction
        .selectFrom('client_secret')
        .select('secret_id')
        .where('client_id', '=', clientId)
        .orderBy('created_at', 'desc')
        .orderBy('secret_id', 'desc')
        .execute();
      const dead = older.slice(LIVE_SECRETS - 1).map(({ secret_id }) => secret_id);
      if (dead.length > 0) {
        await transaction.deleteFrom('client_secret').where('secret_id', 'in', dead).execute();
      }
      await transaction
        .insertInto('client_secret')
        .values(secretRecord(clientId, clientSecret, argon2, createdAt))
        .execute();
    });
    return { ...(await this.get(clientId)), client_secret: clientSecret };
  }

  async revokeSecret(clientId: string, secretId: string): Promise<void> {
    const { numDeletedRows } = await this.#database.query
      .deleteFrom('client_secret')
      .where('client_id', '=', clientId)
      .where('secret_id', '=', secretId)
      .executeTakeFirst();
    if (numDeletedRows === 0n) {
      throw new ServiceError('not_found', `the client "${clientId}" has no secret "${secretId}"`);
    }
  }

  /** All its tokens end with it: a token is valid only while its client is. */
  async revoke(clientId: string): Promise<void> {
    const update = this.#database.query
      .updateTable('client')
      .set({ revoked_at: this.#now() })
      .where('client_id', '=', clientId)
      .where('revoked_at', 'is', null);
    const { numUpdatedRows } = await this.#bearerTokens.forgetAfter(update.executeTakeFirst());
    if (numUpdatedRows === 0n) throw notFound(clientId);
  }

  async credentials(clientId: string): Promise<ClientCredentials | null> {
    const { rows } = await this.#findCredentials(clientId);
    const [first] = rows;
    if (!first) return null;
    return {
      clientId,
      grants: JSON.parse(first.grants) as GrantType[],
      secrets: rows.flatMap(({ secret_id: secretId, argon2, last_used_at: lastUsedAt }) =>
        secretId && argon2 ? [{ secretId, argon2, lastUsedAt }] : [],
      ),
    };
  }

  async noteUse(secret: { secretId: string; lastUsedAt: number | null }): Promise<void> {
    const now = this.#now();
    if (secret.lastUsedAt !== null && now - secret.lastUsedAt < LAST_USE_EXACT_TO_MS) return;
    await this.#database.query
      .updateTable('client_secret')
      .set({ last_used_at: now })
      .where('secret_id', '=', secret.secretId)
      .execute();
  }

  async #withSecrets(clients: Selectable<Records['client']>[]): Promise<Client[]> {
    if (clients.length === 0) return [];
    const secrets = await this.#database.query
      .selectFrom('client_secret')
      .select(['client_id', 'secret_id', 'fingerprint', 'created_at', 'last_used_at'])
      .where(
        'client_id',
        'in',
        clients.map(({ client_id }) => client_id),
      )
      .orderBy('created_at', 'desc')
      .orderBy('secret_id', 'desc')
      .execute();
    return clients.map((client) => ({
      client_id: client.client_id,
      name: client.name,
      role: client.role as Role,
      grants: JSON.parse(client.grants) as GrantType[],
      applications: client.applications === null ? null : (JSON.parse(client.applications) as string[]),
      secrets: secrets
        .filter(({ client_id }) => client_id === client.client_id)
        .map((secret) => ({
          id: secret.secret_id,
          fingerprint: secret.fingerprint,
          createdAt: new Date(secret.created_at).toISOString(),
          lastUsedAt: secret.last_used_at === null ? null : new Date(secret.last_used_at).toISOString(),
        })),
      createdAt: new Date(client.created_at).toISOString(),
    }));
  }
}

function prepareFindCredentials(database: Database<Records>) {
  const { query } = database;
  return prepared(database, 1, (clientId: string) =>
    query
      .selectFrom('client')
      .leftJoin('client_secret', 'client_secret.client_id', 'client.client_id')
      .select([
        'client.grants',
        'client_secret.secret_id',
        'client_secret.argon2',
        'client_secret.last_used_at',
      ])
      .where('client.client_id', '=', clientId)
      .where('client.revoked_at', 'is', null),
  );
}

function newCredentials(): { clientId: string; clientSecret: string } {
  return {
    clientId: `mc_${randomBytes(12).toString('hex')}`,
    clientSecret: `mcs_${randomBytes(32).toString('base64url')}`,
  };
}

function secretRecord(clientId: string, secret: string, argon2: string, createdAt: number) {
  return {
    // The time first, so that secrets of one millisecond still have an order.
    secret_id: `${createdAt.toString(36)}-${randomBytes(6).toString('hex')}`,
    client_id: clientId,
    argon2,
    fingerprint: secret.slice(-4),
    created_at: createdAt,
    last_used_at: null,
  };
}

function notFound(clientId: string): ServiceError {
  return new ServiceError('not_found', `there is no client "${clientId}"`);
}
