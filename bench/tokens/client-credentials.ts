import { fileURLToPath } from 'node:url';
import type { LoadGenerator } from '../measure/load.ts';
import { measureInTurns, type Contender, type Standing } from '../measure/rounds.ts';
import { ServerProcess } from '../measure/server-process.ts';
import type { BenchOptions, Section } from '../part.ts';
import { startMillrace, tokensInSqlite, type ClientCredentials } from './millrace.ts';
import { freshPostgresDatabase, tokensInPostgres } from './postgres.ts';
import { ratioSection, standingSection } from './sections.ts';

const peerProgram = fileURLToPath(new URL('./oidc-provider-server.ts', import.meta.url));

const TARGET = 2;
const names = {
  sqlite: 'millrace, SQLite on disk',
  postgres: 'millrace, PostgreSQL',
  peer: 'oidc-provider, in memory',
};

/** The same form to each; ours is durable, the peer's tokens are gone with its process. */
export async function measureGrant(
  load: LoadGenerator,
  options: BenchOptions,
): Promise<{ sections: Section[]; standings: Standing[] }> {
  await using stack = new AsyncDisposableStack();
  const millrace = await startMillrace(stack);
  const peer = stack.use(
    await ServerProcess.start(process.execPath, ['--disable-warning=ExperimentalWarning', peerProgram], {
      BENCH_CLIENT: JSON.stringify(millrace.client),
    }),
  );
  const contenders = [
    contender(names.sqlite, millrace.server, '/api/v1/oauth2/token', millrace.client),
    contender(names.peer, peer, '/token', millrace.client),
  ];
  const postgres = await freshPostgresDatabase(stack);
  if ('url' in postgres) {
    const overPostgres = await startMillrace(stack, postgres.url);
    contenders.push(
      contender(names.postgres, overPostgres.server, '/api/v1/oauth2/token', overPostgres.client),
    );
  }
  for (const each of contenders) await requireToken(each);

  const standings = await measureInTurns(contenders, load, options);
  const stored = [requireStored(standings, names.sqlite, tokensInSqlite(millrace.data))];
  if ('url' in postgres) {
    stored.push(requireStored(standings, names.postgres, await tokensInPostgres(postgres.url)));
    if (!postgres.durable)
      stored.push('This PostgreSQL server does not wait for the disk: its tokens are not durable.');
  } else stored.push(`PostgreSQL was not measured: ${postgres.missing}`);
  return { sections: sections(standings, stored), standings };
}

function sections(standings: Standing[], notes: string[]): Section[] {
  const pairs = [names.sqlite, names.postgres]
    .filter((name) => standings.some((standing) => standing.name === name))
    .map((name): [string, string] => [name, names.peer]);
  const ratios = ratioSection('client_credentials, compared round by round', standings, pairs);
  return [
    standingSection('The client_credentials grant', 'tokens/s', standings, notes),
    { ...ratios, notes: [`The target is ${TARGET} times the peer's rate with our durable storage.`] },
  ];
}

function contender(name: string, server: ServerProcess, path: string, client: ClientCredentials): Contender {
  const { client_id, client_secret } = client;
  return {
    name,
    pid: server.pid,
    request: {
      url: server.url + path,
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret }).toString(),
    },
  };
}

async function requireToken({ name, request }: Contender): Promise<void> {
  const { url, method, headers, body } = request;
  const response = await fetch(url, { method, headers, body: body as string });
  const text = await response.text();
  if (response.status !== 200 || !(JSON.parse(text) as { access_token?: string }).access_token) {
    throw new Error(`${name} answered ${response.status} without a token: ${text.slice(0, 200)}`);
  }
}

/** A token that was answered and is not in the database would make the comparison worthless. */
function requireStored(standings: Standing[], name: string, stored: number): string {
  const standing = standings.find((each) => each.name === name);
  if (!standing) throw new Error(`${name} was not measured`);
  const rounds = standing.measurements.reduce((sum, { answers }) => sum + answers, 0);
  const answered = rounds + standing.warmupAnswers;
  if (stored < answered)
    throw new Error(`${name}: ${answered} tokens were answered, ${stored} are in the database`);
  return `${name}: ${answered} tokens were answered, ${stored} are in the database (the rest was under way at the end of a round).`;
}
