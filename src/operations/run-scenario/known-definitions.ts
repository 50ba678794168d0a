import { didYouMean } from '../../model/did-you-mean.ts';
import { ServiceError } from '../../model/errors.ts';
import type { Scenario } from '../../model/scenario.ts';
import type { Definitions } from '../../system/definitions.ts';

/** The scenarios and saved requests of an application, with those that are about to be saved. */
export class KnownDefinitions {
  readonly #definitions: Definitions;
  readonly #appId: string;
  readonly #together: readonly Scenario[];

  constructor(definitions: Definitions, appId: string, together: readonly Scenario[] = []) {
    this.#definitions = definitions;
    this.#appId = appId;
    this.#together = together;
  }

  /** `path`: the field that names it. */
  async scenario(name: string, path: string): Promise<Scenario> {
    const found = this.#together.find((scenario) => scenario.name === name);
    if (found) return found;
    const saved = await this.#definitions.get(this.#appId, 'scenario', name);
    if (saved) return saved.body as Scenario;
    const others = this.#together.map((scenario) => scenario.name);
    const known = [...new Set([...others, ...(await this.#definitions.names(this.#appId, 'scenario'))])];
    throw missing('unknown_scenario', path, `there is no scenario "${name}"`, name, known);
  }

  /** The `opParams` of the HTTPRequest that it is. */
  async request(name: string, path: string): Promise<unknown> {
    const saved = await this.#definitions.get(this.#appId, 'request', name);
    if (saved) {
      const { name: _, ...opParams } = saved.body as { name: string };
      return opParams;
    }
    const known = await this.#definitions.names(this.#appId, 'request');
    throw missing('not_found', path, `there is no saved request "${name}"`, name, known);
  }
}

function missing(
  code: 'unknown_scenario' | 'not_found',
  path: string,
  problem: string,
  name: string,
  known: readonly string[],
): ServiceError {
  const advice = `${didYouMean(name, known)} Known: ${known.join(', ') || 'none'}`;
  return new ServiceError(code, `${path}: ${problem}.${advice}`, { path });
}
