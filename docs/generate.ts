/**
 * Makes the reference and the JSON Schema of application files from the schemas that the service itself validates by.
 * `node docs/generate.ts` writes them, with `--check` it only says what is out of date, and ends with 1 then.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { applicationSchema } from '../src/cli/commands/schema.ts';
import { reference } from './generator/reference.ts';

export interface GeneratedFile {
  path: string;
  text: string;
}

export async function generate(): Promise<GeneratedFile[]> {
  const texts = {
    'reference.md': reference(),
    'schema/application.schema.json': JSON.stringify(applicationSchema()),
  };
  return Promise.all(
    Object.entries(texts).map(async ([name, text]) => {
      const path = join(import.meta.dirname, name);
      const options = await resolveConfig(path);
      return { path, text: await format(text, { ...options, filepath: path }) };
    }),
  );
}

/** The paths of the files that are missing or not as they would be made now. */
export async function outOfDate(files: readonly GeneratedFile[]): Promise<string[]> {
  const found = await Promise.all(
    files.map(async ({ path, text }) => ((await readIfThere(path)) === text ? [] : [path])),
  );
  return found.flat().map((path) => relative(process.cwd(), path));
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

if (import.meta.main) {
  const files = await generate();
  if (process.argv.includes('--check')) {
    const old = await outOfDate(files);
    for (const path of old) console.error(`${path} is out of date; run: node docs/generate.ts`);
    process.exitCode = old.length > 0 ? 1 : 0;
  } else {
    for (const { path, text } of files) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
  }
}
