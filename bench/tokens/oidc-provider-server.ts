/** The peer: oidc-provider with its in-memory adapter and opaque tokens, and one client. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';
import type { ClientCredentials } from './millrace.ts';

const client = JSON.parse(process.env['BENCH_CLIENT'] as string) as ClientCredentials;

const server = createServer().listen(0, '127.0.0.1');
await once(server, 'listening');
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const provider = new Provider(url, {
  clients: [
    {
      client_id: client.client_id,
      client_secret: client.client_secret,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_post',
    },
  ],
  features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
  ttl: { ClientCredentials: 1800 },
});
server.on('request', provider.callback());
console.log(`oidc-provider listens on ${url}`);
