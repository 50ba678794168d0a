import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { ServiceError } from '../../model/errors.ts';
import type { ApplicationDocument } from '../../model/application-document.ts';
import type { Json } from '../../model/json.ts';
import { secretFields } from '../../model/source.ts';
import { validate } from '../../model/validate.ts';
import type { System } from '../../system/system.ts';
import { jsonOption, printResult, table, type Command, type CommandCall } from '../command.ts';
import { readApplications, readValue, whileReading, type ReadDocument } from '../documents.ts';
import { isReference, References } from '../references.ts';

interface Applied {
  application: string;
  kind: 'application' | 'source' | 'model' | 'variable' | 'request';
  name: string;
  change: 'created' | 'changed' | 'unchanged';
}

/** Brings applications to what files say; what they do not mention stays. The service may be running. */
export const apply: Command = {
  name: 'apply',
  summary: 'Create or change applications as YAML files describe them, and print what changed',
  positional: 'path',
  options: {
    path: { description: 'A file, or a folder of .yaml and .yml files', value: 'PATH', required: true },
    secrets: {
      description: 'A YAML file of NAME: value for the references ${NAME}; else they are in the environment',
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
    } finally {
      // Also what was done before something failed.
      printResult(call, applied, () =>
        table(applied.map(({ change, application, kind, name }) => [change, application, kind, name])),
      );
    }
  },
};

const SecretValues = z.record(z.string(), z.string());

async function givenSecrets(call: CommandCall): Promise<Record<string, string>> {
  const file = call.option('secrets');
  if (file === undefined) return {};
  return whileReading(file, async () =>
    validate(SecretValues, await readValue(file, new References(process.env))),
  );
}

function plainSecrets({ file, document, written }: ReadDocument): { file: string; path: string }[] {
  const { sources = [] } = written as { sources?: { auth?: Record<string, unknown> }[] };
  return document.sources.flatMap(({ auth }, index) =>
    secretFields[auth.type].flatMap((field) => {
      const value = sources[index]?.auth?.[field];
      const path = `sources[${index}].auth.${field}`;
      if (typeof value === 'string') return isReference(value) ? [] : [{ file, path }];
      const inner = Object.entries((value ?? {}) as Record<string, string>);
      return inner
        .filter(([, text]) => !isReference(text))
        .map(([key]) => ({ file, path: `${path}.${key}` }));
    }),
  );
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
    note('source', source.name, await at(`sources[${index}]`, () => saved.sources.put(appId, source)));
  }
  for (const model of models) note('model', model.name, await saved.models.put(appId, model));
  for (const [variable, value] of Object.entries(variables)) {
    note('variable', variable, await setVariable(system, appId, variable, value));
  }
  for (const request of requests) note('request', request.name, await saved.requests.put(appId, request));
}

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

/** A fault of one of several things names which. */
async function at<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const full = error.path ? `${path}.${error.path}` : path;
    const problem = error.path ? error.message.replace(`${error.path}: `, '') : error.message;
    throw new ServiceError(error.code, `${full}: ${problem}`, { path: full, cause: error });
  }
}
