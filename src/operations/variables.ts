import type { Json } from '../model/json.ts';
import type { ParsingResult } from '../model/parsing-result.ts';

type Values = Record<string, Json>;

/** What a page changed, by scope. */
export interface VariableChanges {
  application: Values;
  executionContext: Values;
}

/**
 * Contract 2.4: application variables, overridden by those of the execution context, which holds the parameters of
 * the scenario and what scripts have set in it. The properties of an HTTP source belong to the execution context,
 * too, below what was set on purpose.
 */
export class Variables {
  readonly #application: Values;
  readonly #executionContext: Values;

  constructor(application: Values, executionContext: Values = {}) {
    this.#application = { ...application };
    this.#executionContext = { ...executionContext };
  }

  seenWith(sourceProperties: Readonly<Values>): Values {
    return { ...this.#application, ...sourceProperties, ...this.#executionContext };
  }

  apply(changes: VariableChanges): void {
    Object.assign(this.#application, changes.application);
    Object.assign(this.#executionContext, changes.executionContext);
  }
}

/** Contract 2.5: a string sets an application variable, an object says its scope. */
export function changesOf(variables: ParsingResult['variables']): VariableChanges {
  const changes: VariableChanges = { application: {}, executionContext: {} };
  for (const [name, variable] of Object.entries(variables)) {
    if (typeof variable === 'string') changes.application[name] = variable;
    else changes[variable.scope][name] = variable.value;
  }
  return changes;
}
