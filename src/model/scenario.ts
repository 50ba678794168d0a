import { z } from 'zod';
import { TableCount } from './job.ts';
import { Json } from './json.ts';
import { Name } from './names.ts';
import { holdsSecrets } from './source.ts';

export const RUN_SCENARIO = 'RunScenario';
export const MOST_STEPS = 100;
/** So many scenarios may call one another, the first one counted. */
export const MOST_NESTED_SCENARIOS = 16;

const Script = (description: string) => z.string().min(1).meta({ description, script: true });

export const ScenarioParameter = z
  .strictObject({
    name: Name.meta({ description: 'Under which scripts see it in $ctx.variables' }),
    default: Json.optional().meta({
      description: 'Its value where none is given; without it, one must be given',
    }),
  })
  .meta({ id: 'ScenarioParameter' });
export type ScenarioParameter = z.infer<typeof ScenarioParameter>;

export const ScenarioStep = z
  .strictObject({
    name: Name.meta({ description: 'Differs from those of the other steps' }),
    operation: z
      .strictObject({
        opName: z.string().min(1).meta({ description: 'HTTPRequest or RunScenario' }),
        opParams: z.record(z.string(), z.unknown()).default({}).meta({ description: 'As in executeJob' }),
      })
      .optional()
      .meta({ description: 'What is run' }),
    request: Name.optional().meta({
      description: 'Instead of an operation: a saved request, as it is when the step begins',
    }),
    when: Script('Whether the step is run: it is skipped where this returns something falsy').optional(),
    onError: z.enum(['fail', 'continue']).default('fail').meta({
      description: 'What a failure of the step is: one of the scenario, or a line in the log',
    }),
  })
  .refine(({ operation, request }) => (operation === undefined) !== (request === undefined), {
    error: 'either operation or request must be given, and not both',
    path: ['operation'],
  })
  .refine(({ operation }) => !holdsSecrets(operation?.opParams), {
    error: 'secrets are not kept in a scenario: put them into an HTTPSource, and name that as request.source',
    path: ['operation', 'opParams', 'request', 'auth'],
  })
  .meta({ id: 'ScenarioStep' });
export type ScenarioStep = z.infer<typeof ScenarioStep>;

/** The second of two has the fault. */
function refuseRepeated(items: readonly { name: string }[], context: z.RefinementCtx): void {
  const seen = new Set<string>();
  for (const [index, { name }] of items.entries()) {
    if (seen.has(name)) {
      context.addIssue({ code: 'custom', message: `another one is named "${name}"`, path: [index, 'name'] });
    }
    seen.add(name);
  }
}

/** Decisions section 6: what a job of the operation RunScenario does. */
export const Scenario = z
  .strictObject({
    name: Name.meta({ description: 'Of the scenario' }),
    parameters: z
      .array(ScenarioParameter)
      .superRefine(refuseRepeated)
      .default([])
      .meta({ description: 'What can be given to it' }),
    steps: z
      .array(ScenarioStep)
      .min(1)
      .max(MOST_STEPS)
      .superRefine(refuseRepeated)
      .meta({ description: 'Run in their order, each with the variables that the one before has left' }),
    output: Script('Returns the output of the job; without it, that is what each step has loaded').optional(),
  })
  .meta({ id: 'Scenario' });
export type Scenario = z.infer<typeof Scenario>;

/** A record: column name to value. */
export type InputRecord = Record<string, Json>;

const isRecord = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isInput = (value: unknown) => value === null || (Array.isArray(value) && value.every(isRecord));

function wrongInput({ input }: { input?: unknown }): string {
  const wanted = 'must be null or an array of records, which are objects of column name to value';
  if (!Array.isArray(input)) return wanted;
  const wrong: unknown = input.find((item) => !isRecord(item));
  const kind = Array.isArray(wrong) ? 'array' : wrong === null ? 'null' : typeof wrong;
  return `${wanted}; item ${input.indexOf(wrong) + 1} is of the type ${kind}`;
}

/** Contract 4.2: `opParams` of the operation RunScenario. */
export const RunScenario = z
  .strictObject({
    scenario: z.string().min(1).meta({ description: 'The name of the scenario' }),
    parameters: z
      .record(z.string(), Json)
      .default({})
      .meta({ description: 'Values of its parameters, in the place of their defaults' }),
    // One fault for all of it: a record is not looked into, and there may be very many.
    data: z
      .custom<InputRecord[] | null>(isInput, { error: wrongInput })
      .optional()
      .meta({
        type: ['array', 'null'],
        items: { type: 'object' },
        description:
          'Null, or records for its steps: $ctx.data, and the source table {source: "input"}. Left out in a step of a ' +
          'scenario, they are those of that scenario',
      }),
  })
  .meta({ id: 'RunScenario' });
export type RunScenario = z.infer<typeof RunScenario>;

/** What became of a step. */
export const StepSummary = z
  .strictObject({
    name: z.string().meta({ description: 'Of the step' }),
    state: z
      .enum(['succeeded', 'failed', 'skipped'])
      .meta({ description: 'failed: it had onError continue' }),
    pages: z.int().meta({ description: 'Committed' }),
    records: z.int().meta({ description: 'Loaded into tables' }),
    tables: z.array(TableCount).meta({ description: 'Which tables got how many records' }),
    files: z
      .array(z.strictObject({ space: z.string(), name: z.string(), bytes: z.int() }))
      .optional()
      .meta({ description: 'Which files were saved' }),
    error: z
      .strictObject({ code: z.string(), message: z.string() })
      .optional()
      .meta({ description: 'Why it failed' }),
  })
  .meta({ id: 'StepSummary' });
export type StepSummary = z.infer<typeof StepSummary>;

/** The output of a scenario that has no script for it. */
export const StepsOutput = z.strictObject({ steps: z.array(StepSummary) });
