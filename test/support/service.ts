import type { TestContext } from 'node:test';
import { pino } from 'pino';
import type { NewClient, Role } from '../../src/model/access.ts';
import { startService, type Service } from '../../src/service.ts';
import { resolveSettings, type Settings } from '../../src/settings.ts';
import { sqlitePlace, type Place } from './databases.ts';

/** Cheap to compute: the strength of argon2id is not what these tests are about. */
const CHEAP_HASHING = { argon2MemoryKib: 64, argon2Passes: 1 } as const;

export interface TestService extends Service {
  settings: Settings;
  clock: Clock;
  /** What the service has logged, one JSON text a line. */
  log: string[];
  /** Posts a form to an endpoint under /api/v1/oauth2/. */
  form(fields: Record<string, string> | string, options?: FormOptions): Promise<Answer>;
  newClient(client?: Partial<NewClient>): Promise<Credentials>;
  /** The access token of a new client with this role. */
  tokenOf(role: Role, client?: Partial<NewClient>): Promise<string>;
  /** Calls the API with a token, unless that is null. */
  call(method: string, path: string, token: string | null, body?: unknown): Promise<Answer>;
}

export interface Credentials {
  client_id: string;
  client_secret: string;
}

export interface FormOptions {
  endpoint?: 'token' | 'revoke' | 'introspect';
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
  body: any;
}

/** A clock that stands still until a test moves it, or lets it run. */
export class Clock {
  time = Date.now();
  #runningSince: number | null = null;
  readonly now = (): number =>
    this.time + (this.#runningSince === null ? 0 : Date.now() - this.#runningSince);
  run(): void {
    this.#runningSince ??= Date.now();
  }
  advance(seconds: number): void {
    this.time += seconds * 1000;
  }
}

export async function startTestService(
  t: TestContext,
  options: { settings?: Partial<Settings>; place?: Place; newPlace?: () => Promise<Place> } = {},
): Promise<TestService> {
  const place = options.place ?? (await (options.newPlace ?? sqlitePlace)());
  const { values: defaults } = resolveSettings({}, {});
  const settings: Settings = {
    ...defaults,
    ...CHEAP_HASHING,
    data: place.data,
    database: place.database,
    port: 0,
    ...options.settings,
  };
  const clock = new Clock();
  const log: string[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => void log.push(line) });
  const service = await startService(settings, logger, clock.now);
  t.after(async () => {
    await service.stop();
    if (!options.place) await place.remove();
  });

  const testService: TestService = {
    ...service,
    settings,
    clock,
    log,
    async form(fields, { endpoint = 'token', headers = {} } = {}) {
      return answer(
        await fetch(`${service.url}/api/v1/oauth2/${endpoint}`, {
          method: 'POST',
          headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
          body: typeof fields === 'string' ? fields : new URLSearchParams(fields).toString(),
        }),
      );
    },
    async newClient(client = {}) {
      const created = await service.system.clients.create({
        name: 'test',
        role: 'editor',
        grants: ['client_credentials', 'password', 'refresh_token'],
        applications: null,
        ...client,
      });
      return { client_id: created.client_id, client_secret: created.client_secret };
    },
    async tokenOf(role, client = {}) {
      const credentials = await testService.newClient({ ...client, role });
      const { body } = await testService.form({ grant_type: 'client_credentials', ...credentials });
      return body.access_token as string;
    },
    async call(method, path, token, body) {
      return answer(
        await fetch(`${service.url}${path}`, {
          method,
          headers: {
            ...(token !== null && { authorization: `Bearer ${token}` }),
            ...(body !== undefined && { 'content-type': 'application/json' }),
          },
          ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        }),
      );
    },
  };
  return testService;
}

async function answer(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json');
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? JSON.parse(text) : undefined,
  };
}
