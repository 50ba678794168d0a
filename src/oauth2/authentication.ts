import type { ClientCredentials, Clients } from '../system/clients.ts';
import { HashingOverloaded, type Lane, type SecretHashing } from '../system/secret-hashing.ts';
import type { VerifiedClient } from '../system/tokens.ts';
import type { UserCredentials, Users } from '../system/users.ts';
import type { FailureThrottle } from './failure-throttle.ts';
import { required, type Form } from './form.ts';
import { invalidGrant, TokenError, tooManyFailures } from './token-error.ts';
import type { VerifiedClients } from './verified-clients.ts';

export interface Throttles {
  client: FailureThrottle;
  user: FailureThrottle;
  address: FailureThrottle;
  /** Over this one a password is not even looked at: the limit of guesses that NIST SP 800-63B asks for. */
  userLock: FailureThrottle;
}

export interface Caller {
  form: Form;
  authorization: string | undefined;
  address: string;
}

interface GivenCredentials {
  clientId: string;
  /** More than one where the sender may or may not have percent-encoded it. */
  secrets: string[];
  mechanism: 'form' | 'basic';
}

/**
 * Finds out who calls the token endpoint. Failures are counted by client, user and address. Over the limit a
 * wrong secret is answered by 429, and a right one still goes through: else anybody could lock a client out by
 * failing in its name. Client secrets are 256 random bits, so nobody gets one by guessing; for passwords there is
 * a lock besides.
 */
export class Authentication {
  readonly #clients: Clients;
  readonly #users: Users;
  readonly #hashing: SecretHashing;
  readonly #throttles: Throttles;
  readonly #verified: VerifiedClients;

  constructor(parts: {
    clients: Clients;
    users: Users;
    hashing: SecretHashing;
    throttles: Throttles;
    verified: VerifiedClients;
  }) {
    this.#clients = parts.clients;
    this.#users = parts.users;
    this.#hashing = parts.hashing;
    this.#throttles = parts.throttles;
    this.#verified = parts.verified;
  }

  /** Without a look into the records: the caller must find out whether all is still as it was then. */
  verifiedLately(caller: Caller): VerifiedClient | null {
    const { clientId, secrets } = givenCredentials(caller);
    for (const secret of secrets) {
      const verified = this.#verified.find(clientId, secret);
      if (verified) return verified;
    }
    return null;
  }

  async client(caller: Caller): Promise<ClientCredentials> {
    const given = givenCredentials(caller);
    const { clientId } = given;
    const client = await this.#clients.credentials(clientId);
    const suspicions: Suspicion[] = [
      [this.#throttles.client, clientId],
      [this.#throttles.address, networkOf(caller.address)],
    ];
    for (const secret of client?.secrets ?? []) {
      const right = given.secrets.find((text) => this.#hashing.remembers(text, secret.argon2));
      if (right !== undefined) return this.#known(client, secret, right);
    }
    const lane = laneOf(suspicions);
    for (const text of given.secrets) {
      if (!client || client.secrets.length === 0) await this.#inLane(this.#hashing.verifyNothing(text, lane));
      for (const secret of client?.secrets ?? []) {
        const right = await this.#inLane(this.#hashing.verify(text, secret.argon2, lane));
        if (right) return this.#known(client, secret, text);
      }
    }
    throw failed(suspicions, () => invalidClient(given.mechanism));
  }

  /** Client credentials are not needed to refresh; sent all the same, they must be right. */
  async clientIfGiven(caller: Caller): Promise<string | undefined> {
    if (caller.authorization !== undefined || caller.form.get('client_secret')) {
      return (await this.client(caller)).clientId;
    }
    return caller.form.get('client_id') || undefined;
  }

  async user(username: string, password: string, address: string): Promise<UserCredentials> {
    const user = await this.#users.credentials(username);
    const suspicions: Suspicion[] = [
      [this.#throttles.user, username],
      [this.#throttles.userLock, username],
      [this.#throttles.address, networkOf(address)],
    ];
    if (user && this.#hashing.remembers(password, user.argon2)) return active(user);
    const lockedFor = this.#throttles.userLock.retryAfter(username);
    if (lockedFor > 0) {
      throw new TokenError('too_many_requests', `Too many failed attempts for this user.`, {
        'retry-after': String(lockedFor),
      });
    }
    const lane = laneOf(suspicions);
    const right = await this.#inLane(
      user ? this.#hashing.verify(password, user.argon2, lane) : this.#hashing.verifyNothing(password, lane),
    );
    if (user && right) return active(user);
    throw failed(suspicions, invalidGrant);
  }

  async #known(
    client: ClientCredentials | null,
    secret: ClientCredentials['secrets'][number],
    text: string,
  ): Promise<ClientCredentials> {
    await this.#clients.noteUse(secret);
    const { clientId, grants } = client as ClientCredentials;
    this.#verified.remember({ clientId, grants, secretId: secret.secretId }, text);
    return client as ClientCredentials;
  }

  async #inLane(verification: Promise<boolean>): Promise<boolean> {
    try {
      return await verification;
    } catch (error) {
      if (error instanceof HashingOverloaded) throw tooManyFailures(1);
      throw error;
    }
  }
}

type Suspicion = [throttle: FailureThrottle, key: string];

/** Who has one IPv6 address has the 2^64 others of its network, too. */
function networkOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address.replace(/^::ffff:/i, '');
  const [head = '', tail] = address.split('::');
  const front = head.split(':').filter(Boolean);
  const back = (tail ?? '').split(':').filter(Boolean);
  const zeros = tail === undefined ? [] : Array<string>(8 - front.length - back.length).fill('0');
  return [...front, ...zeros, ...back].slice(0, 4).join(':');
}

function laneOf(suspicions: Suspicion[]): Lane {
  return suspicions.some(([throttle, key]) => throttle.retryAfter(key) > 0) ? 'suspect' : 'normal';
}

/** Counts the failure, and answers it as one too many where it is. */
function failed(suspicions: Suspicion[], answer: () => TokenError): TokenError {
  const retryAfter = Math.max(...suspicions.map(([throttle, key]) => throttle.retryAfter(key)));
  for (const [throttle, key] of suspicions) throttle.fail(key);
  return retryAfter > 0 ? tooManyFailures(retryAfter) : answer();
}

function active(user: UserCredentials): UserCredentials {
  if (user.disabled) throw invalidGrant();
  return user;
}

function invalidClient(mechanism: GivenCredentials['mechanism']): TokenError {
  return new TokenError(
    'invalid_client',
    'The client is unknown, or its secret is wrong.',
    mechanism === 'basic' ? { 'www-authenticate': 'Basic realm="millrace", charset="UTF-8"' } : {},
  );
}

function givenCredentials({ form, authorization }: Caller): GivenCredentials {
  if (authorization === undefined) {
    const clientId = required(form, 'client_id');
    return { clientId, secrets: [required(form, 'client_secret')], mechanism: 'form' };
  }
  if (form.get('client_secret')) {
    throw new TokenError(
      'invalid_request',
      'Client credentials come twice: in the form and in the Authorization header. Use one of them.',
    );
  }
  const given = parseBasic(authorization);
  const named = form.get('client_id');
  if (named && named !== given.clientId) {
    throw new TokenError(
      'invalid_request',
      'The parameter client_id names another client than the Authorization header.',
    );
  }
  return given;
}

/** RFC 6749 2.3.1 has both parts percent-encoded, which many clients (curl among them) do not do. */
function parseBasic(authorization: string): GivenCredentials {
  const encoded = /^basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization)?.[1];
  const [, id, secret] = /^([^:]+):(.+)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? [];
  if (!id || !secret || secret.includes('\0') || id.includes('\0')) {
    throw new TokenError(
      'invalid_client',
      'The Authorization header is not "Basic" with an id and a secret.',
      {
        'www-authenticate': 'Basic realm="millrace", charset="UTF-8"',
      },
    );
  }
  return {
    clientId: formDecoded(id),
    secrets: [...new Set([formDecoded(secret), secret])],
    mechanism: 'basic',
  };
}

function formDecoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text; // not encoded: taken as it is
  }
}
