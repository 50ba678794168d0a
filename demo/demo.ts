/** `npm run demo`: the whole way from an empty folder to a table that was filled by a paged download. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { readFile } from 'node:fs/promises';
import { millrace, startMillrace, startShop } from './processes.ts';

const APPLICATION = join(import.meta.dirname, 'shop.yaml');
const PASSWORD = 'a password for the demo';

interface TokenPair {
  access_token: string;
  refresh_token: string;
}

const data = await mkdtemp(join(tmpdir(), 'millrace-demo-'));
const place = ['--data', data];
const stops: (() => Promise<void>)[] = [];
try {
  await demonstrate();
} finally {
  for (const stop of stops) await stop();
  await rm(data, { recursive: true, force: true });
}

async function demonstrate(): Promise<void> {
  say('1. Start the service on an empty data folder');
  const serve = ['serve', ...place, '--port', '0'];
  command(`npx millrace ${serve.join(' ')}`);
  const service = await startMillrace(serve);
  stops.push(service.stop);
  result(`listens on ${service.url}`);

  say('2. Create a client and a user');
  const credentials = await createClientAndUser();

  say('3. Take a token by each grant');
  const token = await tokenByEachGrant(service.url, credentials);

  say('4. Describe what to download: a source with its credentials, a model, a request (demo/shop.yaml)');
  const shop = await startShop();
  stops.push(shop.stop);
  result(`a small shop with 1,000 orders behind OAuth runs at ${shop.url}`);
  command(`npx millrace apply demo/shop.yaml ${place.join(' ')}`);
  const env = {
    SHOP_URL: shop.url,
    SHOP_TOKEN_URL: `${shop.url}/oauth/token`,
    SHOP_CLIENT_ID: 'client-1',
    SHOP_CLIENT_SECRET: 'client-secret-1',
  };
  for (const line of (await millrace(['apply', APPLICATION, ...place], { env })).split('\n')) result(line);

  say('5. Run the download through executeJob');
  const jobId = await runDownload(service.url, token);

  say('6. Look at the table');
  const table = ['table', 'shop', 'local', 'main', 'orders', '--limit', '5', ...place];
  command(`npx millrace ${table.join(' ')}`);
  for (const line of (await millrace(table)).split('\n')) result(line);

  say('7. Look at what was sent and received, page by page');
  await showPages(service.url, token, jobId);

  say('With an API of your own: copy demo/shop.yaml, change its source, URL and script, then');
  command('npm start');
  command('npx millrace apply my-application.yaml');
  command('npx millrace run shop "download orders"');
  result('docs/downloading-pages.md has an example for each kind of paging');
}

async function createClientAndUser(): Promise<Record<string, string>> {
  command(`npx millrace client create --name demo ${place.join(' ')} --json`);
  const created = await millrace(['client', 'create', '--name', 'demo', '--json', ...place]);
  const { client_id = '', client_secret = '' } = JSON.parse(created) as Record<string, string>;
  result(`client_id ${client_id}, client_secret ${client_secret.slice(0, 8)}… (shown once)`);
  command(`echo "$PASSWORD" | npx millrace user create --username ann --role editor ${place.join(' ')}`);
  result(
    await millrace(['user', 'create', '--username', 'ann', '--role', 'editor', ...place], {
      input: PASSWORD,
    }),
  );
  return { client_id, client_secret };
}

async function tokenByEachGrant(url: string, credentials: Record<string, string>): Promise<string> {
  const first = await token(url, { grant_type: 'client_credentials', ...credentials });
  await token(url, { grant_type: 'password', ...credentials, username: 'ann', password: PASSWORD });
  const refreshed = await token(url, { grant_type: 'refresh_token', refresh_token: first.refresh_token });
  command(`curl ${url}/api/v1/applications`);
  const refused = await fetch(`${url}/api/v1/applications`);
  result(`without a token: ${refused.status} ${await refused.text()}`);
  return refreshed.access_token;
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

async function runDownload(url: string, bearer: string): Promise<string> {
  const { requests } = parseDocument(await readFile(APPLICATION, 'utf8')).toJS() as {
    requests: { name: string }[];
  };
  const { name: _, ...opParams } = requests[0] as { name: string };
  command(
    `curl ${url}/api/v1/executeJob -H 'Authorization: Bearer ${bearer.slice(0, 10)}…' -d '{"appId": "shop", …}'`,
  );
  const response = await fetch(`${url}/api/v1/executeJob`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      appId: 'shop',
      responseFormat: 'json',
      operation: { opName: 'HTTPRequest', opParams },
    }),
  });
  const { result: job } = (await response.json()) as { result: { jobId: string; output: unknown } };
  if (!response.ok) throw new Error(`the job failed: ${JSON.stringify(job)}`);
  result(`${response.status} job ${job.jobId}: ${JSON.stringify(job.output)}`);
  return job.jobId;
}

async function showPages(url: string, bearer: string, jobId: string): Promise<void> {
  command(`curl ${url}/api/v1/jobs/${jobId}/pages -H 'Authorization: Bearer …'`);
  const response = await fetch(`${url}/api/v1/jobs/${jobId}/pages`, {
    headers: { authorization: `Bearer ${bearer}` },
  });
  const { result: pages } = (await response.json()) as { result: { items: Page[] } };
  for (const { n, request, status, records, bytes, timing, next } of pages.items) {
    const took = timing.sendMs + timing.parseMs + timing.loadMs;
    const goesOn = next ? `goes on: ${next.why}` : 'the last page';
    result(
      `${String(n).padStart(2)}  ${status}  ${request.url}  ${records} records, ${bytes} bytes, ${took} ms; ${goesOn}`,
    );
  }
  const [first] = pages.items;
  for (const { name, value, setBy } of first?.request.headers ?? [])
    result(`    ${name}: ${value} (from the ${setBy})`);
}

interface Page {
  n: number;
  request: { url: string; headers: { name: string; value: string; setBy: string }[] };
  status: number;
  records: number;
  bytes: number;
  timing: { sendMs: number; parseMs: number; loadMs: number };
  next: { why: string } | null;
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
