import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { settingDescriptions } from '../../src/settings.ts';

const ROOT = join(import.meta.dirname, '../..');
const UNITS = ['deploy/systemd/millrace.service', 'deploy/systemd/millrace-worker@.service'];
const read = (file: string) => readFile(join(ROOT, file), 'utf8');

interface Compose {
  services: Record<
    string,
    {
      command?: string[];
      environment?: Record<string, string>;
      volumes: string[];
      stop_grace_period?: string;
    }
  >;
  volumes: Record<string, unknown>;
}

describe('Files for deployment', () => {
  test('every setting that is named in them exists', async () => {
    const variables = new Set(settingDescriptions.map(({ environment }) => environment));
    const flags = new Set(settingDescriptions.map(({ flag }) => `--${flag}`));
    let seen = 0;
    for (const file of ['Dockerfile', 'compose.yaml', ...UNITS, 'docs/operations.md']) {
      const text = await read(file);
      for (const [name] of text.matchAll(/MILLRACE_[A-Z0-9_]+/g)) {
        assert.ok(variables.has(name), `${file}: ${name}`);
        seen += 1;
      }
      for (const [line] of text.matchAll(/millrace serve.*|serve, --.*/g)) {
        for (const [flag] of line.matchAll(/--[a-z-]+/g)) assert.ok(flags.has(flag), `${file}: ${flag}`);
      }
    }
    assert.ok(seen > 10, `only ${seen} names were seen`);
  });

  test('compose.yaml: PostgreSQL, an api node, two workers; shared folder and key, time to hand jobs back', async () => {
    const compose = parse(await read('compose.yaml'), { merge: true }) as Compose;
    assert.deepEqual(Object.keys(compose.services), ['postgres', 'api', 'worker']);
    const { api, worker } = compose.services;
    assert.deepEqual(
      [api?.command, worker?.command],
      [
        ['serve', '--role', 'api'],
        ['serve', '--role', 'worker'],
      ],
    );
    for (const node of [api, worker]) {
      assert.ok(node?.environment?.['MILLRACE_DATABASE'] && node.environment['MILLRACE_MASTER_KEY']);
      assert.deepEqual(node.volumes, ['data:/var/lib/millrace']);
      assert.ok(Number.parseInt(node.stop_grace_period ?? '', 10) > 30);
    }
    for (const { volumes } of Object.values(compose.services))
      for (const volume of volumes) assert.ok((volume.split(':')[0] ?? '') in compose.volumes, volume);
  });

  test('the units: sections, no line that systemd would not read, a start of the program', async () => {
    for (const file of UNITS) {
      const sections = parseUnit(await read(file), file);
      assert.deepEqual(Object.keys(sections), ['Unit', 'Service', 'Install']);
      const service = sections['Service'] as Map<string, string>;
      assert.match(service.get('ExecStart') ?? '', /^\/opt\/millrace\/bin\/millrace serve/);
      assert.ok(Number(service.get('TimeoutStopSec')) > 30);
      assert.notEqual(service.get('User') ?? 'root', 'root');
    }
  });

  test('the Dockerfile: known instructions, the Node.js that the project needs, not as root, a health check', async () => {
    const text = (await read('Dockerfile')).replaceAll(/\\\n/g, ' ');
    const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const known =
      /^(?:FROM|ENV|WORKDIR|COPY|RUN|USER|VOLUME|EXPOSE|STOPSIGNAL|HEALTHCHECK|ENTRYPOINT|CMD) \S/;
    for (const line of lines) assert.match(line, known);
    const { devDependencies } = JSON.parse(await read('package.json')) as {
      devDependencies: { node: string };
    };
    const major = /\d+/.exec(devDependencies.node)?.[0];
    for (const line of lines.filter((line) => line.startsWith('FROM')))
      assert.match(line, new RegExp(`^FROM node:${major}-[a-z]+-slim`));
    assert.ok(lines.indexOf('USER millrace') > 0);
    for (const line of lines.filter((line) => /^COPY [^-]/.test(line)))
      for (const source of line.split(' ').slice(1, -1)) assert.ok(existsSync(join(ROOT, source)), line);
    for (const line of lines.filter((line) => /^(?:ENTRYPOINT|CMD) /.test(line)))
      assert.doesNotThrow(() => JSON.parse(line.slice(line.indexOf('['))), line);
  });

  test('every claim of operations.md about faults names a test that exists', async () => {
    const text = await read('docs/operations.md');
    const start = text.indexOf('| what happens ');
    const rows = text.slice(start, text.indexOf('\n\n', start)).split('\n').slice(2);
    assert.ok(rows.length >= 10);
    for (const row of rows) {
      const files = [...row.matchAll(/`((?:src|test)\/[^`]+)`/g)].map(([, file]) => file ?? '');
      assert.ok(files.length > 0, row);
      for (const file of files) assert.ok(existsSync(join(ROOT, file)), file);
    }
  });
});

function parseUnit(text: string, file: string): Record<string, Map<string, string>> {
  const sections: Record<string, Map<string, string>> = {};
  let section: Map<string, string> | undefined;
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const header = /^\[(\w+)\]$/.exec(line)?.[1];
    const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
    if (header !== undefined) section = sections[header] = new Map();
    else if (section && name !== undefined && value !== undefined) section.set(name, value);
    else assert.fail(`${file}: ${line}`);
  }
  return sections;
}
