import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { globSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { parseSync } from 'oxc-parser';

const SOURCE = join(import.meta.dirname, '../src');

/** The rooms, lowest layer first; a room imports only from layers below its own. */
const layers: readonly (readonly string[])[] = [
  ['model'],
  ['settings.ts', 'database'],
  ['tables', 'files', 'http', 'scripting', 'system'],
  ['operations'],
  ['jobs', 'oauth2'],
  ['api'],
  ['cli'],
  ['application-data.ts'],
  ['stores.ts'],
  ['engine.ts'],
  ['service.ts'],
  ['main.ts'],
];
/** Rooms of one layer that may import each other all the same. */
const neighbours = [['jobs', 'operations']];
/** The only places that know which adapters there are. */
const WIRING = ['engine.ts', 'stores.ts'];

interface Import {
  from: string;
  to: string;
}

async function importsOf(file: string): Promise<Import[]> {
  const { module, errors } = parseSync(file, await readFile(file, 'utf8'));
  assert.deepEqual(errors, []);
  const specifiers = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? []),
    ),
  ];
  return specifiers
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => ({
      from: relative(SOURCE, file),
      to: relative(SOURCE, join(dirname(file), specifier)),
    }));
}

const room = (file: string) => file.split('/')[0] as string;
const layerOf = (file: string) => layers.findIndex((rooms) => rooms.includes(room(file)));

describe('Architecture', () => {
  const files = globSync(`${SOURCE}/**/*.ts`).filter(
    (file) => !file.endsWith('.test.ts') && !file.endsWith('.d.ts'),
  );

  test('the test sees the files', () => {
    assert.ok(files.length >= 50, `only ${files.length} files were seen`);
  });

  test('every file stands in a room with a layer', () => {
    for (const file of files) assert.notEqual(layerOf(relative(SOURCE, file)), -1, relative(SOURCE, file));
  });

  test('imports point to lower layers, or stay in their room', async () => {
    for (const { from, to } of (await Promise.all(files.map(importsOf))).flat()) {
      const neighbourly = neighbours.some(([a, b]) => room(from) === a && room(to) === b);
      const allowed = room(from) === room(to) || layerOf(to) < layerOf(from) || neighbourly;
      assert.ok(allowed, `${from} imports ${to}`);
      assert.ok(!to.startsWith('..'), `${from} imports ${to}, outside of src`);
    }
  });

  test('adapters are imported by the wiring and by each other only', async () => {
    const isAdapter = (file: string) => file.includes('/adapters/');
    let seen = 0;
    for (const { from, to } of (await Promise.all(files.map(importsOf))).flat()) {
      if (!isAdapter(to)) continue;
      assert.ok(WIRING.includes(from) || isAdapter(from), `${from} imports ${to}`);
      seen += 1;
    }
    assert.ok(seen >= 2);
  });
});
