import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { InitMeta } from './protocol.ts';

let sources: Promise<InitMeta['sources']> | undefined;

/** The code that runs inside each isolate before a script, read once. A sandbox process cannot read it itself. */
export function sandboxSources(): Promise<InitMeta['sources']> {
  sources ??= readSources();
  return sources;
}

async function readSources(): Promise<InitMeta['sources']> {
  const folder = new URL('./guest/', import.meta.url);
  const names = (await readdir(folder)).filter((name) => name.endsWith('.js'));
  const texts = await Promise.all(names.map((name) => readFile(new URL(name, folder), 'utf8')));
  const underscore = createRequire(import.meta.url).resolve('underscore/underscore-min.js');
  return {
    modules: Object.fromEntries(names.map((name, n) => [name, texts[n] as string])),
    underscore: await readFile(underscore, 'utf8'),
  };
}
