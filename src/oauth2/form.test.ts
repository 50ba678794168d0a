import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parseForm } from './form.ts';

describe('Forms of the token endpoint', () => {
  test('whatever URLSearchParams writes is read back', () => {
    const text = fc
      .string({ unit: 'binary' })
      .filter((value) => value.isWellFormed() && !value.includes('\0'));
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(text, text), { selector: ([name]) => name, maxLength: 20 }),
        (pairs) => {
          const form = parseForm(Buffer.from(new URLSearchParams(pairs).toString()));
          assert.deepEqual([...form], pairs.length === 0 ? [] : pairs);
        },
      ),
    );
  });

  test('an empty value and no value are the same', () => {
    assert.deepEqual(
      [...parseForm(Buffer.from('a=&b&c=1&&'))],
      [
        ['a', ''],
        ['b', ''],
        ['c', '1'],
      ],
    );
  });

  test('an equals sign in a value belongs to it', () => {
    assert.equal(parseForm(Buffer.from('a=b=c')).get('a'), 'b=c');
  });
});
