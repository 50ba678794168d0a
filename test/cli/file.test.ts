import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { commandLinePlace } from '../support/command-line-place.ts';
import { spawnService } from '../support/service-process.ts';

describe('Command line: file', () => {
  test('put, list and get, while a service runs, too', async (t) => {
    const { run, data } = await commandLinePlace(t);
    await spawnService(t, { data });
    const bytes = randomBytes(200_000);
    const here = join(data, 'here.bin');
    await writeFile(here, bytes);
    const put = await run('file', 'put', 'shop', 'files', 'exports/2025/there.bin', '--from', here);
    assert.deepEqual([put.code, put.stdout, put.stderr], [0, '', '']);
    assert.match(
      (await run('file', 'list', 'shop', 'files')).stdout,
      /^SIZE +MODIFIED +NAME\n +exports\/\n$/,
    );
    const listed = await run('file', 'list', 'shop', 'files', 'exports/2025', '--json');
    const [{ modifiedAt, ...entry }] = JSON.parse(listed.stdout) as [Record<string, unknown>];
    assert.deepEqual(entry, { kind: 'file', space: 'exports/2025', name: 'there.bin', size: bytes.length });
    assert.ok(Date.parse(String(modifiedAt)) > 0);
    const back = join(data, 'back.bin');
    const got = await run('file', 'get', 'shop', 'files', 'exports/2025/there.bin', '--to', back);
    assert.deepEqual([got.code, got.stderr], [0, '']);
    assert.deepEqual(await readFile(back), bytes);
  });

  test('wrong names say what is wrong', async (t) => {
    const { run } = await commandLinePlace(t);
    const cases: [string[], number, RegExp][] = [
      [['list', 'shp', 'files'], 1, /there is no application "shp"/],
      [['list', 'shop', 'fils'], 1, /there is no FileSource "fils"\. Did you mean "files"/],
      [['get', 'shop', 'files', 'none'], 1, /^millrace: the file "none" does not exist$/m],
      [['get', 'shop', 'files', '../x'], 1, /^millrace: the space "\.\." would lead to another folder$/m],
      [['put', 'shop', 'files', 'x'], 2, /--from is missing/],
      [['put', 'shop', 'files', 'x', '--from', '/nowhere/x'], 1, /ENOENT/],
    ];
    for (const [args, exit, says] of cases) {
      const { code, stdout, stderr } = await run('file', ...args);
      assert.deepEqual([code, stdout], [exit, ''], stderr);
      assert.match(stderr, says);
      assert.doesNotMatch(stderr, /^ +at /m);
    }
  });
});
