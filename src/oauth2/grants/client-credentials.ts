import { allow } from './allow.ts';
import type { Grant } from './grant.ts';

export const clientCredentials: Grant = {
  type: 'client_credentials',
  async exchange(caller, { authentication, tokens }) {
    const verified = authentication.verifiedLately(caller);
    const pair = verified?.grants.includes(this.type) && (await tokens.issueIfUnchanged(verified));
    if (pair) return pair;
    const client = await authentication.client(caller);
    allow(client, this.type);
    return tokens.issue(client.clientId, null);
  },
};
