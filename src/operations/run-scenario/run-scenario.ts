import { ServiceError } from '../../model/errors.ts';
import type { Json } from '../../model/json.ts';
import { RUN_SCENARIO, RunScenario, type Scenario } from '../../model/scenario.ts';
import type { ScriptPool } from '../../scripting/script-pool.ts';
import { ScriptError } from '../../scripting/script-run.ts';
import type { Definitions } from '../../system/definitions.ts';
import { codeOfScriptError } from '../failure.ts';
import type { Operation, OperationContext } from '../operation.ts';
import { OperationRegistry } from '../registry.ts';
import { ScenarioCheck } from './check-scenario.ts';
import { KnownDefinitions } from './known-definitions.ts';
import { runScenario } from './scenario-run.ts';

export interface RunScenarioParts {
  definitions: Definitions;
  scripts: ScriptPool;
  /** What a step can run, beside another scenario. */
  operations: readonly Operation[];
}

/** Refuses a scenario that cannot work, before it is saved. `together`: all that are saved with it. */
export type CheckScenario = (
  appId: string,
  scenario: Scenario,
  together?: readonly Scenario[],
) => Promise<void>;

/** Contract 4.2: the operation RunScenario. */
export class RunScenarioOperation implements Operation<RunScenario> {
  readonly opName = RUN_SCENARIO;
  readonly params = RunScenario;
  readonly #definitions: Definitions;
  readonly #scripts: ScriptPool;
  readonly #operations: OperationRegistry;

  constructor({ definitions, scripts, operations }: RunScenarioParts) {
    this.#definitions = definitions;
    this.#scripts = scripts;
    this.#operations = new OperationRegistry([...operations, this]);
  }

  async check(appId: string, params: RunScenario): Promise<void> {
    const known = new KnownDefinitions(this.#definitions, appId);
    await new ScenarioCheck(appId, this.#operations, known).call(params);
  }

  targetOf({ scenario }: RunScenario): string {
    return JSON.stringify([RUN_SCENARIO, scenario]);
  }

  readonly checkScenario: CheckScenario = async (appId, scenario, together = [scenario]) => {
    const known = new KnownDefinitions(this.#definitions, appId, together);
    await new ScenarioCheck(appId, this.#operations, known).scenario(scenario);
    for (const [index, { when }] of scenario.steps.entries()) {
      if (when !== undefined) await this.#checkScript(appId, `steps[${index}].when`, when);
    }
    if (scenario.output !== undefined) await this.#checkScript(appId, 'output', scenario.output);
  };

  async run(params: RunScenario, context: OperationContext): Promise<Json> {
    const parts = {
      known: new KnownDefinitions(this.#definitions, context.appId),
      operations: this.#operations,
      scripts: this.#scripts,
    };
    return (await runScenario(params, context, parts)).output;
  }

  async #checkScript(appId: string, property: string, text: string): Promise<void> {
    try {
      await this.#scripts.check(appId, { property, text });
    } catch (error) {
      if (!(error instanceof ScriptError)) throw error;
      throw new ServiceError(codeOfScriptError(error), error.message, { path: property, cause: error });
    }
  }
}
