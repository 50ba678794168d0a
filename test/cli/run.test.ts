import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import type { Job } from '../../src/model/job.ts';
import { commandLinePlace, ordersByPage, type CommandLinePlace } from '../support/command-line-place.ts';
import { millraceProgram, spawnService } from '../support/service-process.ts';

const lines = (text: string) => text.trim().split('\n');

async function tableRows({ run }: CommandLinePlace): Promise<number> {
  const { code, stdout, stderr } = await run('table', 'shop', 'local', 'main', 'orders', '--json');
  assert.equal(code, 0, stderr);
  return lines(stdout).length;
}

describe('Command line: run', () => {
  test('a saved request: what it loaded, and exit code 0; no progress line where there is no terminal', async (t) => {
    const place = await commandLinePlace(t);
    const { code, stdout, stderr } = await place.run('run', 'shop', 'orders');
    assert.equal(code, 0, stderr);
    assert.match(
      stdout,
      /^succeeded: 5 pages, 250 records in \d+\.\d s \(job \w+\)\n {2}local\/main\/orders: 250 records\n$/,
    );
    assert.equal(stderr, '');
    assert.equal(await tableRows(place), 250);
  });

  test('the same while a service runs on the folder, which then shows the job and its table', async (t) => {
    const place = await commandLinePlace(t);
    const service = await spawnService(t, { data: place.data });
    const grant = new URLSearchParams({ grant_type: 'client_credentials', ...(await service.client()) });
    const { access_token } = (await (await service.form(grant.toString())).json()) as {
      access_token: string;
    };
    const get = async (path: string) => {
      const headers = { authorization: `Bearer ${access_token}` };
      return ((await (await fetch(`${service.url}/api/v1${path}`, { headers })).json()) as { result: never })
        .result;
    };
    const executed = await fetch(`${service.url}/api/v1/executeJob`, {
      method: 'POST',
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        appId: 'shop',
        operation: { opName: 'HTTPRequest', opParams: ordersByPage(place.api.url) },
      }),
    });
    assert.equal(executed.status, 200); // so that the service has the tables open
    const { code, stdout, stderr } = await place.run('run', 'shop', 'orders', '--json');
    assert.equal(code, 0, stderr);
    const job = JSON.parse(stdout) as Job;
    assert.deepEqual(
      [job.state, job.stats.records, job.submittedBy.clientId],
      ['succeeded', 250, 'command line'],
    );
    assert.deepEqual(await get(`/jobs/${job.jobId}`), job);
    const { items } = (await get('/applications/shop/tables/local/main/orders?limit=1000')) as {
      items: unknown[];
    };
    assert.equal(items.length, 500);
  });

  test('a file, YAML or JSON; its references are resolved', async (t) => {
    const place = await commandLinePlace(t);
    const { request, target } = ordersByPage(place.api.url);
    const auth = { type: 'bearer', token: '${API_TOKEN}' };
    const file = await place.write(
      'orders.json',
      JSON.stringify({ request: { ...(request as object), auth }, target }),
    );
    const missing = await place.run('run', 'shop', file);
    assert.equal(missing.code, 1);
    assert.match(
      missing.stderr,
      /orders\.json: request\.auth\.token: the environment variable API_TOKEN is not set/,
    );
    const started = spawn(millraceProgram, ['run', 'shop', file, '--data', place.data], {
      env: { ...process.env, API_TOKEN: 'the token' },
    });
    assert.deepEqual(await once(started, 'close'), [0, null]);
    assert.equal(place.api.requests.at(-1)?.headers.authorization, 'Bearer the token');
  });

  test('a scenario, with parameters and data; what each step has brought, or its own output', async (t) => {
    const place = await commandLinePlace(t, 100);
    const scenario = (name: string, more = {}) => ({
      name,
      parameters: [{ name: 'page', default: 1 }],
      steps: [
        { name: 'download', request: 'orders' },
        { name: 'never', request: 'orders', when: 'return $ctx.data === null;' },
      ],
      ...more,
    });
    const output = 'return { page: $ctx.variables.page, data: $ctx.data };';
    const scenarios = [scenario('sync'), scenario('told', { output })];
    const applied = await place.write('scenarios.yaml', JSON.stringify({ application: 'shop', scenarios }));
    assert.equal((await place.run('apply', applied)).code, 0);
    const input = await place.write('input.yaml', "- { id: 1, text: '${HOME}' }");

    const steps = await place.run('run', 'shop', 'sync', '--input', input);
    assert.equal(steps.code, 0, steps.stderr);
    assert.deepEqual(lines(steps.stdout).slice(1), [
      '  download: succeeded, 2 pages, 100 records',
      '    local/main/orders: 100 records',
      '  never: skipped',
    ]);
    assert.match(steps.stdout, /^succeeded: 2 pages, 100 records/);

    const parameters = ['--parameters', '{"page": 2}'];
    const told = await place.run('run', 'shop', 'told', ...parameters, '--input', input);
    assert.equal(told.code, 0, told.stderr);
    const data = [{ id: 1, text: '${HOME}' }];
    assert.equal(lines(told.stdout)[1], `  output: ${JSON.stringify({ page: 3, data })}`);

    const unknown = await place.run('run', 'shop', 'tolled', ...parameters);
    assert.deepEqual([unknown.code, unknown.stdout], [1, '']);
    assert.match(unknown.stderr, /there is no scenario "tolled"\. Did you mean "told"/);
    const malformed = await place.run('run', 'shop', 'told', '--parameters', '{page: 2}');
    assert.equal(malformed.code, 2);
    assert.match(malformed.stderr, /^millrace: --parameters: not JSON: /);
  });

  test('failure: exit code 1, the error on standard error, and the job with --json', async (t) => {
    const place = await commandLinePlace(t);
    const request = { url: `${place.api.url}/status/404`, method: 'GET' };
    const file = await place.write('failing.yaml', JSON.stringify({ request }));
    const text = await place.run('run', 'shop', file);
    assert.equal(text.code, 1);
    assert.match(text.stdout, /^failed: 0 pages, 0 records/);
    assert.match(
      text.stderr,
      /^millrace: http_status: GET http:.*\/status\/404 was answered by 404 Not Found/,
    );
    const json = await place.run('run', 'shop', file, '--json');
    assert.equal(json.code, 1);
    const job = JSON.parse(json.stdout) as Job;
    assert.deepEqual([job.state, job.error?.code], ['failed', 'http_status']);
  });

  test('what cannot be run: exit code 1, with file and field', async (t) => {
    const place = await commandLinePlace(t);
    const file = await place.write('wrong.yaml', 'request: { url: http://127.0.0.1, metod: GET }');
    const two = await place.write('two.yaml', 'request: {}\n---\nrequest: {}');
    const cases: [string, string, RegExp][] = [
      ['shop', file, /wrong\.yaml: .*request\.metod: is not known here\. Did you mean "method"/],
      ['shop', two, /two\.yaml: it must hold one document/],
      [
        'shop',
        'order',
        /"order" is no saved request or scenario of shop, and no file\. Did you mean "orders"\? Saved: orders/,
      ],
      ['shp', 'orders', /there is no application "shp"/],
    ];
    for (const [appId, request, says] of cases) {
      const { code, stdout, stderr } = await place.run('run', appId, request);
      assert.deepEqual([code, stdout], [1, ''], stderr);
      assert.match(stderr, says);
      assert.equal(lines(stderr).length, 1, stderr);
    }
  });

  test('what scripts write goes to standard error, without commands for the terminal', async (t) => {
    const place = await commandLinePlace(t, 50);
    const script = "console.log('page', $ctx.response.body.page, '\\u001b[2J');";
    const file = await place.write('logging.yaml', JSON.stringify(ordersByPage(place.api.url, script)));
    const { code, stdout, stderr } = await place.run('run', 'shop', file, '--json');
    assert.equal(code, 0, stderr);
    assert.equal(stderr, 'info: page 1 ·[2J\n');
    assert.equal((JSON.parse(stdout) as Job).state, 'succeeded');
  });
});

describe('Command line: run, cancelled', () => {
  test('Ctrl+C ends it after the page that is under way, with exit code 3', async (t) => {
    const place = await commandLinePlace(t);
    let second = () => {};
    const atSecondPage = new Promise<void>((resolve) => (second = resolve));
    let goOn = () => {};
    const held = new Promise<void>((resolve) => (goOn = resolve));
    place.api.beforeAnswer = async ({ query }) => {
      if (query.get('page') !== '2') return;
      second();
      await held;
    };
    const started = place.start('run', 'shop', 'orders', '--json');
    await atSecondPage;
    started.interrupt();
    while (!started.output.stderr.includes('cancelling after this page')) await turn();
    goOn();
    assert.deepEqual(await started.ended, { code: 3, signal: null });
    const job = JSON.parse(started.output.stdout) as Job;
    assert.deepEqual([job.state, job.stats.pages, job.stats.records], ['cancelled', 2, 100]);
    assert.equal(await tableRows(place), 100);
  });

  test('a second Ctrl+C ends it at once', async (t) => {
    const place = await commandLinePlace(t);
    let arrived = () => {};
    const waiting = new Promise<void>((resolve) => (arrived = resolve));
    place.api.beforeAnswer = async () => {
      arrived();
      await new Promise(() => {});
    };
    const started = place.start('run', 'shop', 'orders');
    await waiting;
    started.interrupt();
    while (!started.output.stderr.includes('cancelling after this page')) await turn();
    started.interrupt();
    assert.deepEqual(await started.ended, { code: 3, signal: null });
    assert.match(started.output.stdout, /^cancelled: 0 pages, 0 records/);
  });
});

describe('Command line: run, on a terminal', () => {
  const skip = spawnSync('script', ['--version']).error ? 'needs the command `script` of util-linux' : false;
  test(
    'a line with pages, records and rate, which is gone at the end; a share only where a total is known',
    { skip },
    async (t) => {
      const place = await commandLinePlace(t, 100);
      const customers = await place.write(
        'customers.json',
        JSON.stringify({
          sourceTable: { source: 'local', table: 'orders' },
          request: { url: { script: `return '${place.api.url}/orders/' + $ctx.data.id;` }, method: 'GET' },
          target: {
            action: 'parse JSON',
            table: 'details',
            parsingScript: 'return { data: [{ data: [_.pick($ctx.response.body, "id")] }] };',
          },
        }),
      );
      const pages = await onTerminal(place, 'orders', 3);
      assert.match(pages, /\r␛\[K1 pages, 50 records, \d+ records\/s, \d\.\d MB\r/);
      assert.ok(!pages.includes('%'), pages);
      assert.match(pages, /\r␛\[Ksucceeded: 2 pages, 100 records/);
      const records = await onTerminal(place, customers, 60);
      assert.match(records, /5\d pages, 5\d records, .*, 5\d %\r/);
      assert.match(records, /\r␛\[Ksucceeded: 100 pages, 100 records/);
    },
  );
});

/** Holds the request of this number until the progress line was written over once more. */
async function onTerminal(
  { api, data }: CommandLinePlace,
  request: string,
  heldRequest: number,
): Promise<string> {
  let output = '';
  api.requests.length = 0;
  api.beforeAnswer = async () => {
    if (api.requests.length !== heldRequest - 1) return;
    const shownBefore = output.length;
    while (!output.slice(shownBefore).includes(`${heldRequest - 2} pages`)) await turn();
  };
  const command = [millraceProgram, 'run', 'shop', request, '--data', data]
    .map((word) => `'${word}'`)
    .join(' ');
  // Of util-linux: runs a command in a terminal of its own.
  const child = spawn('script', ['-qefc', command, '/dev/null'], { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.on('data', (chunk) => (output += String(chunk).replaceAll('\u001b', '␛')));
  const [code] = (await once(child, 'close')) as [number];
  assert.equal(code, 0, output);
  return output;
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));
