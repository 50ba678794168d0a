import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import * as oauth from 'oauth4webapi';
import simpleOauth2 from 'simple-oauth2';
import { whyNotAvailable } from '../support/required.ts';
import { startTestService, type TestService } from '../support/service.ts';

const PASSWORD = 'correct horse battery staple';

async function prepared(t: TestContext) {
  const service = await startTestService(t);
  const client = await service.newClient();
  await service.system.users.create({ username: 'ann', password: PASSWORD, role: 'viewer' });
  return { service, client };
}

async function accepted(service: TestService, token: unknown): Promise<boolean> {
  return (await service.call('GET', '/api/v1/applications', token as string)).status === 200;
}

describe('Clients on the market, unmodified', () => {
  for (const [mechanism, authenticate] of [
    ['form', oauth.ClientSecretPost],
    ['Basic', oauth.ClientSecretBasic],
  ] as const) {
    test(`oauth4webapi: the three grants, introspection and revocation (${mechanism})`, async (t) => {
      const { service, client: credentials } = await prepared(t);
      const endpoint = `${service.url}/api/v1/oauth2`;
      const server: oauth.AuthorizationServer = {
        issuer: service.url,
        token_endpoint: `${endpoint}/token`,
        revocation_endpoint: `${endpoint}/revoke`,
        introspection_endpoint: `${endpoint}/introspect`,
      };
      const client: oauth.Client = { client_id: credentials.client_id };
      const secret = authenticate(credentials.client_secret);
      const options = { [oauth.allowInsecureRequests]: true };

      const first = await oauth.processClientCredentialsResponse(
        server,
        client,
        await oauth.clientCredentialsGrantRequest(server, client, secret, {}, options),
      );
      assert.ok(await accepted(service, first.access_token));
      assert.equal(first.expires_in, 1800);

      const byPassword = await oauth.processGenericTokenEndpointResponse(
        server,
        client,
        await oauth.genericTokenEndpointRequest(
          server,
          client,
          secret,
          'password',
          { username: 'ann', password: PASSWORD },
          options,
        ),
      );
      assert.ok(await accepted(service, byPassword.access_token));

      const refreshed = await oauth.processRefreshTokenResponse(
        server,
        client,
        await oauth.refreshTokenGrantRequest(
          server,
          client,
          secret,
          byPassword.refresh_token as string,
          options,
        ),
      );
      assert.ok(await accepted(service, refreshed.access_token));

      const introspected = await oauth.processIntrospectionResponse(
        server,
        client,
        await oauth.introspectionRequest(server, client, secret, refreshed.access_token, options),
      );
      assert.equal(introspected.active, true);
      assert.equal(introspected['username'], 'ann');

      await oauth.processRevocationResponse(
        await oauth.revocationRequest(server, client, secret, refreshed.refresh_token as string, options),
      );
      assert.equal(await accepted(service, refreshed.access_token), false);
    });
  }

  test('oauth4webapi understands our errors', async (t) => {
    const { service, client: credentials } = await prepared(t);
    const server = { issuer: service.url, token_endpoint: `${service.url}/api/v1/oauth2/token` };
    const client = { client_id: credentials.client_id };
    const options = { [oauth.allowInsecureRequests]: true };
    const response = await oauth.clientCredentialsGrantRequest(
      server,
      client,
      oauth.ClientSecretPost('wrong'),
      {},
      options,
    );
    await assert.rejects(
      oauth.processClientCredentialsResponse(server, client, response),
      (error: oauth.ResponseBodyError) => error.error === 'invalid_client' && error.status === 401,
    );
  });

  for (const authorizationMethod of ['body', 'header'] as const) {
    test(`simple-oauth2: the three grants (${authorizationMethod})`, async (t) => {
      const { service, client } = await prepared(t);
      const config = {
        client: { id: client.client_id, secret: client.client_secret },
        auth: {
          tokenHost: service.url,
          tokenPath: '/api/v1/oauth2/token',
          revokePath: '/api/v1/oauth2/revoke',
        },
        options: { authorizationMethod },
      };
      const token = await new simpleOauth2.ClientCredentials(config).getToken({});
      assert.ok(await accepted(service, token.token['access_token']));
      const refreshed = await token.refresh();
      assert.ok(await accepted(service, refreshed.token['access_token']));
      const byPassword = await new simpleOauth2.ResourceOwnerPassword(config).getToken({
        username: 'ann',
        password: PASSWORD,
      });
      assert.ok(await accepted(service, byPassword.token['access_token']));
      assert.equal(byPassword.expired(), false);
      await byPassword.revokeAll();
      assert.equal(await accepted(service, byPassword.token['access_token']), false);
    });
  }

  test('curl: the three grants', { skip: whyNotAvailable('curl') }, async (t) => {
    const { service, client } = await prepared(t);
    const curl = async (...args: string[]) => {
      const { stdout } = await promisify(execFile)('curl', [
        '-sS',
        ...args,
        `${service.url}/api/v1/oauth2/token`,
      ]);
      return JSON.parse(stdout) as { access_token: string; refresh_token: string };
    };
    const fields = Object.entries({ ...client, username: 'ann', password: PASSWORD });
    const data = fields.flatMap(([name, value]) => ['--data-urlencode', `${name}=${value}`]);
    const first = await curl('-d', 'grant_type=client_credentials', ...data.slice(0, 4));
    const byPassword = await curl('-d', 'grant_type=password', ...data);
    const refreshed = await curl(
      '-d',
      'grant_type=refresh_token',
      '-d',
      `refresh_token=${byPassword.refresh_token}`,
    );
    const basic = await curl(
      '-u',
      `${client.client_id}:${client.client_secret}`,
      '-d',
      'grant_type=client_credentials',
    );
    for (const { access_token } of [first, byPassword, refreshed, basic])
      assert.ok(await accepted(service, access_token));
  });
});
