import { required } from '../form.ts';
import { allow } from './allow.ts';
import type { Grant } from './grant.ts';

export const password: Grant = {
  type: 'password',
  async exchange(caller, { authentication, tokens }) {
    const username = required(caller.form, 'username');
    const secret = required(caller.form, 'password');
    const client = await authentication.client(caller);
    allow(client, this.type);
    const { userId } = await authentication.user(username, secret, caller.address);
    return tokens.issue(client.clientId, userId);
  },
};
