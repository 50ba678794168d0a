import { ServiceError } from '../../model/errors.ts';
import type { Json } from '../../model/json.ts';
import { RUN_SCENARIO, RunScenario, type Scenario, type ScenarioStep } from '../../model/scenario.ts';
import { validate } from '../../model/validate.ts';
import type { ScriptPool } from '../../scripting/script-pool.ts';
import { jobErrorOf, StepError } from '../failure.ts';
import { Cancelled, Fenced, Paused, type OperationContext } from '../operation.ts';
import type { OperationRegistry } from '../registry.ts';
import { ChainFault, refuseChain, type Chain } from './chain.ts';
import type { KnownDefinitions } from './known-definitions.ts';
import { parameterValues } from './parameters.ts';
import {
  allTargets,
  noTargets,
  noteOf,
  outputOf,
  shownToScripts,
  targetsOf,
  type Counts,
  type StepResult,
  type Targets,
} from './step-results.ts';

interface ScenarioRunParts {
  known: KnownDefinitions;
  operations: OperationRegistry;
  scripts: ScriptPool;
}

interface Outcome {
  output: Json;
  targets: Targets;
}

/** Where a scenario stands among those of the job. */
interface Place {
  /** Those that have called this one. */
  callers: Chain;
  /** What the job had counted when this one began. */
  counted: Counts;
}

export async function runScenario(
  params: RunScenario,
  context: OperationContext,
  parts: ScenarioRunParts,
  { callers, counted }: Place = { callers: [], counted: { pages: 0, records: 0 } },
): Promise<Outcome> {
  // As it is now: whoever mends a scenario can let a failed job go on with it.
  const scenario = await parts.known.scenario(params.scenario, 'scenario');
  refuseEndless(callers, scenario);
  const values = parameterValues(scenario, params.parameters);
  const { executionContext, ...done } = noteOf(context.progress.of(context.step)) ?? { steps: [], counted };
  const variables = context.variables.nested({ ...values, ...executionContext });
  const input = params.data === undefined ? context.input : params.data;
  const run = new ScenarioRun(scenario, { ...context, variables, input }, parts, callers, done);
  try {
    return await run.toItsEnd();
  } finally {
    context.variables.takeBack(variables, Object.keys(values));
  }
}

type EndedStep = Pick<StepResult, 'state' | 'output' | 'error'> & { targets: Targets };

/** `onError` says nothing of these: they are the service's own matter. */
const NO_FAILURES: readonly string[] = ['internal_error', 'interrupted'];

class ScenarioRun {
  readonly #scenario: Scenario;
  readonly #context: OperationContext;
  readonly #parts: ScenarioRunParts;
  readonly #callers: Chain;
  readonly #results: StepResult[];
  #counted: Counts;

  constructor(
    scenario: Scenario,
    context: OperationContext,
    parts: ScenarioRunParts,
    callers: Chain,
    done: { steps: StepResult[]; counted: Counts },
  ) {
    this.#scenario = scenario;
    this.#context = context;
    this.#parts = parts;
    this.#callers = callers;
    this.#results = done.steps;
    this.#counted = done.counted;
  }

  async toItsEnd(): Promise<Outcome> {
    const { signal, stopSignal } = this.#context;
    for (const [index, step] of this.#scenario.steps.entries()) {
      if (this.#results.some(({ name }) => name === step.name)) continue;
      signal.throwIfAborted();
      stopSignal.throwIfAborted();
      await this.#end(step, await this.#step(step, index));
    }
    const { output } = this.#scenario;
    return {
      output: output === undefined ? outputOf(this.#results) : await this.#script('output', output),
      targets: allTargets(this.#results),
    };
  }

  async #end({ name }: ScenarioStep, ended: EndedStep): Promise<void> {
    const { progress, step, variables, report } = this.#context;
    const { pages, records } = report.stats;
    const { targets, ...result } = ended;
    this.#results.push({
      name,
      ...result,
      pages: pages - this.#counted.pages,
      records: records - this.#counted.records,
      ...targets,
    });
    this.#counted = { pages, records };
    await progress.note(step, {
      steps: this.#results,
      executionContext: { ...variables.executionContext },
      counted: { pages, records },
    });
  }

  async #step(step: ScenarioStep, index: number): Promise<EndedStep> {
    const { report } = this.#context;
    const shown = `step "${[...this.#context.step.split('/').slice(1), step.name].join('/')}"`;
    let field = `steps[${index}]`;
    try {
      if (step.when !== undefined && !(await this.#script('when', step.when))) {
        report.log('info', `${shown} skipped: when is falsy`);
        return { state: 'skipped', output: null, targets: noTargets };
      }
      report.log('info', `${shown} begins`);
      field += step.request === undefined ? '.operation.opParams' : '.request';
      return { state: 'succeeded', ...(await this.#operate(step)) };
    } catch (thrown) {
      const { code, message } = this.#failure(thrown);
      if (step.onError === 'fail') throw new StepError(step.name, field, thrown);
      report.log('warn', `${shown} failed: ${code}: ${message}; the scenario goes on`);
      const error = { code, message: report.redacted(message) };
      return { state: 'failed', output: null, targets: noTargets, error };
    }
  }

  async #operate(step: ScenarioStep): Promise<Outcome> {
    const { known, operations } = this.#parts;
    const context = { ...this.#context, step: `${this.#context.step}/${step.name}` };
    const { opName, opParams } = step.operation ?? {
      opName: 'HTTPRequest',
      opParams: await known.request(step.request ?? '', ''),
    };
    if (opName === RUN_SCENARIO) {
      const callers = [...this.#callers, this.#scenario.name];
      const place = { callers, counted: this.#counted };
      return runScenario(validate(RunScenario, opParams), context, this.#parts, place);
    }
    const operation = operations.find(opName);
    const output = await operation.run(validate(operation.params, opParams), context);
    return { output, targets: targetsOf(output) };
  }

  /** What is no failure of the step goes on to whoever runs the job. */
  #failure(error: unknown): { code: string; message: string } {
    const { signal, stopSignal } = this.#context;
    const isAsked = signal.aborted || (stopSignal.aborted && error === stopSignal.reason);
    if (isAsked || error instanceof Paused || error instanceof Cancelled || error instanceof Fenced)
      throw error;
    const failure = jobErrorOf(error);
    if (NO_FAILURES.includes(failure.code)) throw error;
    return failure;
  }

  /** In an isolate of its own: one that is kept would wait idle while the steps run. */
  async #script(property: 'when' | 'output', text: string): Promise<Json> {
    const { appId, variables, input, report } = this.#context;
    const run = this.#parts.scripts.openRun(appId);
    try {
      const { value, console } = await run.evaluate(
        { property, text },
        {
          variables: variables.seenWith({}),
          dataJson: JSON.stringify(input),
          steps: shownToScripts(this.#results),
        },
      );
      for (const line of console) report.log(line.level === 'log' ? 'info' : line.level, line.text);
      return (value ?? null) as Json;
    } finally {
      run.close();
    }
  }
}

/** Another scenario may have been changed since this one was checked. */
function refuseEndless(callers: Chain, { name }: Scenario): void {
  try {
    refuseChain(callers, [name]);
  } catch (error) {
    if (!(error instanceof ChainFault)) throw error;
    throw new ServiceError('invalid_configuration', `scenario: ${error.message}`, { path: 'scenario' });
  }
}
