import { readFile, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { ApplicationDocument } from '../model/application-document.ts';
import { ServiceError } from '../model/errors.ts';
import { validate } from '../model/validate.ts';

/** A value that is nothing but a reference is taken from the environment; `${…}` inside a script is the script's. */
const REFERENCE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/;

/** Reads a YAML file, or all those of a folder and the folders in it. */
export async function readApplications(
  path: string,
  environment: NodeJS.ProcessEnv,
): Promise<ApplicationDocument[]> {
  const files = (await stat(path)).isDirectory() ? await yamlFiles(path) : [path];
  if (files.length === 0) throw wrong(path, 'there is no .yaml or .yml file in this folder');
  const documents: ApplicationDocument[] = [];
  for (const file of files) documents.push(...parse(await readFile(file, 'utf8'), file, environment));
  return documents;
}

/** Any YAML or JSON file with one value, its references resolved. */
export async function readValue(file: string, environment: NodeJS.ProcessEnv): Promise<unknown> {
  const [first] = values(await readFile(file, 'utf8'), file, environment);
  return first;
}

function parse(text: string, file: string, environment: NodeJS.ProcessEnv): ApplicationDocument[] {
  return values(text, file, environment).map((value) => {
    try {
      return validate(ApplicationDocument, value);
    } catch (error) {
      throw error instanceof ServiceError ? wrong(file, error.message) : error;
    }
  });
}

function values(text: string, file: string, environment: NodeJS.ProcessEnv): unknown[] {
  return parseAllDocuments(text).flatMap((document) => {
    const [fault] = document.errors;
    if (fault) throw wrong(file, fault.message);
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    return value === null ? [] : [resolved(value, file, '', environment)];
  });
}

function resolved(value: unknown, file: string, path: string, environment: NodeJS.ProcessEnv): unknown {
  if (typeof value === 'string') {
    const name = REFERENCE.exec(value)?.[1];
    if (name === undefined) return value;
    const found = environment[name];
    if (found === undefined) throw wrong(file, `${path}: the environment variable ${name} is not set`);
    return found;
  }
  if (Array.isArray(value)) {
    return value.map((item, index) => resolved(item, file, `${path}[${index}]`, environment));
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => {
    const below = path === '' ? key : `${path}.${key}`;
    return [key, resolved(item, file, below, environment)];
  });
  return Object.fromEntries(entries);
}

async function yamlFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && /\.ya?ml$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
}

function wrong(place: string, problem: string): ServiceError {
  return new ServiceError('invalid_request', `${place}: ${problem}`);
}
