import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Validator } from '@seriousme/openapi-schema-validator';
import { errorCodes } from '../../src/model/errors.ts';
import { millrace, spawnService } from '../support/service-process.ts';
import { startTestService } from '../support/service.ts';

const TEXT = 'Credentials or token is invalid or expired.';

describe('API conventions: errors in one envelope', () => {
  test('404 for an unknown path, 401 before it without a token', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('viewer');
    const unknown = await service.call('GET', '/api/v1/nothing', token);
    assert.equal(unknown.status, 404);
    assert.deepEqual(unknown.body, {
      status: 'error',
      result: { code: 'not_found', message: 'there is nothing at /api/v1/nothing' },
    });
    assert.equal((await service.call('GET', '/api/v1/nothing', null)).status, 401);
    assert.equal((await service.call('GET', '/favicon.ico', null)).status, 404);
  });

  test('405 with Allow for a wrong method', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('administrator');
    const wrong = await service.call('DELETE', '/api/v1/clients', token);
    assert.equal(wrong.status, 405);
    assert.equal(wrong.body.result.code, 'method_not_allowed');
    assert.equal(wrong.headers.get('allow'), 'GET, POST');
    const form = await service.call('GET', '/api/v1/oauth2/token', null);
    assert.deepEqual(
      [form.status, form.body.error, form.headers.get('allow')],
      [405, 'invalid_request', 'POST'],
    );
  });

  test('413 for a body over the limit', async (t) => {
    const service = await startTestService(t, { settings: { bodyLimitBytes: 2000 } });
    const token = await service.tokenOf('editor');
    const answer = await service.call('POST', '/api/v1/executeJob', token, { appId: 'x'.repeat(3000) });
    assert.equal(answer.status, 413);
    assert.equal(answer.body.result.code, 'body_too_large');
  });

  test('400 for malformed JSON, with the position; 415 for another body', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('editor');
    const malformed = await service.call('POST', '/api/v1/executeJob', token, '{"appId": nonsense}');
    assert.equal(malformed.status, 400);
    assert.equal(malformed.body.result.code, 'invalid_request');
    assert.match(malformed.body.result.message, /not valid JSON: .*nonsense/);
    const poisoned = await service.call('POST', '/api/v1/executeJob', token, '{"__proto__": {"appId": "a"}}');
    assert.match(poisoned.body.result.message, /__proto__/);
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml']) {
      const response = await fetch(`${service.url}/api/v1/executeJob`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': type },
        body: 'a=b',
      });
      assert.equal(response.status, 415, type);
      const body = (await response.json()) as { result: { code: string } };
      assert.equal(body.result.code, 'unsupported_media_type');
    }
  });

  test('400 names the path of the field, and the nearest known name', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('editor');
    const cases: [unknown, string, RegExp][] = [
      [{}, 'appId', /appId: .*string/],
      [{ appId: 'a', operation: {} }, 'operation.opName', /operation\.opName/],
      [
        { appId: 'a', operation: { opNmae: 'x', opName: 'x' } },
        'operation.opNmae',
        /Did you mean "opName"\?/,
      ],
      [
        { appId: 'a', isAsnyc: true, operation: { opName: 'x' } },
        'isAsnyc',
        /Did you mean "isAsync"\?.*Known: appId/,
      ],
      [{ appId: 'a', isAsync: 'yes', operation: { opName: 'x' } }, 'isAsync', /isAsync: .*boolean/],
      [{ appId: 'a', responseFormat: 'xml', operation: { opName: 'x' } }, 'responseFormat', /"text"\|"json"/],
      [[], '', /object/],
    ];
    for (const [body, path, says] of cases) {
      const { status, body: answer } = await service.call('POST', '/api/v1/executeJob', token, body);
      assert.equal(status, 400);
      assert.equal(answer.result.code, 'invalid_request');
      assert.equal(answer.result.path ?? '', path, answer.result.message);
      assert.match(answer.result.message, says);
    }
  });

  test('500 for a fault of ours: internal_error with the request id, no stack, no detail', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('viewer');
    await service.system.database.query.schema.dropTable('variable').execute();
    await service.system.applications.create({ appId: 'a' });
    const response = await fetch(`${service.url}/api/v1/applications/a/variables`, {
      headers: { authorization: `Bearer ${token}`, 'x-request-id': 'my-id' },
    });
    assert.equal(response.status, 500);
    assert.deepEqual(await response.json(), {
      status: 'error',
      result: {
        code: 'internal_error',
        message: 'the service failed; its log has more under the request id',
        requestId: 'my-id',
      },
    });
    const logged = service.log.find((line) => line.includes('my-id') && line.includes('no such table'));
    assert.ok(logged, 'the log has the whole error under the request id');
  });

  test('the table of error codes: statuses and texts', () => {
    for (const [code, { status, text }] of Object.entries(errorCodes)) {
      assert.match(code, /^[a-z]+(?:_[a-z]+)*$/);
      assert.ok(status >= 400 && status < 600 && text.endsWith('.'), code);
    }
    assert.equal(errorCodes.invalid_grant.text, TEXT);
  });
});

describe('API conventions: executeJob', () => {
  test('an unknown application is 404, an unknown operation 400 listing the known ones', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('operator');
    const run = (appId: string, opName: string) =>
      service.call('POST', '/api/v1/executeJob', token, { appId, operation: { opName, opParams: {} } });
    const application = await run('nowhere', 'RunScenario');
    assert.deepEqual([application.status, application.body.result.code], [404, 'unknown_application']);
    await service.system.applications.create({ appId: 'shop' });
    const operation = await run('shop', 'Unheard');
    assert.deepEqual([operation.status, operation.body.result.code], [400, 'unknown_operation']);
    assert.match(operation.body.result.message, /Known: /);
    assert.equal(operation.body.result.path, 'operation.opName');
  });

  test('roles: a viewer may not run', async (t) => {
    const service = await startTestService(t);
    const body = { appId: 'a', operation: { opName: 'x' } };
    const answer = await service.call('POST', '/api/v1/executeJob', await service.tokenOf('viewer'), body);
    assert.equal(answer.status, 403);
    assert.equal(answer.body.result.message, 'this needs the role operator; the token has the role viewer');
  });
});

describe('API conventions: the rest', () => {
  test('OpenAPI 3.1, valid, with every route', async (t) => {
    const service = await startTestService(t);
    const { body } = await service.call('GET', '/api/v1/openapi.json', await service.tokenOf('viewer'));
    assert.equal(body.openapi, '3.1.0');
    const validator = new Validator();
    const { valid, errors } = await validator.validate(structuredClone(body));
    assert.ok(valid, JSON.stringify(errors));
    const operations = Object.values<object>(body.paths).flatMap((path) => Object.keys(path));
    assert.ok(operations.length >= 20, `only ${operations.length} operations`);
    const ids = Object.values<Record<string, { operationId: string }>>(body.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId),
    );
    assert.equal(new Set(ids).size, ids.length);
  });

  test('a request id: taken over when it is harmless, else a new one', async (t) => {
    const service = await startTestService(t);
    const id = async (given: string) => {
      const response = await fetch(`${service.url}/health/live`, { headers: { 'x-request-id': given } });
      return response.headers.get('x-request-id');
    };
    assert.equal(await id('abc-1'), 'abc-1');
    assert.match((await id('<script>')) ?? '', /^[0-9a-f-]{36}$/);
  });

  test('/metrics needs a token unless the setting opens it; it counts tokens, requests, loop lag, memory', async (t) => {
    const service = await startTestService(t);
    assert.equal((await service.call('GET', '/metrics', null)).status, 401);
    const { text, headers } = await service.call('GET', '/metrics', await service.tokenOf('viewer'));
    assert.match(headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
    assert.match(text, /^millrace_tokens_issued_total\{grant="client_credentials"\} 1$/m);
    assert.match(text, /^millrace_http_request_seconds_count\{.*route="\/metrics".*status="401"\} 1$/m);
    assert.match(text, /^millrace_nodejs_eventloop_lag_max_seconds \d/m);
    assert.match(text, /^millrace_process_resident_memory_bytes \d/m);
    const open = await startTestService(t, { settings: { openMetrics: true } });
    assert.equal((await open.call('GET', '/metrics', null)).status, 200);
  });

  test('CORS: off by default, on for the origins of the setting', async (t) => {
    const ask = async (url: string) => {
      const response = await fetch(`${url}/health/live`, { headers: { origin: 'https://app.example' } });
      return response.headers.get('access-control-allow-origin');
    };
    assert.equal(await ask((await startTestService(t)).url), null);
    const settings = { corsOrigins: ['https://app.example'] };
    assert.equal(await ask((await startTestService(t, { settings })).url), 'https://app.example');
  });

  test('lists are read in keyset pages', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('viewer');
    for (const appId of ['c', 'a', 'b']) await service.system.applications.create({ appId });
    const page = async (query: string) =>
      (await service.call('GET', `/api/v1/applications?${query}`, token)).body.result;
    const ids = ({ items }: { items: { appId: string }[] }) => items.map(({ appId }) => appId);
    const first = await page('limit=2');
    assert.deepEqual([ids(first), first.next], [['a', 'b'], 'b']);
    const second = await page(`limit=2&after=${first.next}`);
    assert.deepEqual([ids(second), second.next], [['c'], null]);
    const wrong = await service.call('GET', '/api/v1/applications?limit=0', token);
    assert.deepEqual([wrong.status, wrong.body.result.path], [400, 'limit']);
  });

  test('a key that no page gave is refused, never taken for the beginning', async (t) => {
    const service = await startTestService(t);
    await service.system.applications.create({ appId: 'a' });
    const token = await service.tokenOf('administrator');
    const lists = ['sources', 'models', 'requests', 'variables', 'files/files', 'tables/local/main/t'];
    await service.call('POST', '/api/v1/applications/a/tables/local/main/t', token, [{ a: 1 }]);
    const paths = [
      '/api/v1/applications',
      '/api/v1/clients',
      '/api/v1/users',
      '/api/v1/jobs',
      ...lists.map((list) => `/api/v1/applications/a/${list}`),
    ];
    for (const path of paths) {
      assert.equal((await service.call('GET', path, token)).status, 200, path);
      for (const after of ['', '%00', 'a%0Ab']) {
        const refused = await service.call('GET', `${path}?after=${after}`, token);
        assert.deepEqual(
          [refused.status, refused.body.result.path],
          [400, 'after'],
          `${path}: ${refused.text}`,
        );
      }
    }
    for (const path of ['/api/v1/applications?after=%20x', '/api/v1/applications/a/sources?after=a/b'])
      assert.equal((await service.call('GET', path, token)).status, 400, path);
  });

  test('U+0000 in a path is refused, which no database takes for a part of a name', async (t) => {
    const service = await startTestService(t);
    const token = await service.tokenOf('administrator');
    for (const path of ['clients/%00', 'users/a%00', 'applications/%00', 'applications/a/variables/%00']) {
      const refused = await service.call('GET', `/api/v1/${path}`, token);
      assert.deepEqual([refused.status, refused.body.result.code], [400, 'invalid_request'], refused.text);
    }
  });

  test('SIGTERM: answers what is under way, then closes', async (t) => {
    const service = await spawnService(t);
    const client = await service.client();
    const body = new URLSearchParams({ grant_type: 'client_credentials', ...client }).toString();
    const slow = httpRequest(`${service.url}/api/v1/oauth2/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', 'content-length': body.length },
    });
    const answered = once(slow, 'response');
    slow.write(body.slice(0, 10));
    await once(slow, 'socket');
    await delay(100); // until the service has read the first half, which nothing tells
    service.child.kill('SIGTERM');
    await delay(100); // likewise until the signal has arrived
    slow.end(body.slice(10));
    const [response] = (await answered) as [{ statusCode: number; resume(): void }];
    response.resume();
    assert.equal(response.statusCode, 200);
    const [code] =
      service.child.exitCode === null ? await once(service.child, 'exit') : [service.child.exitCode];
    assert.equal(code, 0);
  });
});

describe('No secret in any log', () => {
  test('a tour through the API with logging at its most talkative', async (t) => {
    const env = {
      MILLRACE_BOOTSTRAP_CLIENT_ID: 'root',
      MILLRACE_BOOTSTRAP_CLIENT_SECRET: 'bootstrap-canary-secret',
    };
    const service = await spawnService(t, { args: ['--log-level', 'debug'], env });
    const secrets = ['bootstrap-canary-secret', 'password-canary', 'wrong-canary', 'token-canary'];
    const grant = async (fields: Record<string, string>) => {
      const response = await service.form(new URLSearchParams(fields).toString());
      const body = (await response.json()) as Record<string, string>;
      secrets.push(...[body['access_token'], body['refresh_token']].filter((secret) => secret !== undefined));
      return body;
    };
    const client = { client_id: 'root', client_secret: 'bootstrap-canary-secret' };
    const { access_token = '', refresh_token = '' } = await grant({
      grant_type: 'client_credentials',
      ...client,
    });
    const call = (method: string, path: string, body?: unknown, token = access_token) =>
      fetch(`${service.url}/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
    await call('POST', '/users', { username: 'ann', password: 'password-canary', role: 'viewer' });
    await call('POST', '/users', { username: 'bob', password: 'password-canary', rolle: 'viewer' });
    const created = (await (await call('POST', '/clients', { name: 'x' })).json()) as {
      result: { client_secret: string };
    };
    secrets.push(created.result.client_secret);
    await grant({ grant_type: 'password', ...client, username: 'ann', password: 'password-canary' });
    await grant({ grant_type: 'password', ...client, username: 'ann', password: 'wrong-canary' });
    await grant({ grant_type: 'client_credentials', client_id: 'root', client_secret: 'wrong-canary' });
    await grant({ grant_type: 'refresh_token', refresh_token });
    await call('GET', '/applications', undefined, 'token-canary');
    await call('GET', '/applications?token-canary=token-canary');
    service.child.kill('SIGTERM');
    await once(service.child, 'exit');
    const log = service.output.stderr + service.output.stdout;
    assert.ok(log.split('\n').length > 10, 'the log was written');
    for (const secret of secrets) assert.ok(!log.includes(secret), `the log shows ${secret}`);
  });

  test('nor in what the settings print', async () => {
    const env = {
      MILLRACE_MASTER_KEY: 'canary',
      MILLRACE_DATABASE: 'postgres://user:canary@host/db?password=canary',
    };
    const { stdout, stderr } = await millrace(['settings'], { env });
    assert.ok(stdout.includes('masterKey') && !(stdout + stderr).includes('canary'));
  });
});
