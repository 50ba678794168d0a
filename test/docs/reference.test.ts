import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { generate, outOfDate } from '../../docs/generate.ts';
import { errorCodes } from '../../src/model/errors.ts';
import { jobStates } from '../../src/model/job.ts';
import { settingDescriptions } from '../../src/settings.ts';

describe('Reference', () => {
  test('is as docs/generate.ts makes it', async () => {
    assert.deepEqual(await outOfDate(await generate()), [], 'run: node docs/generate.ts');
  });

  test('the comparison notices a change', async () => {
    const files = (await generate()).map(({ path, text }) => ({ path, text: `${text} ` }));
    assert.equal((await outOfDate(files)).length, 2);
    const nowhere = [{ path: join(import.meta.dirname, 'none.md'), text: '' }];
    assert.equal((await outOfDate(nowhere)).length, 1);
  });

  test('names every error code, setting and state', async () => {
    const text = await readFile(join(import.meta.dirname, '../../docs/reference.md'), 'utf8');
    const names = [...Object.keys(errorCodes), ...settingDescriptions.map(({ name }) => name), ...jobStates];
    for (const name of names) assert.ok(text.includes(`| \`${name}\``), name);
  });
});
