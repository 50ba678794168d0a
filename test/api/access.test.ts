import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachDatabase } from '../support/databases.ts';
import { startTestService } from '../support/service.ts';

onEachDatabase('API for administrators: clients and users', (newPlace) => {
  test('clients: create, read, list, change, rotate and revoke secrets, revoke', async (t) => {
    const service = await startTestService(t, { newPlace });
    const token = await service.tokenOf('administrator');
    const api = (method: string, path: string, body?: unknown) =>
      service.call(method, `/api/v1/clients${path}`, token, body);
    const created = await api('POST', '', { name: 'crm', applications: ['a'] });
    assert.equal(created.status, 201);
    const { client_id, client_secret } = created.body.result;
    assert.equal(created.headers.get('location'), `/api/v1/clients/${client_id}`);
    const works = async (secret: string) =>
      (await service.form({ grant_type: 'client_credentials', client_id, client_secret: secret })).status ===
      200;
    assert.ok(await works(client_secret));

    const read = await api('GET', `/${client_id}`);
    assert.equal(read.body.result.client_secret, undefined, 'a secret is shown once');
    assert.equal(read.body.result.secrets[0].fingerprint, client_secret.slice(-4));
    assert.ok(read.body.result.secrets[0].lastUsedAt, 'the use of the secret is noted');

    const changed = await api('PATCH', `/${client_id}`, {
      name: 'crm 2',
      applications: null,
      role: 'viewer',
    });
    assert.deepEqual(
      [changed.body.result.name, changed.body.result.applications, changed.body.result.role],
      ['crm 2', null, 'viewer'],
    );
    service.clock.advance(1);
    const rotated = await api('POST', `/${client_id}/secrets`);
    assert.equal(rotated.status, 201);
    assert.ok((await works(client_secret)) && (await works(rotated.body.result.client_secret)));
    const old = rotated.body.result.secrets.find(
      (secret: { fingerprint: string }) => secret.fingerprint === client_secret.slice(-4),
    );
    assert.equal((await api('DELETE', `/${client_id}/secrets/${old.id}`)).status, 200);
    assert.deepEqual(
      [await works(client_secret), await works(rotated.body.result.client_secret)],
      [false, true],
    );
    assert.equal((await api('DELETE', `/${client_id}/secrets/${old.id}`)).status, 404);

    assert.equal((await api('DELETE', `/${client_id}`)).status, 200);
    assert.equal((await api('GET', `/${client_id}`)).status, 404);
    assert.equal((await api('POST', `/${client_id}/secrets`)).status, 404);
    const { body } = await api('GET', '');
    assert.ok(!body.result.items.some((client: { client_id: string }) => client.client_id === client_id));
  });

  test('users: create, read, list, change, set the password', async (t) => {
    const service = await startTestService(t, { newPlace });
    const token = await service.tokenOf('administrator');
    const api = (method: string, path: string, body?: unknown) =>
      service.call(method, `/api/v1/users${path}`, token, body);
    const ann = { username: 'Änn / O’Hara', password: 'long enough', role: 'operator' };
    const created = await api('POST', '', ann);
    assert.equal(created.status, 201);
    assert.equal(created.body.result.password, undefined);
    const path = `/${encodeURIComponent(ann.username)}`;
    assert.equal(created.headers.get('location'), `/api/v1/users${path}`);
    assert.equal((await api('GET', path)).body.result.role, 'operator');
    assert.equal((await api('POST', '', ann)).body.result.code, 'conflict');
    assert.equal((await api('PATCH', path, { role: 'viewer', disabled: true })).body.result.disabled, true);
    assert.equal((await api('PUT', `${path}/password`, { password: 'another one' })).status, 200);
    assert.equal((await api('PUT', '/nobody/password', { password: 'another one' })).status, 404);
    assert.equal((await api('PATCH', '/nobody', { disabled: true })).status, 404);
    assert.deepEqual((await api('GET', '')).body.result.items.length, 1);
  });

  test('bad input names the field and what is allowed, and changes nothing', async (t) => {
    const service = await startTestService(t, { newPlace });
    const token = await service.tokenOf('administrator');
    const cases: [string, unknown, string, RegExp][] = [
      [
        '/api/v1/users',
        { username: 'a', password: 'short', role: 'viewer' },
        'password',
        /at least 8 characters/,
      ],
      [
        '/api/v1/users',
        { username: 'a\u0000b', password: 'long enough', role: 'viewer' },
        'username',
        /control/,
      ],
      [
        '/api/v1/users',
        { username: 'a', password: 'long enough', role: 'king' },
        'role',
        /viewer.*administrator/,
      ],
      ['/api/v1/clients', { name: '' }, 'name', /name/],
      ['/api/v1/clients', { name: 'x', grants: [] }, 'grants', /grants/],
      ['/api/v1/clients', { name: 'x', grants: ['implicit'] }, 'grants[0]', /client_credentials/],
      ['/api/v1/clients', { name: 'x', applications: ['../x'] }, 'applications[0]', /letters, digits/],
      ['/api/v1/clients', { nmae: 'x' }, 'nmae', /nmae: is not known here\. Did you mean "name"/],
      ['/api/v1/applications', { appId: 'no spaces' }, 'appId', /letters, digits/],
    ];
    for (const [path, body, field, says] of cases) {
      const answer = await service.call('POST', path, token, body);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.result.path, field);
      assert.match(answer.body.result.message, says);
    }
    assert.deepEqual((await service.call('GET', '/api/v1/users', token)).body.result.items, []);
    assert.deepEqual((await service.call('GET', '/api/v1/applications', token)).body.result.items, []);
  });

  test('only an administrator gives access; an editor builds', async (t) => {
    const service = await startTestService(t, { newPlace });
    for (const role of ['viewer', 'operator', 'editor'] as const) {
      const token = await service.tokenOf(role);
      assert.equal((await service.call('GET', '/api/v1/users', token)).status, 403, role);
      assert.equal((await service.call('POST', '/api/v1/clients', token, { name: 'x' })).status, 403, role);
      const created = await service.call('POST', '/api/v1/applications', token, { appId: 'built' });
      assert.equal(created.status, role === 'editor' ? 201 : 403, role);
      assert.equal((await service.call('GET', '/api/v1/applications', token)).status, 200);
    }
  });
});
