import assert from 'node:assert/strict';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test, type TestContext } from 'node:test';
import { fileError, fileStoreConformance, namesIn, save, textOf } from '../conformance.ts';
import { ASIDE } from '../file-names.ts';
import { openFolder } from './folder.ts';

const file = { space: 'out', name: 'big.bin' };

async function place(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-files-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a module that has `openFolder`, `root` and `file`, with these commands before node's own. */
function script(root: string, text: string, before: string[] = []): ChildProcess {
  const module = JSON.stringify(join(import.meta.dirname, 'folder.ts'));
  const lines = [
    `import { openFolder } from ${module};`,
    `const root = ${JSON.stringify(root)};`,
    `const file = ${JSON.stringify(file)};`,
    text,
  ];
  const inNode = [process.execPath, '--input-type=module', '-e', lines.join('\n')];
  const [command, ...args] = [...before, ...inNode] as [string, ...string[]];
  return spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function outputOf(child: ChildProcess): Promise<string> {
  let output = '';
  child.stdout?.on('data', (chunk) => (output += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  assert.equal(code, 0, output);
  return output.trim();
}

fileStoreConformance('a folder', async (t) => openFolder(join(await place(t), 'files')));

describe('A folder: links and other things in it', () => {
  async function folderWithLinks(t: TestContext) {
    const folder = await place(t);
    const [root, outside] = [join(folder, 'files'), join(folder, 'outside')];
    const store = await openFolder(root);
    await mkdir(outside);
    await writeFile(join(outside, 'secret'), 'secret');
    await symlink(join(outside, 'secret'), join(root, 'link'));
    await symlink(outside, join(root, 'exit'));
    await symlink('out/../../outside/secret', join(root, 'winding'));
    await mkdir(join(root, 'out'));
    return { root, outside, store };
  }

  test('nothing is read, written, listed or deleted through a link that leads out', async (t) => {
    const { store, outside } = await folderWithLinks(t);
    for (const name of ['link', 'winding']) {
      const link = { space: '', name };
      const expected = fileError('outside', /symbolic link that leads out/);
      await assert.rejects(store.open(link), expected);
      await assert.rejects(store.stat(link), expected);
      await assert.rejects(store.create(link), expected);
      await assert.rejects(store.delete(link), expected);
    }
    const through = { space: 'exit', name: 'secret' };
    await assert.rejects(store.open(through), fileError('outside', /the space "exit"/));
    await assert.rejects(store.create(through), fileError('outside'));
    await assert.rejects(store.delete(through), fileError('outside'));
    await assert.rejects(store.list({ space: 'exit', limit: 10 }), fileError('outside'));
    assert.deepEqual(await namesIn(store), ['out/']);
    assert.deepEqual(await readdir(outside), ['secret']);
    assert.equal(await readFile(join(outside, 'secret'), 'utf8'), 'secret');
  });

  test('a link that is put in the way while a file is written does not lead it out', async (t) => {
    const { store, root, outside } = await folderWithLinks(t);
    const writer = await store.create({ space: 'later', name: 'secret' });
    await writer.write(Buffer.from('x'));
    await symlink(outside, join(root, 'later'));
    await assert.rejects(writer.commit(), fileError('outside'));
    assert.deepEqual(await readdir(outside), ['secret']);
    assert.deepEqual(await readdir(join(root, ASIDE)), []);
  });

  test('links inside work; a saved file takes the place of the link', async (t) => {
    const { store, root } = await folderWithLinks(t);
    await save(store, { space: 'a', name: 'one' }, 'one');
    await symlink('a', join(root, 'b'));
    await symlink('a/one', join(root, 'uno'));
    const uno = { space: '', name: 'uno' };
    assert.equal(await textOf(store, { space: 'b', name: 'one' }), 'one');
    assert.equal(await textOf(store, uno), 'one');
    assert.deepEqual(await namesIn(store), ['a/', 'b/', 'out/', 'uno']);
    await save(store, uno, 'two');
    assert.equal(await textOf(store, uno), 'two');
    assert.equal(await textOf(store, { space: 'a', name: 'one' }), 'one');
  });

  test('links to themselves, into the folder aside, and in another case', async (t) => {
    const { store, root } = await folderWithLinks(t);
    await symlink('loop', join(root, 'loop'));
    await symlink(ASIDE, join(root, 'being-written'));
    await save(store, { space: '', name: 'a.txt' }, 'x');
    await symlink('a.txt', join(root, 'A.txt'));
    await assert.rejects(store.open({ space: '', name: 'loop' }), fileError('outside'));
    await assert.rejects(store.list({ space: 'being-written', limit: 1 }), fileError('outside'));
    await assert.rejects(
      store.create({ space: '', name: 'A.txt' }),
      fileError('name', /only in case from "a.txt"/),
    );
    assert.deepEqual(await namesIn(store), ['a.txt', 'out/']);
  });

  test('a named pipe is no file, and nobody waits for it', { timeout: 10_000 }, async (t) => {
    const { store, root } = await folderWithLinks(t);
    assert.equal(spawnSync('mkfifo', [join(root, 'pipe')]).status, 0);
    await assert.rejects(store.open({ space: '', name: 'pipe' }), fileError('not_a_file'));
    assert.deepEqual(await namesIn(store), ['out/']);
  });

  test('a file in the form that another system wrote is found as it is', async (t) => {
    const { store, root } = await folderWithLinks(t);
    await writeFile(join(root, 'e\u0301'), 'decomposed');
    assert.equal(await textOf(store, { space: '', name: 'e\u0301' }), 'decomposed');
    await save(store, { space: '', name: 'e\u0301' }, 'again');
    assert.deepEqual(
      (await readdir(root)).filter((name) => name.normalize('NFC') === '\u00e9'),
      ['e\u0301'],
    );
  });

  test('names that nobody could ask for are not listed', async (t) => {
    const { store, root } = await folderWithLinks(t);
    await writeFile(join(root, 'a\nb'), '');
    await writeFile(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x66, 0xff])]), '');
    assert.deepEqual(await namesIn(store), ['out/']);
  });
});

describe('A folder: the machine', () => {
  test('files are 0600 and folders 0700', async (t) => {
    const root = join(await place(t), 'files');
    const store = await openFolder(root);
    await save(store, { space: 'a/b', name: 'c' }, 'x');
    const mode = async (path: string) => ((await stat(join(root, path))).mode & 0o777).toString(8);
    assert.deepEqual(await Promise.all(['', ASIDE, 'a', 'a/b', 'a/b/c'].map(mode)), [
      '700',
      '700',
      '700',
      '700',
      '600',
    ]);
  });

  test('a folder that may not be written to', { timeout: 30_000 }, async (t) => {
    const child = script(
      join(await place(t), 'files'),
      `import { chmodSync } from 'node:fs';
       const store = await openFolder(root);
       chmodSync(root + '/${ASIDE}', 0o500);
       if (process.getuid() === 0) process.setuid(65_534); // root may do everything
       await store.create(file).catch((error) => console.log(error.kind, error.transient));`,
    );
    assert.equal(await outputOf(child), 'denied false');
  });

  test('a root that is gone is an error without the path of the machine', async (t) => {
    const root = join(await place(t), 'files');
    const store = await openFolder(root);
    await rm(root, { recursive: true });
    await assert.rejects(store.create(file), (error) => {
      assert.ok(fileError('unavailable', /^creating the file "big.bin" in the space "out"/)(error));
      return !(error as Error).message.includes(root);
    });
  });

  test('SIGKILL in mid-write leaves the old file; the leftover is swept', { timeout: 30_000 }, async (t) => {
    const root = join(await place(t), 'files');
    const store = await openFolder(root);
    await save(store, file, 'old');
    const child = script(
      root,
      `const writer = await (await openFolder(root)).create(file);
       for (let n = 0; ; n += 1) {
         await writer.write(Buffer.alloc(65_536, n));
         if (n === 50) console.log('under way');
       }`,
    );
    assert.ok(child.stdout);
    await once(createInterface({ input: child.stdout }), 'line');
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal(await textOf(store, file), 'old');
    const [leftover = ''] = await readdir(join(root, ASIDE));
    assert.ok((await stat(join(root, ASIDE, leftover))).size > 50 * 65_536);
    assert.equal(await store.sweep(60_000), 0);
    assert.equal(await store.sweep(0), 1);
    assert.deepEqual(await readdir(join(root, ASIDE)), []);
    assert.equal(await textOf(store, file), 'old');
  });

  const tmpfs = ['unshare', '-rm', 'sh', '-c'];
  const canMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

  test('a full disk', { skip: !canMount && 'no tmpfs can be mounted here', timeout: 30_000 }, async (t) => {
    const root = await place(t);
    const mount = 'mount -t tmpfs -o size=2m none "$1"; shift; exec "$@"';
    const child = script(
      root,
      `const store = await openFolder(root);
       const writer = await store.create(file);
       let failure;
       for (let n = 0; n < 100 && !failure; n += 1) {
         await writer.write(Buffer.alloc(65_536)).catch((error) => (failure = error));
       }
       const again = await store.create(file);
       await again.write(Buffer.alloc(1_000_000));
       const { bytes } = await again.commit();
       console.log(JSON.stringify([failure.kind, failure.transient, failure.message, writer.bytes, bytes]));`,
      [...tmpfs, mount, 'sh', root],
    );
    const [kind, transient, message, written, bytes] = JSON.parse(await outputOf(child)) as unknown[];
    assert.deepEqual([kind, transient, bytes], ['full', true, 1_000_000]);
    assert.equal(message, 'writing the file "big.bin" in the space "out": the disk is full');
    assert.ok(Number(written) > 1_500_000 && Number(written) < 2_200_000);
  });

  test('300 MB through a slow reader in constant memory', { timeout: 120_000 }, async (t) => {
    const root = join(await place(t), 'files');
    const child = script(
      root,
      `const store = await openFolder(root);
       const memory = () => Math.round(process.resourceUsage().maxRSS / 1024);
       const before = memory();
       const writer = await store.create(file);
       for (let n = 0; n < 4800; n += 1) await writer.write(Buffer.alloc(65_536, n));
       const { bytes } = await writer.commit();
       let [read, chunks] = [0, 0];
       for await (const chunk of (await store.open(file)).stream()) {
         read += chunk.length;
         chunks += 1;
         if (chunks % 16 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
       }
       console.log(JSON.stringify([bytes, read, memory() - before]));`,
    );
    const [bytes, read, grownMb] = JSON.parse(await outputOf(child)) as number[];
    assert.deepEqual([bytes, read], [4800 * 65_536, 4800 * 65_536]);
    assert.ok((grownMb ?? Infinity) < 100, `the process grew by ${grownMb} MB`);
    t.diagnostic(`the process grew by ${grownMb} MB`);
  });
});
