import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { ApplicationDocument } from '../../src/model/application-document.ts';
import { validate } from '../../src/model/validate.ts';
import { commandLinePlace } from '../support/command-line-place.ts';

const schedules = (more = '') => `
application: shop
schedules:
  - name: nightly
    cron: 30 2 * * *
    timezone: Europe/Berlin
    request: orders
    pauseAfterFailures: 3
  - name: hourly
    cron: '@hourly'
    overlap: queue
    operation: { opName: HTTPRequest, opParams: { request: { url: 'http://127.0.0.1/', method: GET } } }
    job: { retry: { tries: 3 } }
${more}`;

test('apply creates schedules, a second time changes nothing, and export gives them back', async (t) => {
  const place = await commandLinePlace(t);
  const file = await place.write('schedules.yaml', schedules());
  const first = await place.run('apply', file);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /^created +shop +schedule +nightly$/m);
  const second = await place.run('apply', file);
  assert.match(second.stdout, /^unchanged +shop +schedule +nightly$/m);
  assert.match(second.stdout, /^unchanged +shop +schedule +hourly$/m);

  const exported = await place.run('export', 'shop');
  const document = parse(exported.stdout) as { schedules: unknown };
  const written = (parse(schedules()) as { schedules: Record<string, unknown>[] }).schedules;
  const retry = { tries: 3, delaySeconds: 60 };
  assert.deepEqual(
    new Set(document.schedules as unknown[]),
    new Set([written[0], { ...written[1], job: { priority: 0, exclusive: false, retry } }]),
  );
  const again = await place.run('apply', await place.write('again.yaml', exported.stdout));
  assert.match(again.stdout, /^unchanged +shop +schedule +hourly$/m);
});

test('apply refuses what cannot work, with its place in the file', async (t) => {
  const place = await commandLinePlace(t);
  const broken = await place.write(
    'broken.yaml',
    schedules("  - { name: never, cron: '0 0 30 2 *', request: orders }\n"),
  );
  const { code, stderr } = await place.run('apply', broken);
  assert.equal(code, 1);
  assert.match(stderr, /broken\.yaml: schedules\[2\]\.cron: never fires/);
  const missing = await place.write('missing.yaml', schedules().replace('request: orders', 'request: order'));
  const answer = await place.run('apply', missing);
  assert.match(answer.stderr, /missing\.yaml: schedules\[0\]\.request: there is no saved request "order"/);
});

test("the guide's example is a file for apply", async () => {
  const guide = await readFile(join(import.meta.dirname, '../../docs/schedules.md'), 'utf8');
  const blocks = [...guide.matchAll(/^```yaml\n([^]+?)\n```$/gm)];
  assert.equal(blocks.length, 1);
  const { schedules: inGuide } = validate(ApplicationDocument, parse(blocks[0]?.[1] ?? ''));
  assert.equal(inGuide.length, 2);
});
