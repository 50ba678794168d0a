import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { onEachDatabase, sqlitePlace } from '../support/databases.ts';
import { millrace, spawnService } from '../support/service-process.ts';

const PASSWORD = 'correct horse battery staple';

async function folder(t: TestContext): Promise<string> {
  const { data, remove } = await sqlitePlace();
  t.after(remove);
  return data;
}

function token(url: string, fields: Record<string, string>): Promise<Response> {
  return fetch(`${url}/api/v1/oauth2/token`, { method: 'POST', body: new URLSearchParams(fields) });
}

onEachDatabase('Command line: clients and users, on the data of a running service', (newPlace) => {
  test('client create, list, rotate-secret, revoke', async (t) => {
    const place = await newPlace();
    t.after(() => place.remove());
    const where = ['--data', place.data, ...(place.database ? ['--database', place.database] : [])];
    const service = await spawnService(t, { data: place.data, args: where.slice(2) });
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await millrace([...args, ...where, '--json']);
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout);
    };
    const works = async ({ client_id, client_secret }: Record<string, string>) =>
      (
        await token(service.url, { grant_type: 'client_credentials', client_id, client_secret } as Record<
          string,
          string
        >)
      ).status === 200;

    const options = ['--grants', 'client_credentials,refresh_token', '--applications', 'a, b'];
    const created = await run('client', 'create', '--name', 'crm sync', ...options);
    assert.ok(await works(created));
    assert.deepEqual(created.grants, ['client_credentials', 'refresh_token']);
    assert.deepEqual(created.applications, ['a', 'b']);

    const rotated = await run('client', 'rotate-secret', created.client_id);
    assert.notEqual(rotated.client_secret, created.client_secret);
    assert.ok((await works(rotated)) && (await works(created)));

    const [listed] = await run('client', 'list');
    assert.equal(listed.name, 'crm sync');
    assert.equal(listed.secrets.length, 2);
    assert.equal(listed.client_secret, undefined);

    await run('client', 'revoke', created.client_id);
    assert.equal(await works(rotated), false);
    assert.deepEqual(await run('client', 'list'), []);
  });

  test('user create, list, set-password, disable; the password comes from standard input', async (t) => {
    const place = await newPlace();
    t.after(() => place.remove());
    const where = ['--data', place.data, ...(place.database ? ['--database', place.database] : [])];
    const service = await spawnService(t, { data: place.data, args: where.slice(2) });
    const run = async (input: string, ...args: string[]) => {
      const { code, stdout, stderr } = await millrace([...args, ...where, '--json'], { input });
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout);
    };
    const client = await run('', 'client', 'create', '--name', 'console');
    const signIn = async (password: string) => {
      const { client_id, client_secret } = client;
      const fields = { grant_type: 'password', client_id, client_secret, username: 'ann', password };
      return (await token(service.url, fields)).status;
    };
    const user = await run(`${PASSWORD}\n`, 'user', 'create', '--username', 'ann', '--role', 'administrator');
    assert.deepEqual([user.username, user.role, user.disabled], ['ann', 'administrator', false]);
    assert.equal(await signIn(PASSWORD), 200);
    await run('another password', 'user', 'set-password', 'ann');
    assert.deepEqual([await signIn(PASSWORD), await signIn('another password')], [400, 200]);
    await run('', 'user', 'disable', '--username', 'ann');
    assert.equal(await signIn('another password'), 400);
    assert.equal((await run('', 'user', 'list'))[0].disabled, true);
  });
});

describe('Command line: use and misuse', () => {
  test('every command has --help and exits 0', async () => {
    const { stdout } = await millrace(['help']);
    const commands = [...stdout.matchAll(/^ {2}([a-z][a-z-]*(?: [a-z-]+)?) {2}/gm)].map(
      (match) => match[1] as string,
    );
    assert.ok(commands.length >= 11, stdout);
    for (const command of commands) {
      const { code, stdout: help, stderr } = await millrace([...command.split(' '), '--help']);
      assert.equal(code, 0, command);
      assert.ok(help.startsWith(`millrace ${command}:`) && help.includes('--data'));
      assert.equal(stderr, '');
    }
  });

  test('wrong use exits 2 and says what is right, on standard error alone', async (t) => {
    const data = await folder(t);
    const cases: [string[], RegExp][] = [
      [['serv'], /no command "serv"\. Did you mean "serve"/],
      [['client', 'create'], /--name is missing/],
      [['client', 'create', '--nmae', 'x'], /--nmae is not an option.*Did you mean "name"/],
      [['client', 'create', '--name', 'x', '--grants', 'implicit'], /--grants/],
      [['client', 'create', '--name', 'x', '--role', 'king'], /--role/],
      [['client', 'list', 'surplus'], /what is "surplus"/],
      [['serve', '--port', 'many'], /--port.*The port to listen on/],
      [['serve', '--port', '70000'], /--port/],
      [['serve', '--database', 'mysql://x'], /--database.*postgres:\/\//],
      [['user', 'create', '--username', 'ann', '--role', 'boss'], /--role/],
    ];
    for (const [args, says] of cases) {
      const { code, stdout, stderr } = await millrace([...args, '--data', data]);
      assert.equal(code, 2, `${args.join(' ')}: ${stderr}`);
      assert.match(stderr, says);
      assert.equal(stdout, '');
    }
    const short = await millrace(
      ['user', 'create', '--username', 'ann', '--role', 'viewer', '--data', data],
      { input: 'short' },
    );
    assert.deepEqual([short.code, /at least 8 characters/.test(short.stderr)], [2, true]);
  });

  test('failure exits 1 with one line', async (t) => {
    const data = await folder(t);
    const cases: [string[], RegExp][] = [
      [['client', 'revoke', 'nobody'], /there is no client "nobody"/],
      [['client', 'list', '--database', 'postgres://nobody@127.0.0.1:1/none'], /ECONNREFUSED/],
      [['keys', 'rotate', '--master-key', 'short'], /must be 32 bytes in base64/],
    ];
    for (const [args, says] of cases) {
      const { code, stderr } = await millrace([...args, '--data', data]);
      assert.equal(code, 1, stderr);
      assert.match(stderr, says);
      assert.equal(stderr.trim().split('\n').length, 1, stderr);
    }
  });

  test('a taken port is a one-line error', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    t.after(() => taken.close());
    const port = String((taken.address() as AddressInfo).port);
    const { code, stderr } = await millrace(['serve', '--data', await folder(t), '--port', port]);
    assert.equal(code, 1);
    assert.match(
      stderr,
      new RegExp(`^millrace: the port ${port} of 127\\.0\\.0\\.1 is taken; give another with --port\\n$`),
    );
  });

  test('serve says where it listens and what to do next, and stops on SIGTERM with 0', async (t) => {
    const data = await folder(t);
    const service = await spawnService(t, { data });
    assert.match(service.output.stdout, /^millrace \d+\.\d+\.\d+ listens on http:\/\/127\.0\.0\.1:\d+/);
    service.child.kill('SIGTERM');
    const [code] = await once(service.child, 'exit');
    assert.equal(code, 0);
    assert.ok(service.output.stdout.includes(`npx millrace client create --name first --data ${data}`));
  });

  test('the data folder and the master key are for their owner alone', async (t) => {
    const data = join(await folder(t), 'new');
    await spawnService(t, { data });
    assert.equal((await stat(data)).mode & 0o777, 0o700);
    assert.equal((await stat(join(data, 'master.key'))).mode & 0o777, 0o600);
  });
});

describe('Command line: settings', () => {
  test('defaults < file < environment < flags, each with its origin; secrets are masked', async (t) => {
    const file = join(await folder(t), 'millrace.json');
    const secret = 'a secret that must not be seen';
    await writeFile(file, JSON.stringify({ port: 1, host: '0.0.0.0', refreshGraceSeconds: 20 }));
    const env = { MILLRACE_PORT: '2', MILLRACE_HOST: '::1', MILLRACE_BOOTSTRAP_CLIENT_SECRET: secret };
    const flags = [
      '--port',
      '3',
      '--config',
      file,
      '--bootstrap-client-id',
      'x',
      '--database',
      'postgres://u:pw@h/d',
    ];
    const { code, stdout, stderr } = await millrace(['settings', '--json', ...flags], { env });
    assert.equal(code, 0, stderr);
    const shown = JSON.parse(stdout) as { name: string; value: string; origin: string }[];
    const one = (name: string) => {
      const { value, origin } = shown.find((setting) => setting.name === name) ?? {};
      return [value, origin];
    };
    assert.deepEqual(one('port'), ['3', 'flag']);
    assert.deepEqual(one('host'), ['::1', 'environment']);
    assert.deepEqual(one('refreshGraceSeconds'), ['20', 'file']);
    assert.deepEqual(one('logLevel'), ['info', 'default']);
    assert.deepEqual(one('bootstrapClientSecret'), ['***', 'environment']);
    assert.deepEqual(one('database'), ['postgres://u:***@h/d', 'flag']);
    assert.ok(!stdout.includes(secret) && !stdout.includes('pw@'));
    for (const setting of shown) assert.ok((setting as { description?: string }).description, setting.name);
  });

  test('an unknown or wrong setting stops the start with its name and what is allowed', async (t) => {
    const data = await folder(t);
    const file = join(data, 'wrong.json');
    await writeFile(file, JSON.stringify({ prot: 1 }));
    const cases: [Record<string, string>, string[], RegExp][] = [
      [{ MILLRACE_PROT: '1' }, [], /MILLRACE_PROT is not a setting\. Did you mean "MILLRACE_PORT"/],
      [{}, ['--config', file], /prot in .*wrong\.json is not a setting\. Did you mean "port"/],
      [{ MILLRACE_PORT: 'x' }, [], /MILLRACE_PORT: .*expected number/],
      [{ MILLRACE_LOG_LEVEL: 'loud' }, [], /MILLRACE_LOG_LEVEL: .*"debug".*"info"/],
      [{ MILLRACE_OPEN_METRICS: 'yes' }, [], /MILLRACE_OPEN_METRICS: .*boolean/],
      [{ MILLRACE_BOOTSTRAP_CLIENT_ID: 'x' }, [], /given together/],
      [{ MILLRACE_CONFIG: join(data, 'missing.json') }, [], /missing\.json cannot be read/],
    ];
    for (const [env, args, says] of cases) {
      const { code, stderr } = await millrace(['serve', '--data', data, ...args], { env });
      assert.equal(code, 2, stderr);
      assert.match(stderr, says);
    }
  });
});

describe('Command line: keys rotate', () => {
  test('seals everything anew while the service runs; the old key goes', async (t) => {
    const data = await folder(t);
    await mkdir(data, { recursive: true });
    const service = await spawnService(t, { data });
    const before = await readFile(join(data, 'master.key'), 'utf8');
    const { code, stdout, stderr } = await millrace(['keys', 'rotate', '--data', data, '--json']);
    assert.equal(code, 0, stderr);
    assert.match((JSON.parse(stdout) as { keyId: string }).keyId, /^[0-9a-f]{12}$/);
    const after = await readFile(join(data, 'master.key'), 'utf8');
    assert.notEqual(after, before);
    assert.equal(after.trim().split('\n').length, 1);
    assert.equal((await stat(join(data, 'master.key'))).mode & 0o777, 0o600);
    service.child.kill('SIGTERM');
    await once(service.child, 'exit');
    await spawnService(t, { data }); // starts, so the key check opens under the new key
  });

  test('a database that was sealed under another key stops the start', async (t) => {
    const data = await folder(t);
    const first = await spawnService(t, { data });
    first.child.kill('SIGTERM');
    await once(first.child, 'exit');
    const env = { MILLRACE_MASTER_KEY: Buffer.alloc(32, 1).toString('base64') };
    const { code, stderr } = await millrace(['serve', '--data', data, '--port', '0'], { env });
    assert.equal(code, 1);
    assert.match(stderr, /the master key does not fit the database/);
  });
});
