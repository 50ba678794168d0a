import { isDeepStrictEqual } from 'node:util';
import { ServiceError } from '../model/errors.ts';
import { builtInSources, type HttpSource } from '../model/source.ts';
import { fingerprint, joinSecrets, missingFields, splitSecrets, type AuthSecrets } from './auth-secrets.ts';
import type { Change, Definitions, KeysetAsk } from './definitions.ts';
import type { Secrets } from './secrets.ts';

/** An HTTPSource as it may be shown: the secrets are named, with what tells them apart. */
export interface ShownSource {
  source: HttpSource;
  secrets: { path: string; fingerprint: string }[];
}

/** The HTTPSources of applications. Their secrets are sealed apart from the rest. */
export class Sources {
  readonly #definitions: Definitions;
  readonly #secrets: Secrets;
  #onDelete: (sourceKey: string) => Promise<void> = async () => {};

  constructor(definitions: Definitions, secrets: Secrets) {
    this.#definitions = definitions;
    this.#secrets = secrets;
  }

  /** Secrets that are left out stay as they were, as long as the kind of authentication does. */
  async put(appId: string, source: HttpSource): Promise<Change> {
    const { name } = source;
    if (Object.hasOwn(builtInSources, name)) {
      throw new ServiceError('conflict', `every application has a source "${name}" already`, {
        path: 'name',
      });
    }
    const { open, secrets: given } = splitSecrets(source.auth);
    const existing = await this.#definitions.get(appId, 'source', name);
    const stored = await this.#storedSecrets(appId, name);
    const sameKind = (existing?.body as HttpSource | undefined)?.auth.type === open.type;
    const secrets = { ...(sameKind && stored), ...given };
    const [missing] = missingFields(joinSecrets(open, secrets));
    if (missing !== undefined) {
      throw new ServiceError('invalid_request', `auth.${missing}: is missing`, { path: `auth.${missing}` });
    }
    const secretsChanged = !isDeepStrictEqual(secrets, stored);
    // The secrets first: a source without its secrets would fail, secrets without a source do no harm.
    if (secretsChanged) await this.#secrets.put(secretName(appId, name), JSON.stringify(secrets));
    const change = await this.#definitions.put(appId, 'source', name, { ...source, auth: open });
    return change === 'unchanged' && secretsChanged ? 'changed' : change;
  }

  /** With its secrets: for a request, never for an answer. */
  async withSecrets(appId: string, name: string): Promise<HttpSource | null> {
    const found = await this.#definitions.get(appId, 'source', name);
    if (!found) return null;
    const source = found.body as HttpSource;
    return { ...source, auth: joinSecrets(source.auth, await this.#storedSecrets(appId, name)) };
  }

  async get(appId: string, name: string): Promise<ShownSource | null> {
    const found = await this.#definitions.get(appId, 'source', name);
    return found ? this.#shown(appId, found.body as HttpSource) : null;
  }

  async list(appId: string, ask: KeysetAsk): Promise<ShownSource[]> {
    const found = await this.#definitions.list(appId, 'source', ask);
    return Promise.all(found.map(({ body }) => this.#shown(appId, body as HttpSource)));
  }

  /** What others keep for a source, under `appId/name`, is to go with it. */
  onDelete(forget: (sourceKey: string) => Promise<void>): void {
    this.#onDelete = forget;
  }

  async delete(appId: string, name: string): Promise<boolean> {
    const deleted = await this.#definitions.delete(appId, 'source', name);
    await this.#secrets.delete(secretName(appId, name));
    await this.#onDelete(`${appId}/${name}`);
    return deleted;
  }

  async #shown(appId: string, source: HttpSource): Promise<ShownSource> {
    const stored = await this.#storedSecrets(appId, source.name);
    const secrets = Object.entries(stored).flatMap(([field, value]) =>
      typeof value === 'string'
        ? [{ path: `auth.${field}`, fingerprint: fingerprint(value) }]
        : Object.entries(value as Record<string, string>).map(([key, secret]) => ({
            path: `auth.${field}.${key}`,
            fingerprint: fingerprint(secret),
          })),
    );
    return { source, secrets };
  }

  async #storedSecrets(appId: string, name: string): Promise<AuthSecrets> {
    const text = await this.#secrets.get(secretName(appId, name));
    return text === null ? {} : (JSON.parse(text) as AuthSecrets);
  }
}

function secretName(appId: string, name: string): string {
  return `source:${appId}/${name}`;
}
