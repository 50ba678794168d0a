import type { Scenario } from '../model/scenario.ts';
import type { Model } from '../model/table.ts';
import type { Change, DefinitionKind, Definitions, KeysetAsk } from './definitions.ts';
import type { Sources } from './sources.ts';

/** Everything that people define in an application, each kind under its own name. */
export interface SavedDefinitions {
  sources: Sources;
  models: DefinitionsOfKind<Model>;
  requests: DefinitionsOfKind<{ name: string }>;
  scenarios: DefinitionsOfKind<Scenario>;
}

export function savedDefinitions(definitions: Definitions, sources: Sources): SavedDefinitions {
  return {
    sources,
    models: new DefinitionsOfKind(definitions, 'model'),
    requests: new DefinitionsOfKind(definitions, 'request'),
    scenarios: new DefinitionsOfKind(definitions, 'scenario'),
  };
}

/** The definitions of one kind, which hold no secrets. */
class DefinitionsOfKind<Body extends { name: string }> {
  readonly #definitions: Definitions;
  readonly #kind: DefinitionKind;

  constructor(definitions: Definitions, kind: DefinitionKind) {
    this.#definitions = definitions;
    this.#kind = kind;
  }

  put(appId: string, body: Body): Promise<Change> {
    return this.#definitions.put(appId, this.#kind, body.name, body);
  }

  async get(appId: string, name: string): Promise<Body | null> {
    return ((await this.#definitions.get(appId, this.#kind, name))?.body as Body | undefined) ?? null;
  }

  async list(appId: string, ask: KeysetAsk): Promise<Body[]> {
    return (await this.#definitions.list(appId, this.#kind, ask)).map(({ body }) => body as Body);
  }

  delete(appId: string, name: string): Promise<boolean> {
    return this.#definitions.delete(appId, this.#kind, name);
  }
}
