import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { parse } from 'yaml';
import { onEachDatabase, sqlitePlace, type Place } from '../support/databases.ts';
import { millrace, spawnService, type CommandResult } from '../support/service-process.ts';

const SECRETS = {
  CRM_PASSWORD: 'the password of the crm',
  BILLING_CLIENT_SECRET: 'the client secret of billing',
  SIGNED_SECRETS_KEY: 'the key of the signature',
};
const CRM = `
application: shop
name: The shop
sources:
  - name: crm
    type: HTTPSource
    baseUrl: https://api.example.com
    properties: { tenant: acme }
    auth: { type: basic, username: ada, password: '\${CRM_PASSWORD}' }
    rateLimit: { requests: 10 }
  - name: billing
    type: HTTPSource
    auth:
      type: oauth2
      grant: client_credentials
      tokenUrl: https://api.example.com/oauth/token
      clientId: client-1
      clientSecret: \${BILLING_CLIENT_SECRET}
  - name: signed
    type: HTTPSource
    auth:
      type: customSignature
      script: |
        return [{ name: 'extendRequest', params: { headers: { 'X-Key': $ctx.variables.key } } }];
      secrets: { key: '\${SIGNED_SECRETS_KEY}' }
`;
const REST = `
application: shop
models:
  - name: order
    columns:
      - { name: id, type: bigint, position: 1 }
      - { name: amount, type: decimal, position: 2 }
variables:
  since: '2025-01-01'
  limits: { pages: 3, kinds: [new, paid], none: null }
  template: $\${NAME}
requests:
  - name: orders
    sourceTable: { source: local, table: customers, batching: true }
    request:
      source: crm
      url: /orders
      method: GET
      parameters: |
        return { since: $ctx.variables.since, text: \`\${$ctx.variables.since}\` };
      options: { readTimeout: '30', onHttpError: script }
    target: { action: parse JSON, table: orders, model: order, parsingScript: 'return {};' }
scenarios:
  - name: nightly
    parameters: [{ name: since, default: null }, { name: template, default: '$\${NAME}' }]
    steps:
      - name: customers
        operation: { opName: RunScenario, opParams: { scenario: customers, parameters: { page: 1 } } }
      - { name: orders, request: orders, when: 'return $ctx.steps.customers.records > 0;', onError: continue }
    output: |
      return $ctx.steps;
  - name: customers
    parameters: [{ name: page }]
    steps:
      - name: one
        operation:
          opName: HTTPRequest
          opParams: { request: { source: crm, url: /customers, method: GET, options: { readTimeout: '30' } } }
---
application: other
`;

async function newPlace(t: TestContext): Promise<Place> {
  const place = await sqlitePlace();
  t.after(() => place.remove());
  return place;
}

const where = ({ data, database }: Place) => ['--data', data, ...(database ? ['--database', database] : [])];

function succeeded({ code, stdout, stderr }: CommandResult): string {
  assert.equal(code, 0, stderr);
  assert.equal(stderr, '');
  return stdout;
}

async function writeFolder(place: Place): Promise<string> {
  const folder = join(place.data, 'definitions');
  await mkdir(join(folder, 'more'), { recursive: true });
  await writeFile(join(folder, 'crm.yaml'), CRM);
  await writeFile(join(folder, 'more/rest.yml'), REST);
  await writeFile(join(folder, 'notes.txt'), 'no: [yaml');
  return folder;
}

async function write(place: Place, name: string, text: string): Promise<string> {
  const file = join(place.data, name);
  await writeFile(file, text);
  return file;
}

onEachDatabase('Command line: apply and export', (newPlace) => {
  test('applying prints what changed, applying again changes nothing; the same while a service runs', async (t) => {
    const place = await newPlace();
    t.after(() => place.remove());
    const folder = await writeFolder(place);
    const apply = async (...more: string[]) =>
      succeeded(await millrace(['apply', folder, ...where(place), ...more], { env: SECRETS }));
    const first = (await apply()).trim().split('\n');
    assert.deepEqual(
      first.map((line) => line.split(/\s+/)),
      [
        ['created', 'shop', 'application', 'shop'],
        ['created', 'shop', 'source', 'crm'],
        ['created', 'shop', 'source', 'billing'],
        ['created', 'shop', 'source', 'signed'],
        ['unchanged', 'shop', 'application', 'shop'],
        ['created', 'shop', 'model', 'order'],
        ['created', 'shop', 'variable', 'since'],
        ['created', 'shop', 'variable', 'limits'],
        ['created', 'shop', 'variable', 'template'],
        ['created', 'shop', 'request', 'orders'],
        ['created', 'other', 'application', 'other'],
        ['created', 'shop', 'scenario', 'nightly'],
        ['created', 'shop', 'scenario', 'customers'],
      ],
    );

    await spawnService(t, { data: place.data, args: where(place).slice(2) });
    const again = JSON.parse(await apply('--json')) as { change: string }[];
    assert.equal(again.length, first.length);
    assert.deepEqual(
      again.filter(({ change }) => change !== 'unchanged'),
      [],
    );

    await writeFile(join(folder, 'crm.yaml'), CRM.replace('tenant: acme', 'tenant: other'));
    await writeFile(
      join(folder, 'more/rest.yml'),
      REST.replace('pages: 3', 'pages: 4').replace('page: 1 }', 'page: 2 }'),
    );
    const changed = (await apply()).split('\n').filter((line) => line.startsWith('changed'));
    assert.deepEqual(
      changed.map((line) => line.split(/\s+/).slice(2)),
      [
        ['source', 'crm'],
        ['variable', 'limits'],
        ['scenario', 'nightly'],
      ],
    );
    const password = await millrace(['apply', folder, ...where(place)], {
      env: { ...SECRETS, CRM_PASSWORD: 'another password' },
    });
    assert.match(succeeded(password), /^changed +shop +source +crm$/m);
  });

  test('export, applied elsewhere, gives the same application; no secret is in it', async (t) => {
    const [one, two] = [await newPlace(), await newPlace()];
    t.after(() => Promise.all([one.remove(), two.remove()]));
    succeeded(await millrace(['apply', await writeFolder(one), ...where(one)], { env: SECRETS }));
    const exported = succeeded(await millrace(['export', 'shop', ...where(one)]));
    for (const secret of Object.values(SECRETS)) assert.ok(!exported.includes(secret), exported);

    const file = await write(two, 'shop.yaml', exported);
    const applied = await millrace(['apply', file, '--json', ...where(two)], { env: SECRETS });
    assert.ok(
      (JSON.parse(succeeded(applied)) as { change: string }[]).every(({ change }) => change === 'created'),
    );
    assert.equal(succeeded(await millrace(['export', 'shop', ...where(two)])), exported);
    const json = succeeded(await millrace(['export', 'shop', '--json', ...where(two)]));
    assert.deepEqual(JSON.parse(json), parse(exported));
    assert.equal((JSON.parse(json) as { variables: { template: string } }).variables.template, '$${NAME}');

    // The secrets have arrived, too: the first place finds nothing to change in what the second one has.
    const back = await write(one, 'back.yaml', succeeded(await millrace(['export', 'shop', ...where(two)])));
    const unchanged = await millrace(['apply', back, '--json', ...where(one)], { env: SECRETS });
    assert.ok(
      (JSON.parse(succeeded(unchanged)) as { change: string }[]).every(
        ({ change }) => change === 'unchanged',
      ),
    );
  });
});

describe('Command line: apply, secrets', () => {
  const bearer = (name: string, token: string) =>
    `application: shop\nsources: [{ name: ${name}, type: HTTPSource, auth: { type: bearer${token} } }]\n`;

  test('they may be given apart, in a file; one that is left out stays', async (t) => {
    const place = await newPlace(t);
    const file = await write(place, 'shop.yaml', bearer('crm', ", token: '${CRM_TOKEN}'"));
    const secrets = await write(place, 'secrets.yaml', 'CRM_TOKEN: from the file\n');
    succeeded(
      await millrace(['apply', file, '--secrets', secrets, ...where(place)], { env: { CRM_TOKEN: 'no' } }),
    );
    const same = await millrace(['apply', file, ...where(place)], { env: { CRM_TOKEN: 'from the file' } });
    assert.match(succeeded(same), /^unchanged +shop +source +crm$/m);
    await writeFile(file, bearer('crm', ''));
    assert.match(
      succeeded(await millrace(['apply', file, ...where(place)])),
      /^unchanged +shop +source +crm$/m,
    );
  });

  test('one in plain text is taken, with advice that does not repeat it', async (t) => {
    const place = await newPlace(t);
    const file = await write(place, 'shop.yaml', bearer('crm', ', token: plain-secret'));
    const { code, stdout, stderr } = await millrace(['apply', file, ...where(place)]);
    assert.equal(code, 0, stderr);
    assert.ok(stderr.includes('shop.yaml: sources[0].auth.token holds a secret in plain text'), stderr);
    assert.ok(!`${stdout}${stderr}`.includes('plain-secret'));
  });

  test('a reference is never mistaken: names of any kind, two that would be the same, the password of a proxy', async (t) => {
    const [one, two] = [await newPlace(t), await newPlace(t)];
    const source = (name: string, n: number) =>
      `  - { name: ${name}, type: HTTPSource, auth: { type: bearer, token: '\${T${n}}' } }`;
    const sources = ['1st', 'a-b', 'a_b', '東京', '大阪', 'toString'].map(source).join('\n');
    const proxy =
      "  - { name: p, type: HTTPSource, proxy: 'http://ada@127.0.0.1:3128', proxyPassword: for-the-proxy }";
    const file = await write(one, 'shop.yaml', `application: shop\nsources:\n${sources}\n${proxy}\n`);
    const env = Object.fromEntries(Array.from({ length: 6 }, (_, n) => [`T${n}`, `token-${n}`]));
    const applied = await millrace(['apply', file, ...where(one)], { env });
    assert.equal(applied.code, 0, applied.stderr);
    assert.ok(
      applied.stderr.includes('sources[6].proxyPassword holds a secret in plain text'),
      applied.stderr,
    );
    const again = await millrace(['apply', file, ...where(one)], { env });
    assert.match(again.stdout, /^unchanged +shop +source +p$/m);
    const exported = succeeded(await millrace(['export', 'shop', ...where(one)]));
    assert.ok(!/token-\d|for-the-proxy/.test(exported), exported);
    assert.match(exported, /proxyPassword: \$\{P_PROXY_PASSWORD\}/);
    const references = [...exported.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].map(([, name]) => name);
    assert.equal(references.length, 7, exported);
    assert.equal(new Set(references).size, 7, exported);
    assert.equal(exported.match(/token:/g)?.length, 6);
    const missing = await millrace(['apply', await write(two, 'shop.yaml', exported), ...where(two)]);
    assert.equal(missing.code, 1);
    assert.match(
      missing.stderr,
      /shop\.yaml: sources\[0\]\.auth\.token: the environment variable _1ST_TOKEN is not set/,
    );
  });
});

describe('Command line: wrong files', () => {
  const cases: [string, string, RegExp][] = [
    [
      'an unknown property',
      'application: shop\nsorces: []',
      /: sorces: is not known here\. Did you mean "sources"/,
    ],
    ['a missing property', 'name: x', /: application: /],
    [
      'a nested one',
      'application: a\nmodels: [{ name: m, columns: [{ name: a, type: int, position: 1 }] }]',
      /models\[0\]\.columns\[0\]\.type: /,
    ],
    [
      'an unknown property of a kind of auth',
      'application: a\nsources: [{ name: s, type: HTTPSource, auth: { type: bearer, tokn: x } }]',
      /sources\[0\]\.auth\.tokn: is not known here\. Did you mean "token"/,
    ],
    [
      'a kind of auth',
      'application: a\nsources: [{ name: s, type: HTTPSource, auth: { type: basc } }]',
      /sources\[0\]\.auth\.type: .*'basic'/,
    ],
    [
      'a missing secret',
      'application: a\nsources: [{ name: s, type: HTTPSource, auth: { type: bearer } }]',
      /sources\[0\]\.auth\.token: is missing/,
    ],
    [
      'a name that is taken',
      'application: a\nsources: [{ name: local, type: HTTPSource }]',
      /sources\[0\]\.name: every application has a source "local" already/,
    ],
    [
      'an environment variable',
      'application: a\nvariables: { x: ["${NOT_SET_ANYWHERE}"] }',
      /variables\.x\[0\]: the environment variable NOT_SET_ANYWHERE is not set/,
    ],
    [
      'a secret in a request',
      "application: a\nrequests: [{ name: r, request: { url: 'http://x', method: GET, auth: { type: bearer, token: x } } }]",
      /requests\[0\]\.request\.auth: secrets are not kept/,
    ],
    [
      'a step of a scenario',
      'application: a\nscenarios: [{ name: s, steps: [{ name: x, request: r, onError: ignore }] }]',
      /scenarios\[0\]\.steps\[0\]\.onError: /,
    ],
    [
      'a saved request that a step names',
      'application: a\nscenarios: [{ name: s, steps: [{ name: x, request: r }] }]',
      /scenarios\[0\]\.steps\[0\]\.request: there is no saved request "r"/,
    ],
    [
      'scenarios that call each other',
      `application: a
scenarios:
  - { name: s, steps: [{ name: x, operation: { opName: RunScenario, opParams: { scenario: r } } }] }
  - { name: r, steps: [{ name: x, operation: { opName: RunScenario, opParams: { scenario: s } } }] }`,
      /scenarios\[0\]\.steps\[0\]\.operation\.opParams\.scenario: .*"s" calls "r" calls "s"/,
    ],
    [
      'a script of a scenario',
      "application: a\nrequests: [{ name: r, request: { url: 'http://x', method: GET } }]\nscenarios: [{ name: s, steps: [{ name: x, request: r, when: 'no;' }] }]",
      /scenarios\[0\]\.steps\[0\]\.when.*return/,
    ],
    ['the syntax', 'application: [a\nb: c', /line 2, column 1/],
    [
      'a name that JavaScript keeps for itself',
      'application: a\nvariables: { __proto__: 1 }',
      /: variables\.__proto__: nothing can have this name/,
    ],
    [
      'the same deep inside',
      'application: a\nsources: [{ name: s, type: HTTPSource, properties: { __proto__: x } }]',
      /: sources\[0\]\.properties\.__proto__: nothing can have this name/,
    ],
    ['an unknown tag', 'application: a\nvariables: { x: !secret y }', /!secret/],
    ['an endless alias', 'application: a\nvariables: { x: &x [*x] }', /shop\.yaml: /],
    [
      'the same name twice',
      'application: a\nmodels: []\n---\napplication: a\nvariables: { x: 1 }\n---\napplication: a\nvariables: { x: 2 }',
      /the variable "x" of the application "a" is in .*shop\.yaml, too/,
    ],
  ];
  for (const [what, text, says] of cases) {
    test(`${what}: file and path are named`, async (t) => {
      const place = await newPlace(t);
      const file = await write(place, 'shop.yaml', text);
      const { code, stdout, stderr } = await millrace(['apply', file, ...where(place)]);
      assert.equal(code, 1, stderr);
      assert.ok(stderr.startsWith(`millrace: ${file}: `), stderr);
      assert.match(stderr, says);
      assert.ok(!stderr.includes('    at '), stderr);
      assert.ok(!stdout.includes('source'), stdout);
    });
  }

  test('no file, an empty folder, an unknown application', async (t) => {
    const place = await newPlace(t);
    const run = async (...args: string[]) => {
      const { code, stderr } = await millrace([...args, ...where(place)]);
      assert.equal(code, 1);
      return stderr;
    };
    assert.match(await run('apply', join(place.data, 'none.yaml')), /^millrace: .*ENOENT.*none\.yaml.*\n$/);
    await mkdir(join(place.data, 'empty'));
    assert.match(await run('apply', join(place.data, 'empty')), /empty: there is no \.yaml or \.yml file/);
    assert.match(await run('export', 'nobody'), /^millrace: there is no application "nobody"\n$/);
  });
});

describe('Command line: schema', () => {
  test('is what docs/schema/application.schema.json says', async () => {
    const printed = JSON.parse(succeeded(await millrace(['schema']))) as Record<string, unknown>;
    const copy = join(import.meta.dirname, '../../docs/schema/application.schema.json');
    assert.deepEqual(JSON.parse(await readFile(copy, 'utf8')), printed, 'run: node docs/generate.ts');
    assert.equal(printed['$schema'], 'https://json-schema.org/draft/2020-12/schema');
  });
});
