import { fileURLToPath } from 'node:url';
import type { LoadGenerator } from '../measure/load.ts';
import { measureInTurns, medianOf, type Contender, type Standing } from '../measure/rounds.ts';
import { ServerProcess } from '../measure/server-process.ts';
import type { BenchOptions, Section } from '../part.ts';
import { startMillrace, type RunningMillrace } from './millrace.ts';
import { named, ratioSection, standingSection } from './sections.ts';

const bareProgram = fileURLToPath(new URL('./fastify-server.ts', import.meta.url));

const APPLICATIONS = 10;
const TARGET_PERCENT = 10;
const PATH = '/api/v1/applications';
const names = {
  checked: `millrace, GET ${PATH} with a token`,
  ready: 'millrace, GET /health/ready (public, one statement)',
  live: 'millrace, GET /health/live (public, no statement)',
  bareChecked: 'bare Fastify, the same JSON, behind the same check',
  bare: 'bare Fastify, the same JSON, no check',
};

export async function measureBearerCheck(
  load: LoadGenerator,
  options: BenchOptions,
): Promise<{ sections: Section[]; standings: Standing[] }> {
  await using stack = new AsyncDisposableStack();
  const millrace = await startMillrace(stack);
  const headers = { authorization: `Bearer ${await takeToken(millrace)}` };
  const answer = await makeApplications(millrace, headers);
  const bare = stack.use(
    await ServerProcess.start(process.execPath, ['--disable-warning=ExperimentalWarning', bareProgram], {
      BENCH_ANSWER: answer,
      BENCH_DATA: millrace.data,
    }),
  );
  const get = (name: string, { pid, url }: ServerProcess, path: string, headers = {}): Contender => ({
    name,
    pid,
    request: { url: url + path, method: 'GET', headers },
  });
  const standings = await measureInTurns(
    [
      get(names.checked, millrace.server, PATH, headers),
      get(names.ready, millrace.server, '/health/ready'),
      get(names.live, millrace.server, '/health/live'),
      get(names.bareChecked, bare, '/checked', headers),
      // With the header all the same, so that nothing but the check is between the two.
      get(names.bare, bare, '/unchecked', headers),
    ],
    load,
    options,
  );
  return { sections: sections(standings, answer), standings };
}

function sections(standings: Standing[], answer: string): Section[] {
  const cost = (name: string) =>
    medianOf(named(standings, name), ({ serverCpuMicrosecondsPerAnswer }) => serverCpuMicrosecondsPerAnswer);
  const [checked, ready, live] = [cost(names.checked), cost(names.ready), cost(names.live)];
  const percent = (part: number) => `${((part / checked) * 100).toFixed(0)} %`;
  const ratios = ratioSection('The bearer-checked GET, compared round by round', standings, [
    [names.bareChecked, names.bare],
    [names.checked, names.bare],
    [names.checked, names.ready],
    [names.checked, names.live],
  ]);
  return [
    standingSection('A GET with a bearer token', 'answers/s', standings, [
      `The list holds ${APPLICATIONS} applications, ${Buffer.byteLength(answer)} bytes. One process answers all three requests to millrace, another both to Fastify.`,
    ]),
    {
      ...ratios,
      notes: [
        `The target for the check itself, the first line, is ${TARGET_PERCENT} % of the bare route at most.`,
        `Of the CPU of a checked answer, the token's check, the list and its larger JSON take ${percent(checked - live)} ` +
          `(against /health/live). Against /health/ready, which also runs one statement, ${percent(checked - ready)} ` +
          'remain: the bearer check, and what the list costs more than that statement.',
      ],
    },
  ];
}

async function takeToken({ server, client }: RunningMillrace): Promise<string> {
  const { client_id, client_secret } = client;
  const response = await fetch(`${server.url}/api/v1/oauth2/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret }),
  });
  if (response.status !== 200) throw new Error(`no token: ${response.status}`);
  return ((await response.json()) as { access_token: string }).access_token;
}

/** Gives the answer that lists them. */
async function makeApplications(
  { server }: RunningMillrace,
  headers: Record<string, string>,
): Promise<string> {
  for (let number = 1; number <= APPLICATIONS; number += 1) {
    const response = await fetch(server.url + PATH, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({
        appId: `bench-${String(number).padStart(2, '0')}`,
        name: `Application ${number}`,
      }),
    });
    if (response.status !== 201)
      throw new Error(`no application: ${response.status} ${await response.text()}`);
  }
  const list = await fetch(server.url + PATH, { headers });
  if (list.status !== 200) throw new Error(`no list: ${list.status}`);
  return list.text();
}
