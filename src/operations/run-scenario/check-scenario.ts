import { ServiceError } from '../../model/errors.ts';
import { inField } from '../../model/field-path.ts';
import { RUN_SCENARIO, RunScenario, type Scenario, type ScenarioStep } from '../../model/scenario.ts';
import { validate } from '../../model/validate.ts';
import type { OperationRegistry } from '../registry.ts';
import { ChainFault, refuseChain, type Chain } from './chain.ts';
import type { KnownDefinitions } from './known-definitions.ts';
import { parameterValues } from './parameters.ts';

/** Refuses a scenario that cannot work, before it is saved and before it is run. */
export class ScenarioCheck {
  readonly #appId: string;
  readonly #operations: OperationRegistry;
  readonly #known: KnownDefinitions;
  /** The longest chain from each scenario on: each is looked into once, however often it is called. */
  readonly #chains = new Map<string, Chain>();

  constructor(appId: string, operations: OperationRegistry, known: KnownDefinitions) {
    this.#appId = appId;
    this.#operations = operations;
    this.#known = known;
  }

  async scenario(scenario: Scenario): Promise<void> {
    await this.#scenario(scenario, []);
  }

  /** A fault inside of the scenario is one of the field that names it. */
  async call({ scenario: name, parameters }: RunScenario, callers: Chain = []): Promise<Chain> {
    const scenario = await this.#known.scenario(name, 'scenario');
    parameterValues(scenario, parameters);
    try {
      return await this.#scenario(scenario, callers);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const message = `scenario: in the scenario "${name}", ${error.message}`;
      throw new ServiceError(error.code, message, { path: 'scenario', cause: error });
    }
  }

  async #scenario({ name, steps }: Scenario, callers: Chain): Promise<Chain> {
    refuseChain(callers, this.#chains.get(name) ?? [name]);
    const known = this.#chains.get(name);
    if (known) return known;
    const chain = [...callers, name];
    let longest: Chain = [];
    for (const [index, step] of steps.entries()) {
      const called = await inField(`steps[${index}]`, () => this.#step(step, chain));
      if (called.length > longest.length) longest = called;
    }
    this.#chains.set(name, [name, ...longest]);
    return [name, ...longest];
  }

  async #step(step: ScenarioStep, callers: Chain): Promise<Chain> {
    if (step.request !== undefined) {
      const opParams = await this.#known.request(step.request, 'request');
      return inField('request', () => this.#operation('HTTPRequest', opParams, callers));
    }
    const { opName = '', opParams } = step.operation ?? {};
    this.#operations.find(opName);
    return inField('operation.opParams', () => this.#operation(opName, opParams, callers));
  }

  async #operation(opName: string, opParams: unknown, callers: Chain): Promise<Chain> {
    if (opName === RUN_SCENARIO) return this.#called(validate(RunScenario, opParams), callers);
    const operation = this.#operations.find(opName);
    await operation.check(this.#appId, validate(operation.params, opParams), 'step');
    return [];
  }

  async #called(params: RunScenario, callers: Chain): Promise<Chain> {
    try {
      return await this.call(params, callers);
    } catch (error) {
      // The chain says it all: only the first one of it says where.
      if (!(error instanceof ChainFault) || callers.length > 1) throw error;
      throw new ServiceError('invalid_request', `scenario: ${error.message}`, { path: 'scenario' });
    }
  }
}
