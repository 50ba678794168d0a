import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { commandLinePlace, type CommandLinePlace } from '../support/command-line-place.ts';
import { BIG_NUMBERS } from '../support/external-api.ts';
import { millraceProgram, spawnService } from '../support/service-process.ts';

const ORDERS = ['table', 'shop', 'local', 'main', 'orders'];
const lines = (text: string) => text.trimEnd().split('\n');

async function loaded(t: Parameters<typeof commandLinePlace>[0]): Promise<CommandLinePlace> {
  const place = await commandLinePlace(t);
  assert.equal((await place.run('run', 'shop', 'orders')).code, 0);
  return place;
}

describe('Command line: table', () => {
  test('for people: columns, 20 rows or as many as asked for, and how many there are', async (t) => {
    const { run } = await loaded(t);
    const { code, stdout, stderr } = await run(...ORDERS);
    assert.equal(code, 0, stderr);
    const [head, ...rows] = lines(stdout);
    assert.equal(head?.trim(), 'id  status     amount');
    assert.equal(rows.length, 20);
    assert.match(rows[0] ?? '', /^1 +paid +79\.19$/);
    assert.equal(stderr, 'millrace: 20 of 250 rows; --limit shows more\n');
    const all = await run(...ORDERS, '--limit', '1000');
    assert.deepEqual([lines(all.stdout).length, all.stderr], [251, '']);
  });

  test('for machines: a JSON object a line, all of them; while a service runs, too', async (t) => {
    const { run, data } = await loaded(t);
    await spawnService(t, { data });
    const { code, stdout, stderr } = await run(...ORDERS, '--json');
    assert.deepEqual([code, stderr], [0, '']);
    const rows = lines(stdout).map((line) => JSON.parse(line) as { id: number });
    assert.deepEqual(
      rows.map(({ id }) => id),
      Array.from({ length: 250 }, (_, index) => index + 1),
    );
    assert.equal(lines((await run(...ORDERS, '--json', '--limit', '3')).stdout).length, 3);
  });

  test('every digit of a number, and odd texts on one line', async (t) => {
    const { run, write, api } = await commandLinePlace(t);
    const columns = [
      { name: 'id', type: 'bigint', position: 1 },
      { name: 'price', type: 'decimal', position: 2 },
      { name: 'text', type: 'string', position: 3 },
    ];
    const file = await write(
      'numbers.json',
      JSON.stringify({
        request: { url: `${api.url}/big-numbers`, method: 'GET' },
        target: {
          action: 'parse JSON',
          table: 'numbers',
          model: { columns },
          parsingScript: `return { data: [{ data: [
            { id: '9007199254740993', price: '0.12345678901234567890', text: 'two\\nlines' },
            { id: 1, price: 2, text: 'x'.repeat(100) },
          ] }] };`,
        },
      }),
    );
    assert.ok(BIG_NUMBERS);
    const ran = await run('run', 'shop', file);
    assert.equal(ran.code, 0, ran.stderr);
    const json = await run('table', 'shop', 'local', 'main', 'numbers', '--json');
    assert.match(lines(json.stdout)[0] ?? '', /"id":"?9007199254740993"?,"price":"?0\.1234567890123456789/);
    const { stdout } = await run('table', 'shop', 'local', 'main', 'numbers');
    assert.equal(lines(stdout).length, 3, stdout);
    assert.match(stdout, /9007199254740993 +0\.1234567890123456789\d* +two·lines/);
    assert.ok(stdout.includes(`${'x'.repeat(59)}…`));
  });

  test('a reader that goes away ends it quietly', async (t) => {
    const { data } = await loaded(t);
    const child = spawn(millraceProgram, [...ORDERS, '--json', '--data', data]);
    let stderr = '';
    child.stderr.on('data', (chunk) => (stderr += String(chunk)));
    child.stdout.destroy();
    await once(child, 'close');
    assert.equal(stderr, '');
  });

  test('wrong names say what there is', async (t) => {
    const { run } = await loaded(t);
    const cases: [string[], number, RegExp][] = [
      [['shp', 'local', 'main', 'orders'], 1, /there is no application "shp"/],
      [['shop', 'locl', 'main', 'orders'], 1, /there is no TableSource "locl"\. Did you mean "local"/],
      [
        ['shop', 'local', 'main', 'order'],
        1,
        /there is no table "order" in the space "main"\. Did you mean "orders"/,
      ],
      [['shop', 'local', 'main'], 2, /--table is missing/],
      [['shop', 'local', 'main', 'orders', '--limit', '0'], 2, /--limit: must be a whole number from 1 on/],
    ];
    for (const [args, exit, says] of cases) {
      const { code, stdout, stderr } = await run('table', ...args);
      assert.deepEqual([code, stdout], [exit, ''], stderr);
      assert.match(stderr, says);
    }
  });
});
