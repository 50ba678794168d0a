import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Route } from '../../../http/connect.ts';
import type { Leases } from '../../../system/leases.ts';
import type { Secrets } from '../../../system/secrets.ts';
import { AuthorizationError } from './authorizer.ts';
import { TokenRequest, type OAuth2, type TokenClient } from './token-request.ts';

/** Renewed so long before its end, but not before 90 % of its life are over. */
const RENEWAL_MARGIN_MS = 60_000;
const RENEWAL_MARGIN_SHARE = 0.1;
/**
 * A token that was got because of a 401 and is refused, too, is not renewed for this long: it is not the token. One
 * that was accepted in between has really ended, unless a request was refused again with it.
 */
const REST_AFTER_REFUSAL_MS = 60_000;
/** Renewed while the token is asked for; a renewer that died holds up the others for so long. */
const LEASE_MS = 15_000;
/** For a whole renewal with its waiting for others. */
const RENEWAL_TIMEOUT_MS = 120_000;
/** So many of the last tokens are redacted. */
const REMEMBERED_SECRETS = 20;

const StoredToken = z.object({
  /** Of the settings that it was got with: another one must not meet it. */
  fingerprint: z.string(),
  /** Of those settings that its refresh token belongs to: it outlives a new client secret. */
  refreshFingerprint: z.string(),
  accessToken: z.string(),
  obtainedAt: z.number(),
  /** Null: the server did not say. */
  expiresAt: z.number().nullable(),
  /** It was got because its predecessor was refused with a 401. */
  afterRefusal: z.boolean(),
  /** The last one that was issued, where the server exchanges them. */
  refreshToken: z.string().optional(),
});
type StoredToken = z.infer<typeof StoredToken>;
type Fingerprints = Pick<StoredToken, 'fingerprint' | 'refreshFingerprint'>;

/** Where the token of one source is kept, and who may renew it. */
interface TokenStore {
  load(): Promise<StoredToken | null>;
  save(token: StoredToken): Promise<void>;
  /** The signal ends the waiting, not the work. */
  exclusively<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result>;
}

export interface TokenParts {
  client: TokenClient;
  secrets: Pick<Secrets, 'get' | 'put' | 'delete'>;
  leases: Pick<Leases, 'withLease'>;
  now?: () => number;
}

/** The access tokens of this node: one cache a source, all nodes sharing the tokens by way of the database. */
export class OAuthTokens {
  readonly #parts: TokenParts;
  readonly #now: () => number;
  readonly #bySource = new Map<string, { settings: string; cache: TokenCache }>();

  constructor(parts: TokenParts) {
    this.#parts = parts;
    this.#now = parts.now ?? Date.now;
  }

  /** `sourceKey` null: authentication given explicitly, whose tokens nobody else shares. */
  cache(auth: OAuth2, sourceKey: string | null, route: Route = {}): TokenCache {
    const settings = fingerprintOf({ ...auth, route: JSON.stringify(route) });
    const known = sourceKey === null ? undefined : this.#bySource.get(sourceKey);
    if (known?.settings === settings) return known.cache;
    const request = new TokenRequest(auth, this.#parts.client, route);
    const store = sourceKey === null ? privateStore() : this.#sharedStore(sourceKey);
    const { tokenUrl, clientId, refreshToken } = auth;
    const fingerprints = {
      fingerprint: fingerprintOf(auth),
      refreshFingerprint: fingerprintOf({ tokenUrl, clientId, refreshToken }),
    };
    const cache = new TokenCache(request, store, fingerprints, this.#now);
    if (sourceKey !== null) this.#bySource.set(sourceKey, { settings, cache });
    return cache;
  }

  /** When a source is deleted: its name may be given to another one. */
  async forget(sourceKey: string): Promise<void> {
    this.#bySource.delete(sourceKey);
    await this.#parts.secrets.delete(sealedName(sourceKey));
  }

  #sharedStore(sourceKey: string): TokenStore {
    const { secrets, leases } = this.#parts;
    const name = sealedName(sourceKey);
    return {
      async load() {
        const text = await secrets.get(name);
        return text === null ? null : StoredToken.parse(JSON.parse(text));
      },
      save: (token) => secrets.put(name, JSON.stringify(token)),
      exclusively: (work, signal) => leases.withLease(name, LEASE_MS, work, signal),
    };
  }
}

function sealedName(sourceKey: string): string {
  return `oauth2-token:${sourceKey}`;
}

/** In the order of the names, whatever the order in the definition. */
function fingerprintOf(fields: Readonly<Record<string, string | undefined>>): string {
  const settings = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(settings)).digest('base64url');
}

function privateStore(): TokenStore {
  let kept: StoredToken | null = null;
  return {
    load: async () => kept,
    save: async (token) => {
      kept = token;
    },
    exclusively: (work) => work(),
  };
}

/** The token of one source: whoever needs it while it is renewed waits for the one renewal. */
export class TokenCache {
  readonly #fingerprints: Fingerprints;
  readonly #request: TokenRequest;
  readonly #store: TokenStore;
  readonly #now: () => number;
  #current: StoredToken | null = null;
  #renewal: Promise<StoredToken> | null = null;
  /** It came, but could not be saved. */
  #unsaved: StoredToken | null = null;
  /** The last token that the system has accepted, as far as this node has seen. */
  #accepted: string | null = null;
  #refusedAgain: string | null = null;
  #secrets: readonly string[];

  constructor(request: TokenRequest, store: TokenStore, fingerprints: Fingerprints, now: () => number) {
    this.#request = request;
    this.#store = store;
    this.#fingerprints = fingerprints;
    this.#now = now;
    this.#secrets = request.secrets;
  }

  /** The settings' and those of the last tokens. */
  get secrets(): readonly string[] {
    return this.#secrets;
  }

  async accessToken(signal: AbortSignal): Promise<string> {
    return (await this.#usable(null, signal)).accessToken;
  }

  /** Whether there is another token than the one that was refused. */
  async replace(refused: string, signal: AbortSignal): Promise<boolean> {
    return (await this.#usable(refused, signal)).accessToken !== refused;
  }

  judged(token: string, verdict: 'accepted' | 'refused again'): void {
    if (verdict === 'accepted') this.#accepted = token;
    else this.#refusedAgain = token;
  }

  async #usable(refused: string | null, signal: AbortSignal): Promise<StoredToken> {
    signal.throwIfAborted();
    if (this.#current && this.#isUsable(this.#current, refused)) return this.#current;
    if (this.#renewal) {
      const joined = await unlessAborted(this.#renewal, signal);
      if (joined.accessToken !== refused) return joined;
    }
    // Not bound to the signal of one caller: others wait, too, and a lost answer could hold the next refresh token.
    this.#renewal ??= this.#renew(refused).finally(() => {
      this.#renewal = null;
    });
    return unlessAborted(this.#renewal, signal);
  }

  #isUsable(token: StoredToken, refused: string | null): boolean {
    if (token.accessToken === refused || token.fingerprint !== this.#fingerprints.fingerprint) return false;
    if (token.expiresAt === null) return true;
    const lifetimeMs = token.expiresAt - token.obtainedAt;
    const marginMs = Math.min(RENEWAL_MARGIN_MS, lifetimeMs * RENEWAL_MARGIN_SHARE);
    return this.#now() < token.expiresAt - marginMs;
  }

  async #renew(refused: string | null): Promise<StoredToken> {
    const found = await this.#load();
    if (found && this.#settles(found, refused)) return this.#use(found);
    const timeout = AbortSignal.timeout(RENEWAL_TIMEOUT_MS);
    try {
      return await this.#store.exclusively(async () => {
        const latest = await this.#load();
        if (latest && this.#settles(latest, refused)) return this.#use(latest);
        return this.#use(await this.#obtain(latest, refused));
      }, timeout);
    } catch (error) {
      if (error !== timeout.reason) throw error;
      const message = `no token within ${RENEWAL_TIMEOUT_MS / 1000} s, the waiting for other nodes included`;
      throw new AuthorizationError('token_unavailable', 'auth.tokenUrl', message, {
        transient: true,
        cause: error,
      });
    }
  }

  /** Nothing has to be asked for: another node got a token, or the refused one must not be renewed again. */
  #settles(found: StoredToken, refused: string | null): boolean {
    if (this.#isUsable(found, refused)) return true;
    if (found.accessToken !== refused || !found.afterRefusal || !this.#isUsable(found, null)) return false;
    const hasEnded = this.#accepted === refused && this.#refusedAgain !== refused;
    return !hasEnded && this.#now() < found.obtainedAt + REST_AFTER_REFUSAL_MS;
  }

  async #load(): Promise<StoredToken | null> {
    const stored = await this.#store.load();
    const found = stored?.refreshFingerprint === this.#fingerprints.refreshFingerprint ? stored : null;
    if (this.#unsaved && this.#unsaved.obtainedAt < (found?.obtainedAt ?? 0)) this.#unsaved = null;
    return this.#unsaved ? null : found;
  }

  async #obtain(latest: StoredToken | null, refused: string | null): Promise<StoredToken> {
    const unsaved = this.#unsaved;
    const next =
      unsaved && this.#isUsable(unsaved, refused)
        ? unsaved
        : await this.#ask(unsaved ?? latest, refused !== null);
    this.#remember(next);
    // Saved before anybody uses it: after a crash the refresh token that was sent would be worth nothing.
    this.#unsaved = next;
    await this.#store.save(next);
    this.#unsaved = null;
    return next;
  }

  async #ask(latest: StoredToken | null, afterRefusal: boolean): Promise<StoredToken> {
    const obtainedAt = this.#now();
    const grant = await this.#request.send(latest?.refreshToken);
    const refreshToken = grant.refreshToken ?? latest?.refreshToken;
    return {
      ...this.#fingerprints,
      accessToken: grant.accessToken,
      obtainedAt,
      expiresAt: grant.lifetimeMs === null ? null : obtainedAt + grant.lifetimeMs,
      afterRefusal,
      ...(refreshToken !== undefined && { refreshToken }),
    };
  }

  #use(token: StoredToken): StoredToken {
    this.#remember(token);
    this.#current = token;
    return token;
  }

  #remember({ accessToken, refreshToken }: StoredToken): void {
    const given = [accessToken, refreshToken].filter((secret) => secret !== undefined);
    const settings = this.#request.secrets;
    const missing = given.filter((secret) => !this.#secrets.includes(secret));
    if (missing.length === 0) return;
    const issued = [...this.#secrets.slice(settings.length), ...missing];
    this.#secrets = [...settings, ...issued.slice(-REMEMBERED_SECRETS)];
  }
}

async function unlessAborted<Result>(promise: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason as Error);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
