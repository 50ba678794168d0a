import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { openPostgres } from '../../../database/adapters/postgres.ts';
import { openSqlite } from '../../../database/adapters/sqlite.ts';
import type { Database } from '../../../database/database.ts';
import type { HttpClient } from '../../../http/http-client.ts';
import { closedPort, httpClient, httpServer, rawAnswer } from '../../../http/testing.ts';
import { Auth } from '../../../model/source.ts';
import { Leases } from '../../../system/leases.ts';
import { MasterKeys } from '../../../system/master-key.ts';
import { migrate } from '../../../system/migrations/migrate.ts';
import type { Records } from '../../../system/records.ts';
import { Secrets } from '../../../system/secrets.ts';
import { onEachDatabase } from '../../../../test/support/databases.ts';
import { AuthorizationError, createAuthorizer, OAuthTokens, type Authorizer } from '../authorization.ts';
import { HeaderList } from '../header-list.ts';
import { InterceptorRegistry, type PreparedRequest } from '../interceptors/interceptor.ts';

const SOURCE = 'app/crm';

/** A clock that stands still until a test moves it. */
class Clock {
  time = Date.UTC(2026, 0, 1);
  readonly now = (): number => this.time;
  pass(seconds: number): void {
    this.time += seconds * 1000;
  }
}

interface TokenCall {
  form: Record<string, string>;
  headers: IncomingMessage['headers'];
}
type Answer = { status?: number; headers?: Record<string, string>; body: unknown };

/** Counts and answers token requests; by default each gets the next of token-1, token-2, … */
class TokenEndpoint {
  readonly calls: TokenCall[] = [];
  url = '';
  answer = (_call: TokenCall, n: number): Answer | Promise<Answer> => ({
    body: { access_token: `token-${n}`, token_type: 'Bearer', expires_in: 3600 },
  });

  static async start(t: TestContext): Promise<TokenEndpoint> {
    const endpoint = new TokenEndpoint();
    endpoint.url = `${await httpServer(t, (request, response) => {
      endpoint.#handle(request, response).catch((error: Error) => response.destroy(error));
    })}/oauth/token`;
    return endpoint;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks = (await request.toArray()) as Buffer[];
    const form = Object.fromEntries(new URLSearchParams(Buffer.concat(chunks).toString()));
    assert.equal(request.method, 'POST');
    assert.equal(request.headers['content-type'], 'application/x-www-form-urlencoded');
    const call = { form, headers: request.headers };
    this.calls.push(call);
    const { status = 200, headers = {}, body } = await this.answer(call, this.calls.length);
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  }
}

function clientCredentials(tokenUrl: string, more: object = {}) {
  const fixed = { type: 'oauth2', grant: 'client_credentials', clientId: 'id', clientSecret: 'hush-secret' };
  return { ...fixed, tokenUrl, ...more };
}

function withRefreshToken(tokenUrl: string, more: object = {}) {
  return clientCredentials(tokenUrl, { grant: 'refresh_token', refreshToken: 'hush-refresh-0', ...more });
}

interface Using {
  sourceKey?: string | null;
  signal?: AbortSignal;
}

function authorizerOf(
  tokens: OAuthTokens,
  auth: unknown,
  { sourceKey = SOURCE, signal }: Using = {},
): Authorizer {
  return createAuthorizer(Auth.parse(auth), {
    tokens,
    sourceKey,
    interceptors: new InterceptorRegistry([]),
    runScript: () => assert.fail('no script was asked for'),
    signal: signal ?? new AbortController().signal,
  });
}

function request(headers: Record<string, string> = {}): PreparedRequest {
  const list = new HeaderList();
  list.setFromObject(headers, 'script');
  return { method: 'GET', url: 'https://api.example.com/', headers: list, body: null };
}

async function authorization(authorizer: Authorizer): Promise<string | undefined> {
  return (await authorizer.apply(request())).headers.get('authorization');
}

/** Tokens that nobody shares. */
function alone(t: TestContext, clock = new Clock()): OAuthTokens {
  const unused = () => assert.fail('the database was asked');
  return new OAuthTokens({
    client: httpClient(t),
    secrets: { get: unused, put: unused, delete: unused },
    leases: { withLease: unused },
    now: clock.now,
  });
}

describe('token requests', () => {
  async function formOf(t: TestContext, auth: (url: string) => object): Promise<TokenCall> {
    const endpoint = await TokenEndpoint.start(t);
    const authorizer = authorizerOf(alone(t), auth(endpoint.url), { sourceKey: null });
    assert.equal(await authorization(authorizer), 'Bearer token-1');
    assert.equal(endpoint.calls.length, 1);
    return endpoint.calls[0] as TokenCall;
  }

  test('client_credentials', async (t) => {
    const { form, headers } = await formOf(t, (url) =>
      clientCredentials(url, {
        scope: 'a b',
        audience: 'https://api',
        refreshToken: 'unused',
        password: 'unused',
      }),
    );
    assert.deepEqual(form, {
      grant_type: 'client_credentials',
      client_id: 'id',
      client_secret: 'hush-secret',
      scope: 'a b',
      audience: 'https://api',
    });
    assert.equal(headers.authorization, undefined);
    assert.equal(headers.accept, 'application/json');
  });

  test('password', async (t) => {
    const { form } = await formOf(t, (url) =>
      clientCredentials(url, {
        grant: 'password',
        username: 'ü@x',
        password: 'p&=+ %',
        clientSecret: undefined,
      }),
    );
    assert.deepEqual(form, { grant_type: 'password', client_id: 'id', username: 'ü@x', password: 'p&=+ %' });
  });

  test('refresh_token', async (t) => {
    const { form } = await formOf(t, withRefreshToken);
    assert.deepEqual(form, {
      grant_type: 'refresh_token',
      client_id: 'id',
      client_secret: 'hush-secret',
      refresh_token: 'hush-refresh-0',
    });
  });

  test('the client by Basic, percent-encoded by RFC 6749', async (t) => {
    const { form, headers } = await formOf(t, (url) =>
      clientCredentials(url, { clientAuth: 'basic', clientId: 'my:id', clientSecret: 'a b+/%é' }),
    );
    assert.deepEqual(form, { grant_type: 'client_credentials' });
    const [, credentials = ''] = /^Basic (.*)$/.exec(headers.authorization ?? '') ?? [];
    assert.equal(Buffer.from(credentials, 'base64').toString(), 'my%3Aid:a+b%2B%2F%25%C3%A9');
  });

  test('settings that could bring no token are refused at once', (t) => {
    const tokens = alone(t);
    const missing: [object, string][] = [
      [{ clientSecret: undefined }, 'auth.clientSecret'],
      [{ grant: 'password', password: 'p' }, 'auth.username'],
      [{ grant: 'password', username: 'u' }, 'auth.password'],
      [{ grant: 'refresh_token' }, 'auth.refreshToken'],
    ];
    for (const [more, path] of missing) {
      assert.throws(
        () => authorizerOf(tokens, clientCredentials('http://127.0.0.1/token', more)),
        (error) => error instanceof AuthorizationError && error.path === path,
      );
    }
  });
});

describe('answers of a token endpoint', () => {
  type Expected = { kind: AuthorizationError['kind']; message: RegExp; transient?: boolean };

  async function failing(t: TestContext, tokenUrl: string, { kind, message, transient = false }: Expected) {
    const authorizer = authorizerOf(alone(t), withRefreshToken(tokenUrl), { sourceKey: null });
    await assert.rejects(authorization(authorizer), (error) => {
      assert.ok(error instanceof AuthorizationError, String(error));
      assert.equal(error.kind, kind, error.message);
      assert.equal(error.path, 'auth.tokenUrl');
      assert.match(error.message, message);
      assert.ok(error.message.includes(new URL(tokenUrl).origin), error.message);
      assert.equal(error.transient, transient);
      assert.doesNotMatch(error.message, /hush|query-secret/);
      return true;
    });
  }

  const good = { access_token: 'hush-access', token_type: 'Bearer', expires_in: 60 };
  const cases: [name: string, answer: Answer, expected: Expected][] = [
    [
      'an error, its text without the secrets that it repeats',
      {
        status: 401,
        body: { error: 'invalid_client', error_description: 'wrong\nsecret hush-secret or hush-refresh-0' },
      },
      {
        kind: 'token_refused',
        message:
          /^auth\.tokenUrl: the token endpoint http:\/\/127\.0\.0\.1:\d+\/oauth\/token gave no token: status 401, error invalid_client: wrong secret \*\*\* or \*\*\*$/,
      },
    ],
    [
      'invalid_grant says what to do',
      { status: 400, body: { error: 'invalid_grant' } },
      {
        kind: 'token_refused',
        message: /status 400, error invalid_grant; the refresh token.*not valid any more/,
      },
    ],
    [
      'an error with status 200',
      { body: { error: 'bad_refresh_token' } },
      { kind: 'token_refused', message: /status 200, error bad_refresh_token$/ },
    ],
    [
      'a long description is cut',
      { status: 400, body: { error: 'x', error_description: 'y'.repeat(10_000) } },
      { kind: 'token_refused', message: /: y{300}…$/ },
    ],
    [
      'a status without a body',
      { status: 403, body: '<html>hush</html>' },
      { kind: 'token_refused', message: /gave no token: status 403$/ },
    ],
    [
      'a fault of the server',
      { status: 500, body: '' },
      { kind: 'token_unavailable', message: /status 500$/, transient: true },
    ],
    [
      'a redirect is not followed',
      { status: 307, headers: { Location: '/elsewhere' }, body: '' },
      { kind: 'token_refused', message: /status 307; it redirects, which is not followed/ },
    ],
    [
      'no JSON',
      { body: 'access_token=hush-access' },
      { kind: 'token_invalid', message: /status 200 and a body which is no JSON object$/ },
    ],
    ['JSON, but no object', { body: [good] }, { kind: 'token_invalid', message: /no JSON object/ }],
    ['empty', { body: '' }, { kind: 'token_invalid', message: /no JSON object, but empty/ }],
    [
      'without access_token',
      { body: { ...good, access_token: undefined } },
      { kind: 'token_invalid', message: /a body without access_token; it must be/ },
    ],
    [
      'an access_token that no header can carry',
      { body: { ...good, access_token: 'hush\r\nX-Evil: 1' } },
      { kind: 'token_invalid', message: /whose access_token is not usable; it must be a string of visible/ },
    ],
    [
      'an empty access_token',
      { body: { ...good, access_token: '' } },
      { kind: 'token_invalid', message: /whose access_token is not usable/ },
    ],
    [
      'another token_type',
      { body: { ...good, token_type: 'mac' } },
      { kind: 'token_invalid', message: /whose token_type is not usable; it must be "Bearer"/ },
    ],
    [
      'expires_in that is no number',
      { body: { ...good, expires_in: 'soon' } },
      { kind: 'token_invalid', message: /whose expires_in is not usable; it must be a number of seconds/ },
    ],
    [
      'huge',
      { body: { ...good, more: 'x'.repeat(2 ** 20) } },
      { kind: 'token_invalid', message: /answered with a body larger than 1024 KiB/ },
    ],
  ];
  for (const [name, answer, expected] of cases) {
    test(name, async (t) => {
      const endpoint = await TokenEndpoint.start(t);
      endpoint.answer = () => answer;
      await failing(t, `${endpoint.url}?key=query-secret`, expected);
      assert.equal(endpoint.calls.length, 1);
    });
  }

  test('nobody listens', async (t) => {
    const tokenUrl = `http://127.0.0.1:${await closedPort()}/token`;
    await failing(t, tokenUrl, { kind: 'token_unavailable', message: /gave no answer/, transient: true });
  });

  test('an answer that is cut short', async (t) => {
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"access_token"';
    const tokenUrl = await rawAnswer(t, head, (socket) => socket.end());
    await failing(t, tokenUrl, { kind: 'token_unavailable', message: /gave no answer/, transient: true });
  });

  const accepted: [name: string, body: object][] = [
    ['token_type in other letters', { ...good, token_type: 'bearer' }],
    ['without token_type', { access_token: 'hush-access' }],
    ['null where nothing is known', { access_token: 'hush-access', expires_in: null, refresh_token: null }],
    ['expires_in as a string', { ...good, expires_in: '3600' }],
  ];
  for (const [name, body] of accepted) {
    test(`accepted: ${name}`, async (t) => {
      const endpoint = await TokenEndpoint.start(t);
      endpoint.answer = () => ({ body });
      const authorizer = authorizerOf(alone(t), clientCredentials(endpoint.url), { sourceKey: null });
      assert.equal(await authorization(authorizer), 'Bearer hush-access');
    });
  }
});

describe('the life of a token', () => {
  async function living(t: TestContext, answer?: TokenEndpoint['answer'], auth = clientCredentials) {
    const clock = new Clock();
    const endpoint = await TokenEndpoint.start(t);
    if (answer) endpoint.answer = answer;
    const tokens = alone(t, clock);
    const authorizer = authorizerOf(tokens, auth(endpoint.url), { sourceKey: null });
    return { clock, endpoint, tokens, authorizer };
  }

  test('renewed a minute before it ends', async (t) => {
    const { clock, endpoint, authorizer } = await living(t);
    assert.equal(await authorization(authorizer), 'Bearer token-1');
    clock.pass(3600 - 61);
    assert.equal(await authorization(authorizer), 'Bearer token-1');
    clock.pass(1);
    assert.equal(await authorization(authorizer), 'Bearer token-2');
    assert.equal(endpoint.calls.length, 2);
  });

  test('a short one when 90 % of its life are over', async (t) => {
    const answer: TokenEndpoint['answer'] = (_call, n) => ({
      body: { access_token: `t${n}`, expires_in: 100 },
    });
    const { clock, authorizer } = await living(t, answer);
    assert.equal(await authorization(authorizer), 'Bearer t1');
    clock.pass(89);
    assert.equal(await authorization(authorizer), 'Bearer t1');
    clock.pass(1);
    assert.equal(await authorization(authorizer), 'Bearer t2');
  });

  test('one that ends at once serves those who wait for it', async (t) => {
    const answer: TokenEndpoint['answer'] = (_call, n) => ({
      body: { access_token: `t${n}`, expires_in: 0 },
    });
    const { authorizer } = await living(t, answer);
    const got = await Promise.all([authorization(authorizer), authorization(authorizer)]);
    assert.deepEqual(got, ['Bearer t1', 'Bearer t1']);
    assert.equal(await authorization(authorizer), 'Bearer t2');
  });

  test('without expires_in it lives until it is refused', async (t) => {
    const { clock, authorizer } = await living(t, (_call, n) => ({ body: { access_token: `t${n}` } }));
    const sent = await authorizer.apply(request());
    clock.pass(1e9);
    assert.equal(await authorization(authorizer), 'Bearer t1');
    assert.equal(await authorizer.renew(sent), true);
    assert.equal(await authorization(authorizer), 'Bearer t2');
  });

  test('a 401 renews it once, a second one in a row does not', async (t) => {
    const { clock, endpoint, authorizer } = await living(t);
    const first = await authorizer.apply(request());
    assert.equal(await authorizer.renew(first), true);
    const second = await authorizer.apply(request());
    assert.equal(second.headers.get('authorization'), 'Bearer token-2');
    assert.equal(await authorizer.renew(second), false);
    assert.equal(await authorizer.renew(second), false);
    assert.equal(endpoint.calls.length, 2);
    // A request that was still under way with the old one has a new one to try.
    assert.equal(await authorizer.renew(first), true);
    assert.equal(endpoint.calls.length, 2);
    clock.pass(60);
    assert.equal(await authorizer.renew(second), true, 'much later it is another matter');
    assert.equal(endpoint.calls.length, 3);
  });

  test('an endpoint that gives the same token again has nothing new', async (t) => {
    const { authorizer } = await living(t, () => ({ body: { access_token: 'same', expires_in: 60 } }));
    assert.equal(await authorizer.renew(await authorizer.apply(request())), false);
  });

  test('many requests that are refused at once get one new token', async (t) => {
    const { endpoint, authorizer } = await living(t);
    const sent = await authorizer.apply(request());
    const renewed = await Promise.all(Array.from({ length: 20 }, () => authorizer.renew(sent)));
    assert.ok(renewed.every(Boolean));
    assert.equal(endpoint.calls.length, 2);
  });

  test('refused while somebody else waits for that very token: still one new token', async (t) => {
    const { endpoint, tokens } = await living(t);
    const cache = tokens.cache(
      Auth.parse(clientCredentials(endpoint.url)) as Extract<Auth, { type: 'oauth2' }>,
      null,
    );
    const { signal } = new AbortController();
    const waiting = cache.accessToken(signal);
    const refused = [cache.replace('token-1', signal), cache.replace('token-1', signal)];
    assert.equal(await waiting, 'token-1');
    assert.deepEqual(await Promise.all(refused), [true, true]);
    assert.equal(endpoint.calls.length, 2);
  });

  test('against a real API: 401 once, renewed, works', async (t) => {
    const { endpoint, authorizer } = await living(t);
    const client: HttpClient = httpClient(t);
    const api = await httpServer(t, (incoming, response) => {
      response.writeHead(incoming.headers.authorization === 'Bearer token-2' ? 200 : 401).end();
    });
    const statuses: number[] = [];
    const send = async (): Promise<number> => {
      const prepared = await authorizer.apply({ ...request(), url: api });
      const headers = [...prepared.headers].map(({ name, value }) => [name, value] as const);
      const response = await client.send(
        { method: 'GET', url: api, headers, body: null },
        {
          connectTimeoutMs: 5_000,
          readTimeoutMs: 5_000,
          writeTimeoutMs: 5_000,
          retry: { tries: 1, firstDelayMs: 1, longestDelayMs: 1, longestRetryAfterMs: 1 },
          redirects: 0,
          credentials: authorizer.credentials,
          signal: new AbortController().signal,
        },
      );
      await response.discard();
      statuses.push(response.statusCode);
      return response.statusCode === 401 && (await authorizer.renew(prepared)) ? send() : response.statusCode;
    };
    assert.equal(await send(), 200);
    assert.deepEqual(statuses, [401, 200]);
    assert.equal(endpoint.calls.length, 2);
  });

  test('an Authorization of the script wins, costs no token and is not renewed', async (t) => {
    const { endpoint, authorizer } = await living(t);
    const given = request({ authorization: 'Bearer mine' });
    assert.equal(await authorizer.apply(given), given);
    assert.equal(await authorizer.renew(given), false);
    assert.equal(endpoint.calls.length, 0);
  });

  test('every secret is listed, the tokens obtained later, too', async (t) => {
    const answer: TokenEndpoint['answer'] = (_call, n) => ({
      body: { access_token: `access-${n}`, refresh_token: `refresh-${n}`, expires_in: 60 },
    });
    const auth = (url: string) => withRefreshToken(url, { clientAuth: 'basic' });
    const { clock, authorizer } = await living(t, answer, auth);
    const settings = ['hush-secret', 'hush-refresh-0', Buffer.from('id:hush-secret').toString('base64')];
    const before = authorizer.secrets;
    assert.deepEqual(before, settings);
    await authorization(authorizer);
    assert.deepEqual(authorizer.secrets, [...settings, 'access-1', 'refresh-1']);
    assert.equal(authorizer.secrets, authorizer.secrets, 'the same array until there is another secret');
    for (let n = 2; n <= 30; n += 1) {
      clock.pass(60);
      await authorization(authorizer);
    }
    assert.equal(authorizer.secrets.length, settings.length + 20);
    assert.ok(authorizer.secrets.includes('access-30') && authorizer.secrets.includes('refresh-30'));
    assert.deepEqual(authorizer.credentials, { headers: ['Authorization'], parameters: [] });
  });

  test('a job that is cancelled stops waiting, the others get the token', async (t) => {
    const go = Promise.withResolvers<void>();
    const { endpoint, tokens } = await living(t);
    endpoint.answer = async () => {
      await go.promise;
      return { body: { access_token: 'late' } };
    };
    const cache = tokens.cache(
      Auth.parse(clientCredentials(endpoint.url)) as Extract<Auth, { type: 'oauth2' }>,
      null,
    );
    const abort = new AbortController();
    const cancelled = cache.accessToken(abort.signal);
    const other = cache.accessToken(new AbortController().signal);
    const reason = new Error('cancelled');
    abort.abort(reason);
    await assert.rejects(cancelled, reason);
    go.resolve();
    assert.equal(await other, 'late');
    await assert.rejects(cache.accessToken(abort.signal), reason);
  });

  test('a failure is not kept', async (t) => {
    const { endpoint, authorizer } = await living(t);
    const { answer } = endpoint;
    endpoint.answer = () => ({ status: 500, body: '' });
    await assert.rejects(authorization(authorizer), /status 500/);
    endpoint.answer = answer;
    assert.equal(await authorization(authorizer), 'Bearer token-2');
  });
});

onEachDatabase('Tokens that nodes share', (newPlace) => {
  async function cluster(t: TestContext) {
    const place = await newPlace();
    const clock = new Clock();
    const keys = MasterKeys.generate();
    const databases: Database<Records>[] = [];
    t.after(async () => {
      for (const database of databases) await database.close();
      await place.remove();
    });
    /** A node with its own connections and its own memory. */
    async function node(change: (secrets: Secrets) => Partial<Pick<Secrets, 'put'>> = () => ({})) {
      const database = place.database
        ? openPostgres<Records>(place.database, () => {})
        : openSqlite<Records>(join(place.data, 'records.sqlite'));
      databases.push(database);
      await migrate(database);
      const secrets = await Secrets.open(database, async () => keys);
      const bound = {
        get: (name: string) => secrets.get(name),
        put: (name: string, secret: string) => secrets.put(name, secret),
        delete: (name: string) => secrets.delete(name),
      };
      return new OAuthTokens({
        client: httpClient(t),
        secrets: { ...bound, ...change(secrets) },
        leases: new Leases(database),
        now: clock.now,
      });
    }
    return { clock, node, databases, endpoint: await TokenEndpoint.start(t) };
  }

  /** Exchanges each refresh token once, as strict servers do. */
  function rotating(endpoint: TokenEndpoint): void {
    let valid = 'hush-refresh-0';
    endpoint.answer = ({ form }, n) => {
      if (form['refresh_token'] !== valid) return { status: 400, body: { error: 'invalid_grant' } };
      valid = `refresh-${n}`;
      return { body: { access_token: `access-${n}`, refresh_token: valid, expires_in: 3600 } };
    };
  }

  test('50 requests at once on two nodes: one token request', async (t) => {
    const { node, endpoint } = await cluster(t);
    const { answer } = endpoint;
    endpoint.answer = async (call, n) => {
      await delay(50);
      return answer(call, n);
    };
    const nodes = [await node(), await node()] as const;
    const got = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        authorization(authorizerOf(nodes[index % 2] as OAuthTokens, clientCredentials(endpoint.url))),
      ),
    );
    assert.deepEqual(new Set(got), new Set(['Bearer token-1']));
    assert.equal(endpoint.calls.length, 1);
  });

  test('a 401 on both nodes: one renewal, and it is not renewed again on either', async (t) => {
    const { node, endpoint } = await cluster(t);
    const [one, other] = [
      authorizerOf(await node(), clientCredentials(endpoint.url)),
      authorizerOf(await node(), clientCredentials(endpoint.url)),
    ];
    const sent = await one.apply(request());
    await other.apply(request());
    assert.deepEqual(await Promise.all([one.renew(sent), other.renew(sent)]), [true, true]);
    const second = await other.apply(request());
    assert.equal(second.headers.get('authorization'), 'Bearer token-2');
    assert.deepEqual(await Promise.all([one.renew(second), other.renew(second)]), [false, false]);
    assert.equal(endpoint.calls.length, 2);
  });

  test('a restart finds the token, sealed', async (t) => {
    const { node, endpoint, databases } = await cluster(t);
    await authorization(authorizerOf(await node(), clientCredentials(endpoint.url)));
    assert.equal(
      await authorization(authorizerOf(await node(), clientCredentials(endpoint.url))),
      'Bearer token-1',
    );
    assert.equal(endpoint.calls.length, 1);
    const [database] = databases as [Database<Records>];
    const rows = await database.query.selectFrom('sealed').selectAll().execute();
    assert.ok(rows.some(({ name }) => name === `oauth2-token:${SOURCE}`));
    assert.doesNotMatch(JSON.stringify(rows), /token-1|hush/);
  });

  test('changed credentials never meet an old token, nor does another source', async (t) => {
    const { node, endpoint } = await cluster(t);
    const tokens = await node();
    const take = (more: object, sourceKey = SOURCE) =>
      authorization(authorizerOf(tokens, clientCredentials(endpoint.url, more), { sourceKey }));
    assert.equal(await take({}), 'Bearer token-1');
    assert.equal(await take({ clientSecret: 'other' }), 'Bearer token-2');
    assert.equal(await take({ scope: 'a' }), 'Bearer token-3');
    assert.equal(await take({}, 'app/other'), 'Bearer token-4');
    assert.equal(await take({}, 'app/other'), 'Bearer token-4');
    await tokens.forget('app/other');
    assert.equal(await take({}, 'app/other'), 'Bearer token-5');
  });

  test('authentication given explicitly keeps its tokens for itself, and none in the database', async (t) => {
    const { node, endpoint, databases } = await cluster(t);
    const tokens = await node();
    const one = authorizerOf(tokens, clientCredentials(endpoint.url), { sourceKey: null });
    const other = authorizerOf(tokens, clientCredentials(endpoint.url), { sourceKey: null });
    assert.equal(await authorization(one), 'Bearer token-1');
    assert.equal(await authorization(other), 'Bearer token-2');
    assert.equal(await authorization(one), 'Bearer token-1');
    const [database] = databases as [Database<Records>];
    const rows = await database.query.selectFrom('sealed').select('name').execute();
    assert.ok(rows.every(({ name }) => !name.startsWith('oauth2')));
  });

  test('a rotated refresh token is used next, on whatever node, after a restart, too', async (t) => {
    const { clock, node, endpoint } = await cluster(t);
    rotating(endpoint);
    const nodes = [await node(), await node()] as const;
    const take = (tokens: OAuthTokens) => authorization(authorizerOf(tokens, withRefreshToken(endpoint.url)));
    assert.equal(await take(nodes[0]), 'Bearer access-1');
    clock.pass(3600);
    assert.equal(await take(nodes[1]), 'Bearer access-2');
    clock.pass(3600);
    assert.equal(await take(nodes[0]), 'Bearer access-3');
    clock.pass(3600);
    assert.equal(await take(await node()), 'Bearer access-4');
    const sent = endpoint.calls.map(({ form }) => form['refresh_token']);
    assert.deepEqual(sent, ['hush-refresh-0', 'refresh-1', 'refresh-2', 'refresh-3']);
  });

  test('it outlives a new client secret, but not a new refresh token', async (t) => {
    const { node, endpoint } = await cluster(t);
    rotating(endpoint);
    const tokens = await node();
    const take = (more: object) => authorization(authorizerOf(tokens, withRefreshToken(endpoint.url, more)));
    assert.equal(await take({}), 'Bearer access-1');
    assert.equal(await take({ clientSecret: 'changed' }), 'Bearer access-2');
    assert.equal(endpoint.calls[1]?.form['refresh_token'], 'refresh-1');
    await assert.rejects(take({ refreshToken: 'hush-new' }), /invalid_grant/);
    assert.equal(endpoint.calls[2]?.form['refresh_token'], 'hush-new');
  });

  test('it is saved before anybody gets the access token', async (t) => {
    const { node, endpoint, clock, databases } = await cluster(t);
    rotating(endpoint);
    const saving = Promise.withResolvers<void>();
    const slow = await node((secrets) => ({
      async put(name, secret) {
        await secrets.put(name, secret);
        saving.resolve();
        // The process dies here: its caller never sees the access token.
        await new Promise(() => {});
      },
    }));
    let given = false;
    void authorization(authorizerOf(slow, withRefreshToken(endpoint.url))).then(() => (given = true));
    await saving.promise;
    clock.pass(3600);
    assert.equal(given, false);
    // What the time does to the lease of a dead holder; here, slow's renewals would keep it.
    const [database] = databases as [Database<Records>];
    await database.query.deleteFrom('lease').execute();
    const survivor = await node();
    const taken = authorization(authorizerOf(survivor, withRefreshToken(endpoint.url)));
    assert.equal(await taken, 'Bearer access-2');
    assert.equal(endpoint.calls[1]?.form['refresh_token'], 'refresh-1');
  });

  test('a new refresh token that could not be saved is saved by the next one who asks', async (t) => {
    const { node, endpoint, clock } = await cluster(t);
    rotating(endpoint);
    let failures = 1;
    const tokens = await node((secrets) => ({
      put: (name, secret) =>
        failures-- > 0 ? Promise.reject(new Error('the disk is full')) : secrets.put(name, secret),
    }));
    const take = () => authorization(authorizerOf(tokens, withRefreshToken(endpoint.url)));
    await assert.rejects(take(), /the disk is full/);
    assert.equal(await take(), 'Bearer access-1');
    assert.equal(endpoint.calls.length, 1);
    clock.pass(3600);
    assert.equal(
      await authorization(authorizerOf(await node(), withRefreshToken(endpoint.url))),
      'Bearer access-2',
    );
  });

  test('a token endpoint that fails holds up nobody, and the next one asks again', async (t) => {
    const { node, endpoint } = await cluster(t);
    const { answer } = endpoint;
    endpoint.answer = (call, n) =>
      n === 1 ? { status: 401, body: { error: 'invalid_client' } } : answer(call, n);
    const tokens = await node();
    const take = () => authorization(authorizerOf(tokens, clientCredentials(endpoint.url)));
    await assert.rejects(take(), /invalid_client/);
    assert.equal(await take(), 'Bearer token-2');
  });
});
