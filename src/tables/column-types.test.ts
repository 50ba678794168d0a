import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseExact } from './exact-json.ts';
import { inferColumns, join } from './column-types.ts';
import type { Row } from './row-cells.ts';
import { COLUMN_TYPES } from './table-store.ts';

const infer = (text: string) => inferColumns(parseExact(text) as Row[]);

test('types join to the same, in whatever order', () => {
  for (const a of COLUMN_TYPES) {
    assert.equal(join(a, a), a);
    for (const b of COLUMN_TYPES) {
      assert.equal(join(a, b), join(b, a));
      assert.equal(join(a, join(a, b)), join(a, b));
      for (const c of COLUMN_TYPES) assert.equal(join(join(a, b), c), join(a, join(b, c)), `${a} ${b} ${c}`);
    }
  }
});

test('the order of the rows does not matter to the types', () => {
  const rows = fc.array(fc.record({ x: fc.oneof(fc.jsonValue(), fc.integer(), fc.double({ noNaN: true })) }));
  fc.assert(
    fc.property(rows, (rows) => {
      const types = (some: unknown[]) => infer(JSON.stringify(some));
      assert.deepEqual(types(rows), types(rows.toReversed()));
    }),
  );
});

test('what a property is taken for', () => {
  // prettier-ignore
  const types: [string, string][] = [
    ['1', 'integer'], ['-9007199254740991', 'integer'], ['9007199254740992', 'bigint'], ['9223372036854775807', 'bigint'],
    ['9223372036854775808', 'decimal'], ['1.5', 'double'], ['1e300', 'double'], ['0.1000000000000000055', 'decimal'],
    ['1e400', 'decimal'], ['1e99999', 'string'], ['"12"', 'string'], ['"2024-01-31"', 'string'], ['true', 'boolean'], ['{}', 'json'], ['[]', 'json'],
  ];
  for (const [text, type] of types) {
    assert.deepEqual(infer(`[{"x":null},{"x":${text}}]`), [{ name: 'x', type, undecided: false }], text);
  }
  assert.deepEqual(infer('[{"x":null},{}]'), [{ name: 'x', type: 'string', undecided: true }]);
  assert.deepEqual(
    infer('[{"b":1},{"a":1,"b":2}]').map(({ name }) => name),
    ['b', 'a'],
  );
});
