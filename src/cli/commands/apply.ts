import { ServiceError } from '../../model/errors.ts';
import type { ApplicationDocument } from '../../model/application-document.ts';
import type { Json } from '../../model/json.ts';
import type { System } from '../../system/system.ts';
import { jsonOption, printResult, table, type Command } from '../command.ts';
import { readApplications } from '../documents.ts';

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
    ...jsonOption,
  },
  async run(call) {
    const documents = await readApplications(call.option('path') as string, process.env);
    const applied = await call.withRecords(async (system) => {
      const all: Applied[] = [];
      for (const document of documents) all.push(...(await applyDocument(document, system)));
      return all;
    });
    printResult(call, applied, () =>
      table(applied.map(({ change, application, kind, name }) => [change, application, kind, name])),
    );
  },
};

async function applyDocument(document: ApplicationDocument, system: System): Promise<Applied[]> {
  const { application: appId, name, sources, models, variables, requests } = document;
  const { saved, applications } = system;
  const applied: Applied[] = [];
  const note = (kind: Applied['kind'], named: string, change: Applied['change']) =>
    applied.push({ application: appId, kind, name: named, change });

  note('application', appId, await applications.put({ appId, ...(name !== undefined && { name }) }));
  for (const source of sources) {
    note('source', source.name, await inSource(source.name, () => saved.sources.put(appId, source)));
  }
  for (const model of models) note('model', model.name, await saved.models.put(appId, model));
  for (const [variable, value] of Object.entries(variables)) {
    note('variable', variable, await setVariable(system, appId, variable, value));
  }
  for (const request of requests) note('request', request.name, await saved.requests.put(appId, request));
  return applied;
}

async function setVariable(
  { variables }: System,
  appId: string,
  name: string,
  value: Json,
): Promise<Applied['change']> {
  const before = (await variables.all(appId))[name];
  if (JSON.stringify(before) === JSON.stringify(value)) return 'unchanged';
  await variables.set(appId, { [name]: value });
  return before === undefined ? 'created' : 'changed';
}

async function inSource<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError(error.code, `source "${name}": ${error.message}`, { cause: error });
  }
}
