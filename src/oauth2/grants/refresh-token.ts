import { required } from '../form.ts';
import { invalidGrant } from '../token-error.ts';
import { notAllowed } from './allow.ts';
import type { Grant } from './grant.ts';

export const refreshToken: Grant = {
  type: 'refresh_token',
  async exchange(caller, { authentication, tokens }) {
    const token = required(caller.form, 'refresh_token');
    const outcome = await tokens.refresh(token, await authentication.clientIfGiven(caller));
    if (outcome === 'invalid') throw invalidGrant();
    if (outcome === 'grant_not_allowed') throw notAllowed(this.type);
    return outcome;
  },
};
