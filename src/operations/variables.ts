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
  #application: Values;
  #executionContext: Values;

  constructor(application: Values, executionContext: Values = {}) {
    this.#application = { ...application };
    this.#executionContext = { ...executionContext };
  }

  seenWith(sourceProperties: Readonly<Values>): Values {
    return { ...this.#application, ...sourceProperties, ...this.#executionContext };
  }

  /** What a job that goes on later has to be given back. */
  get executionContext(): Readonly<Values> {
    return this.#executionContext;
  }

  /** For a scenario that is called: application variables are shared, the execution context is a copy. */
  nested(parameters: Readonly<Values>): Variables {
    const nested = new Variables({}, { ...this.#executionContext, ...parameters });
    nested.#application = this.#application;
    return nested;
  }

  /** When it has ended: what its scripts have set; its parameters were its own. */
  takeBack(nested: Variables, parameters: readonly string[]): void {
    const entries = Object.entries(nested.#executionContext).filter(([name]) => !parameters.includes(name));
    this.apply({ application: {}, executionContext: Object.fromEntries(entries) });
  }

  /** Goes on where a job had stopped. */
  restore(executionContext: Readonly<Values>): void {
    this.#executionContext = { ...executionContext };
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
