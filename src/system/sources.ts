import { isDeepStrictEqual } from 'node:util';
import { ServiceError } from '../model/errors.ts';
import { builtInSources, type HttpSource, type Source, type TableSource } from '../model/source.ts';
import { fingerprint, type AuthSecrets } from './auth-secrets.ts';
import type { Change, Definitions, KeysetAsk } from './definitions.ts';
import type { Secrets } from './secrets.ts';
import { secretsOf } from './source-secrets.ts';

const MOST_SOURCES = 10_000;

/** A source as it may be shown: the secrets are named, with what tells them apart. */
export interface ShownSource {
  source: Source;
  secrets: { path: string; fingerprint: string }[];
}

/** The sources that applications have beside the built-in ones. Their secrets are sealed apart from the rest. */
export class Sources {
  readonly #definitions: Definitions;
  readonly #secrets: Secrets;
  #onDelete: (sourceKey: string) => Promise<void> = async () => {};
  #onChange: (sourceKey: string) => Promise<void> = async () => {};

  constructor(definitions: Definitions, secrets: Secrets) {
    this.#definitions = definitions;
    this.#secrets = secrets;
  }

  /** Secrets that are left out stay as they were, as long as they go to the same places in the same way. */
  async put(appId: string, source: Source): Promise<Change> {
    const { name } = source;
    if (Object.hasOwn(builtInSources, name)) {
      throw new ServiceError('conflict', `every application has a source "${name}" already`, {
        path: 'name',
      });
    }
    const kind = secretsOf(source);
    const { open, secrets: given } = kind.split(source);
    const before = await this.#find(appId, name);
    const stored = await this.#storedSecrets(appId, name);
    const secrets = { ...(before && stillValid(stored, given, before, source)), ...given };
    const missing = kind.missing(kind.join(open, secrets));
    if (missing !== undefined) {
      throw new ServiceError('invalid_request', `${missing}: is missing`, { path: missing });
    }
    const secretsChanged = !isDeepStrictEqual(secrets, stored);
    // The secrets first: a source without its secrets would fail, secrets without a source do no harm.
    if (secretsChanged) await this.#secrets.put(secretName(appId, name), JSON.stringify(secrets));
    const change = await this.#definitions.put(appId, 'source', name, open);
    if (change !== 'unchanged' || secretsChanged) await this.#onChange(`${appId}/${name}`);
    return change === 'unchanged' && secretsChanged ? 'changed' : change;
  }

  /** With its secrets: for a request, never for an answer. null: there is no HTTPSource of this name. */
  async http(appId: string, name: string): Promise<HttpSource | null> {
    const found = await this.#withSecrets(appId, name);
    return found?.type === 'HTTPSource' ? found : null;
  }

  /** The same for the connection to its database. */
  async tables(appId: string, name: string): Promise<TableSource | null> {
    const found = await this.#withSecrets(appId, name);
    return found?.type === 'TableSource' ? found : null;
  }

  /** All of one type, without their secrets. */
  async ofType<Type extends Source['type']>(
    appId: string,
    type: Type,
  ): Promise<Extract<Source, { type: Type }>[]> {
    const all = await this.#definitions.list(appId, 'source', { limit: MOST_SOURCES });
    const sources = all.map(({ body }) => body as Source);
    return sources.filter((source): source is Extract<Source, { type: Type }> => source.type === type);
  }

  async #withSecrets(appId: string, name: string): Promise<Source | null> {
    const source = await this.#find(appId, name);
    if (!source) return null;
    return secretsOf(source).join(source, await this.#storedSecrets(appId, name));
  }

  async #find(appId: string, name: string): Promise<Source | null> {
    return ((await this.#definitions.get(appId, 'source', name))?.body as Source | undefined) ?? null;
  }

  async get(appId: string, name: string): Promise<ShownSource | null> {
    const found = await this.#find(appId, name);
    return found && this.#shown(appId, found);
  }

  async list(appId: string, ask: KeysetAsk): Promise<ShownSource[]> {
    const found = await this.#definitions.list(appId, 'source', ask);
    return Promise.all(found.map(({ body }) => this.#shown(appId, body as Source)));
  }

  /** What others keep for a source, under `appId/name`, is to go with it. */
  onDelete(forget: (sourceKey: string) => Promise<void>): void {
    this.#onDelete = forget;
  }

  /** Connections that others keep to it, under `appId/name`, are those of another source from now on. */
  onChange(close: (sourceKey: string) => Promise<void>): void {
    this.#onChange = close;
  }

  async delete(appId: string, name: string): Promise<boolean> {
    const deleted = await this.#definitions.delete(appId, 'source', name);
    await this.#secrets.delete(secretName(appId, name));
    await this.#onDelete(`${appId}/${name}`);
    await this.#onChange(`${appId}/${name}`);
    return deleted;
  }

  async #shown(appId: string, source: Source): Promise<ShownSource> {
    const stored = await this.#storedSecrets(appId, source.name);
    const { pathOf } = secretsOf(source);
    const secrets = Object.entries(stored).flatMap(([field, value]) =>
      typeof value === 'string'
        ? [{ path: pathOf(field), fingerprint: fingerprint(value) }]
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

/** Of the stored secrets those that belong to the source as it is to be; one that may not serve it is an error. */
function stillValid(stored: AuthSecrets, given: AuthSecrets, before: Source, now: Source): AuthSecrets {
  if (before.type !== now.type) return {};
  const { isKept, whyNot, pathOf } = secretsOf(now);
  const kept = Object.entries(stored).filter(([field]) => isKept(field, before, now));
  for (const [field] of kept) {
    if (field in given) continue;
    const why = whyNot(field, before, now);
    if (why === null) continue;
    const path = pathOf(field);
    throw new ServiceError('invalid_request', `${path}: must be given again: ${why}`, { path });
  }
  return Object.fromEntries(kept);
}

function secretName(appId: string, name: string): string {
  return `source:${appId}/${name}`;
}
