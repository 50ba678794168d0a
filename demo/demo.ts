/** `npm run demo`: the service on an empty data folder, a client, a token by each grant, a protected call. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

const MILLRACE = join(import.meta.dirname, '../bin/millrace');
const PASSWORD = 'a password for the demo';

interface TokenPair {
  access_token: string;
  refresh_token: string;
}

const data = await mkdtemp(join(tmpdir(), 'millrace-demo-'));
const serve = ['serve', '--data', data, '--port', '0', '--log-level', 'warn'];
const service = spawn(MILLRACE, serve, { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  await demonstrate();
} finally {
  if (service.exitCode === null) {
    service.kill('SIGTERM');
    await once(service, 'exit');
  }
  await rm(data, { recursive: true, force: true });
}

async function demonstrate(): Promise<void> {
  say('1. Start the service on an empty data folder');
  command(`npx millrace ${serve.join(' ')}`);
  const url = await listening();
  result(`listens on ${url}`);

  say('2. Create a client and a user');
  const client = await millrace(['client', 'create', '--name', 'demo']);
  result(
    `client_id ${client['client_id']}, client_secret ${client['client_secret']?.slice(0, 8)}… (shown once)`,
  );
  await millrace(['user', 'create', '--username', 'ann', '--role', 'editor'], PASSWORD);
  result('user ann (editor)');

  say('3. Take a token by each grant');
  const credentials = { client_id: client['client_id'] ?? '', client_secret: client['client_secret'] ?? '' };
  const first = await token(url, { grant_type: 'client_credentials', ...credentials });
  await token(url, { grant_type: 'password', ...credentials, username: 'ann', password: PASSWORD });
  const { access_token } = await token(url, {
    grant_type: 'refresh_token',
    refresh_token: first.refresh_token,
  });

  say('4. Call a protected endpoint');
  await call(url, null);
  await call(url, 'a token that is none');
  await call(url, access_token);

  say('That is all. To go on with a service of your own: npm start, and README.md');
}

async function listening(): Promise<string> {
  const ended = once(service, 'exit').then(() => Promise.reject(new Error('the service did not start')));
  const found = (async () => {
    for await (const line of createInterface({ input: service.stdout })) {
      const url = /listens on (\S+)/.exec(line)?.[1];
      if (url) return url;
    }
    throw new Error('the service did not say where it listens');
  })();
  return Promise.race([found, ended]);
}

async function millrace(words: string[], input = ''): Promise<Record<string, string>> {
  const args = [...words, '--data', data, '--json'];
  command(`${input && 'echo "$PASSWORD" | '}npx millrace ${args.join(' ')}`);
  const child = spawn(MILLRACE, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(input);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (code !== 0) throw new Error(`millrace ${words.join(' ')} ended with ${code}`);
  return JSON.parse(output) as Record<string, string>;
}

async function token(url: string, fields: Record<string, string>): Promise<TokenPair> {
  const shown = Object.keys(fields).map((name) => `-d ${name}=${name === 'grant_type' ? fields[name] : '…'}`);
  command(`curl ${url}/api/v1/oauth2/token ${shown.join(' ')}`);
  const response = await fetch(`${url}/api/v1/oauth2/token`, {
    method: 'POST',
    body: new URLSearchParams(fields),
  });
  const body = (await response.json()) as TokenPair;
  if (!response.ok) throw new Error(`no token: ${JSON.stringify(body)}`);
  result(`${response.status} ${JSON.stringify(body).replaceAll(/(mr[ar]_.{6})[^"]*/g, '$1…')}`);
  return body;
}

async function call(url: string, bearer: string | null): Promise<void> {
  command(
    `curl ${url}/api/v1/applications${bearer ? ` -H 'Authorization: Bearer ${bearer.slice(0, 10)}…'` : ''}`,
  );
  const headers = bearer === null ? {} : { authorization: `Bearer ${bearer}` };
  const response = await fetch(`${url}/api/v1/applications`, { headers });
  result(`${response.status} ${await response.text()}`);
}

function say(line: string): void {
  console.log(`\n${line}`);
}

function command(line: string): void {
  console.log(`   $ ${line}`);
}

function result(line: string): void {
  console.log(`     ${line}`);
}
