import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { FileError, type FileErrorKind } from './file-error.ts';
import { MAX_LIST_LIMIT, type FileName, type FileStore } from './file-store.ts';

/** For `assert.rejects`. */
export function fileError(kind: FileErrorKind, message?: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof FileError, String(error));
    assert.equal(error.kind, kind, error.message);
    if (message) assert.match(error.message, message);
    return true;
  };
}

export async function save(store: FileStore, file: FileName, ...chunks: string[]) {
  const writer = await store.create(file);
  for (const chunk of chunks) await writer.write(Buffer.from(chunk));
  return writer.commit();
}

export async function textOf(store: FileStore, file: FileName): Promise<string> {
  const { stream } = await store.open(file);
  return collected(stream());
}

async function collected(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** Folders with a slash at their end. */
export async function namesIn(store: FileStore, space?: string): Promise<string[]> {
  const { entries } = await store.list({ limit: MAX_LIST_LIMIT, ...(space === undefined ? {} : { space }) });
  return entries.map(({ kind, name }) => (kind === 'folder' ? `${name}/` : name));
}

type Open = (t: TestContext) => Promise<FileStore>;

const report = { space: 'reports/2026', name: 'orders.csv' };

/** What every adapter of FileStore must do. `open` gives an empty store that is gone after the test. */
export function fileStoreConformance(adapter: string, open: Open): void {
  describe(`${adapter}: saving and reading`, () => savingAndReading(open));
  describe(`${adapter}: replacing and deleting`, () => replacingAndDeleting(open));
  describe(`${adapter}: names that are refused`, () => refusedNames(open));
  describe(`${adapter}: names that are fine`, () => fineNames(open));
  describe(`${adapter}: lists and leftovers`, () => listsAndLeftovers(open));
}

function savingAndReading(open: Open): void {
  test('a file is written in chunks and read as often as wanted', async (t) => {
    const store = await open(t);
    const saved = await save(store, report, 'id\n', '', '1\n', 'ä\n');
    const sha256 = createHash('sha256').update('id\n1\nä\n').digest('hex');
    assert.deepEqual(saved, { bytes: 8, sha256 });
    const opened = await store.open(report);
    assert.equal(opened.size, 8);
    assert.equal(await collected(opened.stream()), 'id\n1\nä\n');
    assert.equal(await collected(opened.stream()), 'id\n1\nä\n');
  });

  test('an empty file is a file', async (t) => {
    const store = await open(t);
    assert.equal((await save(store, report)).bytes, 0);
    assert.equal(await textOf(store, report), '');
    assert.equal((await store.stat(report))?.size, 0);
  });

  test('nobody sees a file before its commit, and then all of it', async (t) => {
    const store = await open(t);
    const writer = await store.create(report);
    await writer.write(Buffer.from('half'));
    assert.equal(writer.bytes, 4);
    assert.equal(await store.stat(report), null);
    assert.deepEqual(await namesIn(store), []);
    await assert.rejects(
      store.open(report),
      fileError('not_found', /"orders.csv" in the space "reports\/2026"/),
    );
    await writer.write(Buffer.from(' and half'));
    await writer.commit();
    assert.equal(await textOf(store, report), 'half and half');
  });

  test('an abort leaves nothing, may be repeated, and ends the writer', async (t) => {
    const store = await open(t);
    await save(store, report, 'old');
    const writer = await store.create(report);
    await writer.write(Buffer.from('new'));
    await writer.abort();
    await writer.abort();
    assert.equal(await textOf(store, report), 'old');
    await assert.rejects(writer.write(Buffer.from('x')), fileError('closed'));
    await assert.rejects(writer.commit(), fileError('closed'));
    assert.equal(await store.sweep(0), 0);
  });

  test('an abort after the commit changes nothing; a second commit is an error', async (t) => {
    const store = await open(t);
    const writer = await store.create(report);
    await writer.commit();
    await writer.abort();
    await assert.rejects(writer.commit(), fileError('closed'));
    assert.deepEqual(await namesIn(store, report.space), ['orders.csv']);
  });
}

function replacingAndDeleting(open: Open): void {
  test('the next file of the name replaces it at its commit', async (t) => {
    const store = await open(t);
    await save(store, report, 'a long first text');
    const [second, third] = [await store.create(report), await store.create(report)];
    await second.write(Buffer.from('second'));
    await third.write(Buffer.from('third'));
    assert.equal(await textOf(store, report), 'a long first text');
    await third.commit();
    await second.commit();
    assert.equal(await textOf(store, report), 'second');
  });

  test('a file that is replaced while it is read is an error, never a mixture', async (t) => {
    const store = await open(t);
    await save(store, report, 'x'.repeat(300_000));
    const opened = await store.open(report);
    const reader = opened.stream()[Symbol.asyncIterator]();
    await reader.next();
    await save(store, report, 'y'.repeat(300_000));
    await assert.rejects(collected(opened.stream()), fileError('changed', /orders\.csv/));
    const rest = await collected({ [Symbol.asyncIterator]: () => reader }).catch((error: unknown) => error);
    if (typeof rest === 'string') assert.match(rest, /^x*$/);
    else assert.ok(fileError('changed')(rest));
  });

  test('writes do not overlap', async (t) => {
    const store = await open(t);
    const writer = await store.create(report);
    const first = writer.write(Buffer.alloc(1_000_000));
    await assert.rejects(writer.write(Buffer.from('x')), fileError('closed', /has not ended/));
    await first;
    await writer.abort();
  });

  test('delete tells whether there was such a file', async (t) => {
    const store = await open(t);
    await save(store, report, 'x');
    assert.equal(await store.delete(report), true);
    assert.equal(await store.delete(report), false);
    assert.equal(await store.delete({ space: 'nowhere', name: 'x' }), false);
    assert.equal(await store.stat(report), null);
  });
}

function refusedNames(open: Open): void {
  const refused: [string, FileName, RegExp][] = [
    ['..', { space: '', name: '..' }, /^the name ".." would lead to another folder$/],
    ['.', { space: '', name: '.' }, /another folder/],
    ['slash in the name', { space: '', name: '../x' }, /^the name "..\/x" has a slash; folders belong/],
    ['empty name', { space: '', name: '' }, /^the name "" is empty$/],
    ['.. in the space', { space: 'a/../../b', name: 'x' }, /^the space .* has the part "..", which/],
    ['absolute space', { space: '/etc', name: 'passwd' }, /^the space "\/etc" begins with a slash/],
    ['empty part', { space: 'a//b', name: 'x' }, /the part "", which is empty/],
    ['slash at the end', { space: 'a/', name: 'x' }, /the part "", which is empty/],
    ['backslash', { space: '', name: '..\\x' }, /backslash/],
    ['backslash in the space', { space: 'a\\b', name: 'x' }, /^the space .* backslash/],
    ['NUL', { space: '', name: 'a\0b' }, /U\+0000/],
    ['newline', { space: '', name: 'a\nb' }, /U\+000A/],
    ['C1 control character', { space: 'a\u0085b', name: 'x' }, /U\+0085/],
    ['lone surrogate', { space: '', name: 'a\ud800' }, /lone surrogate/],
    ['256 bytes', { space: '', name: 'ä'.repeat(128) }, /is 256 bytes long in UTF-8; 255 are allowed/],
    ['longer once composed', { space: '', name: '\u0958'.repeat(43) }, /is 258 bytes long/],
    ['long space', { space: Array(8).fill('a'.repeat(200)).join('/'), name: 'x' }, /1024 are allowed/],
    ['deep space', { space: Array(17).fill('a').join('/'), name: 'x' }, /17 folders deep; 16 are/],
    ['the folder aside', { space: '.millrace-aside', name: 'x' }, /reserved/],
    ['the folder aside in capitals', { space: '', name: '.Millrace-ASIDE' }, /reserved/],
  ];
  for (const [what, file, message] of refused) {
    test(`refused everywhere: ${what}`, async (t) => {
      const store = await open(t);
      const expected = fileError('name', message);
      await assert.rejects(store.create(file), expected);
      await assert.rejects(store.open(file), expected);
      await assert.rejects(store.stat(file), expected);
      await assert.rejects(store.delete(file), expected);
      if (message.source.startsWith('^the space')) {
        await assert.rejects(store.list({ space: file.space, limit: 1 }), expected);
      }
      assert.deepEqual(await namesIn(store), []);
    });
  }
}

function fineNames(open: Open): void {
  test('odd names', async (t) => {
    const store = await open(t);
    const names = [
      ' ',
      '...',
      '-rf',
      '$(x)',
      'a:b',
      "'",
      '"',
      '%2e%2e',
      'ä'.repeat(127),
      '😀.csv',
      '.hidden',
    ];
    for (const name of names) await save(store, { space: name, name }, name);
    for (const name of names) assert.equal(await textOf(store, { space: name, name }), name);
    assert.deepEqual((await namesIn(store)).toSorted(), names.map((name) => `${name}/`).toSorted());
  });

  test('both forms of an accent are the same name; case is not folded in silence', async (t) => {
    const store = await open(t);
    await save(store, { space: 'Zoe\u0308', name: 'e\u0301.txt' }, 'accent');
    assert.equal(await textOf(store, { space: 'Zo\u00eb', name: '\u00e9.txt' }), 'accent');
    assert.equal(await textOf(store, { space: 'Zoe\u0308', name: 'e\u0301.txt' }), 'accent');
    assert.deepEqual(await namesIn(store, 'Zo\u00eb'), ['\u00e9.txt']);
    await save(store, { space: '', name: 'a.txt' }, 'small');
    const capital = await save(store, { space: '', name: 'A.txt' }, 'capital').catch(
      (error: unknown) => error,
    );
    if (capital instanceof Error) assert.ok(fileError('name', /differs only in case/)(capital));
    assert.equal(await textOf(store, { space: '', name: 'a.txt' }), 'small');
  });

  test('a folder is no file, and a file is no folder', async (t) => {
    const store = await open(t);
    await save(store, report, 'x');
    const folder = { space: '', name: 'reports' };
    await assert.rejects(store.create(folder), fileError('not_a_file', /"reports" is a folder/));
    await assert.rejects(store.open(folder), fileError('not_a_file'));
    await assert.rejects(store.delete(folder), fileError('not_a_file'));
    const inFile = { space: 'reports/2026/orders.csv', name: 'x' };
    await assert.rejects(store.create(inFile), fileError('not_a_folder', /"orders.csv" is a file/));
    await assert.rejects(store.list({ space: inFile.space, limit: 1 }), fileError('not_a_folder'));
  });
}

function listsAndLeftovers(open: Open): void {
  test('in pages, by name, files and folders, each once', async (t) => {
    const store = await open(t);
    const names = Array.from({ length: 25 }, (_, index) => `file-${String(index).padStart(2, '0')}`);
    for (const name of names.toReversed()) await save(store, { space: 's', name }, name);
    await save(store, { space: 's/file-05b', name: 'inner' }, 'x');
    const seen: string[] = [];
    let after: string | null = null;
    do {
      const page = await store.list({ space: 's', after, limit: 10 });
      assert.ok(page.entries.length <= 10);
      seen.push(...page.entries.map(({ name }) => name));
      after = page.next;
    } while (after !== null);
    assert.deepEqual(seen, [...names, 'file-05b'].toSorted());
    const { entries } = await store.list({ space: 's', limit: 1 });
    const [first] = entries;
    assert.ok(first?.kind === 'file');
    assert.equal(first.size, 7);
    assert.deepEqual(await store.stat({ space: 's', name: 'file-00' }), {
      space: 's',
      name: 'file-00',
      size: 7,
      modifiedAt: first.modifiedAt,
    });
  });

  test('only names with a prefix, in pages, too', async (t) => {
    const store = await open(t);
    const names = ['a-1', 'a-2', 'a-3', 'A-4', 'b-5', '\u00e9-6'];
    for (const name of names) await save(store, { space: 's', name }, name);
    await save(store, { space: 's/a-folder', name: 'x' }, 'x');
    const listed = async (prefix: string, after: string | null = null) => {
      const { entries, next } = await store.list({ space: 's', prefix, after, limit: 2 });
      return [entries.map(({ name }) => name), next];
    };
    assert.deepEqual(await listed('a-'), [['a-1', 'a-2'], 'a-2']);
    assert.deepEqual(await listed('a-', 'a-2'), [['a-3', 'a-folder'], null]);
    assert.deepEqual(await listed('e\u0301'), [['\u00e9-6'], null]);
    assert.deepEqual(await listed('c'), [[], null]);
  });

  test('an exact last page has no next; an unknown space is empty; limits are checked', async (t) => {
    const store = await open(t);
    await save(store, { space: '', name: 'a' }, 'x');
    assert.equal((await store.list({ limit: 1 })).next, null);
    assert.deepEqual(await store.list({ space: 'nowhere', limit: 1 }), { entries: [], next: null });
    for (const limit of [0, 1.5, Number.NaN, MAX_LIST_LIMIT + 1]) {
      await assert.rejects(store.list({ limit }), fileError('option', /limit must be/));
    }
  });

  test('a sweep leaves the living writers and the files alone', async (t) => {
    const store = await open(t);
    await save(store, report, 'x');
    const writer = await store.create(report);
    await writer.write(Buffer.from('slow'));
    assert.equal(await store.sweep(0), 0);
    await writer.commit();
    assert.equal(await textOf(store, report), 'slow');
    await assert.rejects(store.sweep(Number.NaN), fileError('option', /olderThanMs/));
  });
}
