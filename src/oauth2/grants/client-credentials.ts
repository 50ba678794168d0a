import { allow } from './allow.ts';
import type { Grant } from './grant.ts';

export const clientCredentials: Grant = {
  type: 'client_credentials',
  async exchange(caller, { authentication, tokens }) {
    const client = await authentication.client(caller);
    allow(client, this.type);
    return tokens.issue(client.clientId, null);
  },
};
