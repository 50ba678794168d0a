import { z } from 'zod';
import { Json } from '../../model/json.ts';
import { StepSummary } from '../../model/scenario.ts';

/** Where records have gone. An operation says it in its output, beside other things. */
const Targets = z.object(StepSummary.pick({ tables: true, files: true }).shape);
export type Targets = z.infer<typeof Targets>;

const Counts = StepSummary.pick({ pages: true, records: true });
export type Counts = z.infer<typeof Counts>;

const StepResult = StepSummary.extend({ output: Json });
export type StepResult = z.infer<typeof StepResult>;

/** What a scenario notes after each of its steps, to go on from. */
const Note = z.strictObject({
  steps: z.array(StepResult),
  executionContext: z.record(z.string(), Json),
  /** Of the job until then: what is more is the next step's. */
  counted: Counts,
});
type Note = z.infer<typeof Note>;

export const noTargets: Targets = { tables: [] };

export function noteOf(progress: Json | null): Note | null {
  return progress === null ? null : Note.parse(progress);
}

export function targetsOf(output: Json): Targets {
  return Targets.safeParse(output).data ?? noTargets;
}

export function allTargets(parts: readonly Targets[]): Targets {
  const tables = new Map<string, Targets['tables'][number]>();
  for (const count of parts.flatMap((part) => part.tables)) {
    const key = JSON.stringify([count.source, count.space, count.table]);
    tables.set(key, { ...count, records: count.records + (tables.get(key)?.records ?? 0) });
  }
  const files = parts.flatMap((part) => part.files ?? []);
  return {
    tables: [...tables.values()],
    ...(files.length > 0 && { files }),
  };
}

/** The output of a scenario that says nothing about it. */
export function outputOf(results: readonly StepResult[]): Json {
  return { steps: results.map((result) => ({ name: result.name, ...asJson(result) })) };
}

/** `$ctx.steps`: what became of the steps before, by their names. */
export function shownToScripts(results: readonly StepResult[]): Record<string, Json> {
  return Object.fromEntries(
    results.map((result) => [result.name, { ...asJson(result), output: result.output }]),
  );
}

function asJson({ state, pages, records, tables, files, error }: StepResult): Record<string, Json> {
  return { state, pages, records, tables, ...(files && { files }), ...(error && { error }) };
}
