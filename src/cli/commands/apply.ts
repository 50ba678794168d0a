import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { inField } from '../../model/field-path.ts';
import type { ApplicationDocument } from '../../model/application-document.ts';
import type { Json } from '../../model/json.ts';
import { secretFields } from '../../model/source.ts';
import { validate } from '../../model/validate.ts';
import type { System } from '../../system/system.ts';
import { jsonOption, printResult, table, type Command, type CommandCall, type Engine } from '../command.ts';
import { readApplications, readValue, whileReading, type ReadDocument } from '../documents.ts';
import { isReference, References } from '../references.ts';

interface Applied {
  application: string;
  kind: 'application' | 'source' | 'model' | 'variable' | 'request' | 'scenario' | 'schedule';
  name: string;
  change: 'created' | 'changed' | 'unchanged';
}

/** Brings applications to what files say; what they do not mention stays. The service may be running. */
export function applyCommand(
  withEngine: <Result>(call: CommandCall, work: (engine: Engine) => Promise<Result>) => Promise<Result>,
): Command {
  return {
    name: 'apply',
    summary: 'Create or change applications as YAML files describe them, and print what changed',
    positional: 'path',
    options: {
      path: { description: 'A file, or a folder of .yaml and .yml files', value: 'PATH', required: true },
      secrets: {
        description:
          'A YAML file of NAME: value for the references ${NAME}; else they are in the environment',
        value: 'FILE',
      },
      ...jsonOption,
    },
    async run(call) {
      const references = new References(process.env, await givenSecrets(call));
      const read = await readApplications(call.option('path') as string, references);
      for (const { file, path } of read.flatMap(plainSecrets))
        call.tell(
          `millrace: ${file}: ${path} holds a secret in plain text; better: a reference such as \${NAME}`,
        );
      const applied: Applied[] = [];
      try {
        await call.withRecords(async (system) => {
          for (const { file, document } of read)
            await whileReading(file, () => applyDocument(document, system, applied));
        });
        if (read.some(({ document }) => document.scenarios.length + document.schedules.length > 0))
          await withEngine(call, async (engine) => {
            await applyScenarios(read, engine, applied);
            await applySchedules(read, engine, applied);
          });
      } finally {
        // Also what was done before something failed.
        printResult(call, applied, () =>
          table(applied.map(({ change, application, kind, name }) => [change, application, kind, name])),
        );
      }
    },
  };
}

const SecretValues = z.record(z.string(), z.string());

async function givenSecrets(call: CommandCall): Promise<Record<string, string>> {
  const file = call.option('secrets');
  if (file === undefined) return {};
  return whileReading(file, async () =>
    validate(SecretValues, await readValue(file, new References(process.env))),
  );
}

function plainSecrets({ file, document, written }: ReadDocument): { file: string; path: string }[] {
  const { sources = [] } = written as { sources?: WrittenSource[] };
  return document.sources.flatMap((read, index) => {
    const source = sources[index] ?? {};
    const own = (['password', 'proxyPassword'] as const).map((field) => [field, source[field]] as const);
    const authFields = read.type === 'HTTPSource' ? secretFields[read.auth.type] : [];
    const ofAuth = authFields.map((field) => [`auth.${field}`, source.auth?.[field]] as const);
    return [...own, ...ofAuth].flatMap(([field, value]) => {
      const path = `sources[${index}].${field}`;
      if (typeof value === 'string') return isReference(value) ? [] : [{ file, path }];
      const inner = Object.entries((value ?? {}) as Record<string, string>);
      return inner
        .filter(([, text]) => !isReference(text))
        .map(([key]) => ({ file, path: `${path}.${key}` }));
    });
  });
}

interface WrittenSource {
  auth?: Record<string, unknown>;
  password?: unknown;
  proxyPassword?: unknown;
}

async function applyDocument(
  document: ApplicationDocument,
  system: System,
  applied: Applied[],
): Promise<void> {
  const { application: appId, name, sources, models, variables, requests } = document;
  const { saved, applications } = system;
  const note = (kind: Applied['kind'], named: string, change: Applied['change']) =>
    applied.push({ application: appId, kind, name: named, change });

  note('application', appId, await applications.put({ appId, ...(name !== undefined && { name }) }));
  for (const [index, source] of sources.entries()) {
    note('source', source.name, await inField(`sources[${index}]`, () => saved.sources.put(appId, source)));
  }
  for (const model of models) note('model', model.name, await saved.models.put(appId, model));
  for (const [variable, value] of Object.entries(variables)) {
    note('variable', variable, await setVariable(system, appId, variable, value));
  }
  for (const request of requests) note('request', request.name, await saved.requests.put(appId, request));
}

/** When all else is there that they may name. Those of an application may call one another: all are checked first. */
async function applyScenarios(
  read: readonly ReadDocument[],
  { system, checkScenario }: Engine,
  applied: Applied[],
): Promise<void> {
  for (const { file, document } of read) {
    const { application, scenarios } = document;
    const together = read
      .filter((other) => other.document.application === application)
      .flatMap((other) => other.document.scenarios);
    await whileReading(file, async () => {
      for (const [index, scenario] of scenarios.entries())
        await inField(`scenarios[${index}]`, () => checkScenario(application, scenario, together));
    });
  }
  for (const { application, scenarios } of read.map(({ document }) => document)) {
    for (const scenario of scenarios) {
      const change = await system.saved.scenarios.put(application, scenario);
      applied.push({ application, kind: 'scenario', name: scenario.name, change });
    }
  }
}

/** When all else is there that they may run. */
async function applySchedules(
  read: readonly ReadDocument[],
  { scheduler }: Engine,
  applied: Applied[],
): Promise<void> {
  for (const { file, document } of read) {
    const { application, schedules } = document;
    await whileReading(file, async () => {
      for (const [index, schedule] of schedules.entries()) {
        const change = await inField(`schedules[${index}]`, () =>
          scheduler.save(application, schedule, COMMAND_LINE),
        );
        applied.push({ application, kind: 'schedule', name: schedule.name, change });
      }
    });
  }
}

/** In whose name the jobs of a schedule run that a file describes. */
const COMMAND_LINE = { clientId: 'command line', username: null };

async function setVariable(
  { variables }: System,
  appId: string,
  name: string,
  value: Json,
): Promise<Applied['change']> {
  const all = await variables.all(appId);
  const isThere = Object.hasOwn(all, name);
  if (isThere && isDeepStrictEqual(all[name], value)) return 'unchanged';
  await variables.set(appId, { [name]: value });
  return isThere ? 'changed' : 'created';
}
