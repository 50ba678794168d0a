import { readFile, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { ApplicationDocument } from '../model/application-document.ts';
import { ServiceError } from '../model/errors.ts';
import { validate } from '../model/validate.ts';
import type { References } from './references.ts';

export interface ReadDocument {
  file: string;
  document: ApplicationDocument;
  /** As the file has it: references are not resolved, defaults are not filled in. */
  written: unknown;
}

/** Reads a YAML file, or all those of a folder and the folders in it. */
export async function readApplications(path: string, references: References): Promise<ReadDocument[]> {
  const files = (await stat(path)).isDirectory() ? await yamlFiles(path) : [path];
  if (files.length === 0) throw inFile(path, 'there is no .yaml or .yml file in this folder');
  const documents: ReadDocument[] = [];
  for (const file of files) {
    for (const written of await readValues(file)) {
      const document = told(file, () => validate(ApplicationDocument, references.resolve(written)));
      documents.push({ file, document, written });
    }
  }
  refuseRepeated(documents);
  return documents;
}

/** Any YAML or JSON file with one value; references in it are resolved, unless it holds nothing but data. */
export async function readValue(file: string, references?: References): Promise<unknown> {
  const [value, ...others] = await readValues(file);
  if (value === undefined) throw inFile(file, 'it is empty');
  if (others.length > 0) throw inFile(file, 'it must hold one document, not several');
  return references ? told(file, () => references.resolve(value)) : value;
}

/** An error of the work names the file. */
export async function whileReading<Result>(file: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof ServiceError ? inFile(file, error.message, error) : error;
  }
}

async function readValues(file: string): Promise<unknown[]> {
  const text = await readFile(file, 'utf8');
  return parseAllDocuments(text).flatMap((document) => {
    // A warning is about what would be read as something else: an unknown tag.
    const [fault] = [...document.errors, ...document.warnings];
    if (fault) throw inFile(file, fault.message.trimEnd(), fault);
    const value = toValue(document, file);
    return value === null ? [] : [value];
  });
}

function toValue(document: { toJS(options: { maxAliasCount: number }): unknown }, file: string): unknown {
  try {
    const value = document.toJS({ maxAliasCount: 100 });
    JSON.stringify(value); // refuses an alias that stands inside of what it stands for
    return value;
  } catch (cause) {
    throw inFile(file, (cause as Error).message, cause);
  }
}

/** Else the last one would win, and each time anew there would be a change. */
function refuseRepeated(documents: readonly ReadDocument[]): void {
  const seen = new Map<string, string>();
  for (const { file, document } of documents) {
    const { application, name, sources, models, variables, requests, scenarios, schedules } = document;
    const defined = [
      ...(name === undefined ? [] : ['name']),
      ...sources.map((source) => `source "${source.name}"`),
      ...models.map((model) => `model "${model.name}"`),
      ...Object.keys(variables).map((variable) => `variable "${variable}"`),
      ...requests.map((request) => `request "${request.name}"`),
      ...scenarios.map((scenario) => `scenario "${scenario.name}"`),
      ...schedules.map((schedule) => `schedule "${schedule.name}"`),
    ];
    for (const what of defined) {
      const key = `${application}: ${what}`;
      const before = seen.get(key);
      if (before !== undefined)
        throw inFile(file, `the ${what} of the application "${application}" is in ${before}, too`);
      seen.set(key, file);
    }
  }
}

async function yamlFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && /\.ya?ml$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
}

function told<Result>(file: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw error instanceof ServiceError ? inFile(file, error.message, error) : error;
  }
}

function inFile(file: string, problem: string, cause?: unknown): ServiceError {
  return new ServiceError('invalid_request', `${file}: ${problem}`, cause === undefined ? {} : { cause });
}
