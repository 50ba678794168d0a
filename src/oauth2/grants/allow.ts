import type { GrantType } from '../../model/access.ts';
import type { ClientCredentials } from '../../system/clients.ts';
import { TokenError } from '../token-error.ts';

export function allow(client: ClientCredentials, grant: GrantType): void {
  if (!client.grants.includes(grant)) throw notAllowed(grant);
}

export function notAllowed(grant: GrantType): TokenError {
  return new TokenError('unauthorized_client', `The client may not use the grant ${grant}.`);
}
