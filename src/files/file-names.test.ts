import assert from 'node:assert/strict';
import { posix } from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { FileError } from './file-error.ts';
import { checkFileName, checkSpace, numberedName } from './file-names.ts';

describe('Names of files', () => {
  test('numbers stand before the extension', () => {
    const cases: [string, number, string][] = [
      ['report.csv', 1, 'report.csv'],
      ['report.csv', 2, 'report-2.csv'],
      ['archive.tar.gz', 3, 'archive-3.tar.gz'],
      ['orders.csv.zst', 10, 'orders-10.csv.zst'],
      ['data.2024.csv', 2, 'data.2024-2.csv'],
      ['v1.2.gz', 2, 'v1.2-2.gz'],
      ['noext', 2, 'noext-2'],
      ['.env', 2, '.env-2'],
      ['ends.', 2, 'ends.-2'],
      ['1.5 million', 2, '1.5 million-2'],
      ['Ä.json', 12345, 'Ä-12345.json'],
    ];
    for (const [name, number, expected] of cases) assert.equal(numberedName(name, number), expected);
  });

  test('a long name is cut between characters to make room', () => {
    const numbered = numberedName(`${'👨‍👩‍👧'.repeat(13)}abcdefg.csv`, 100);
    assert.equal(numbered, `${'👨‍👩‍👧'.repeat(13)}abcd-100.csv`.replace('abcd', 'abcdefg'));
    const full = `${'ä'.repeat(125)}x.csv`;
    assert.equal(Buffer.byteLength(full), 255);
    assert.equal(numberedName(full, 2), `${'ä'.repeat(124)}-2.csv`);
  });

  const part = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.constantFrom('..', '.', '', '/', '\\', '\0', 'a', '.millrace-aside', '\u2024\u2024', '..\u200b'),
  );

  test('whatever passes the check stays inside, in both forms', () => {
    let passed = 0;
    fc.assert(
      fc.property(fc.array(part, { maxLength: 4 }), part, (folders, name) => {
        const space = folders.join('/');
        try {
          checkFileName({ space, name });
        } catch (error) {
          if (!(error instanceof FileError)) throw error;
          assert.equal(error.kind, 'name');
          assert.ok(error.field === 'name' || error.field === 'space');
          return;
        }
        passed += 1;
        for (const form of [name, name.normalize('NFC')]) {
          const path = posix.join('/root', space, form);
          assert.ok(path.startsWith('/root/'));
          assert.equal(posix.basename(path), form);
          assert.equal(posix.relative('/root', path).split('/').length, checkSpace(space).length + 1);
          assert.ok(Buffer.byteLength(form) <= 255);
        }
      }),
      { numRuns: 1000 },
    );
    assert.ok(passed > 50, `${passed} names passed`);
  });

  test('numbered names of a job differ, and are allowed where the name is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 250 }), (name) => {
        try {
          checkFileName({ space: '', name });
        } catch (error) {
          fc.pre(!(error instanceof FileError));
          throw error;
        }
        const names = [1, 2, 3, 10, 1_000_000].map((number) => numberedName(name, number));
        assert.equal(new Set(names).size, names.length);
        for (const each of names) checkFileName({ space: '', name: each });
      }),
    );
  });
});
