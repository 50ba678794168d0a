import type { Auth } from '../../../model/source.ts';
import { AuthorizationError, headerAuthorizer, type Authorizer } from './authorizer.ts';

/** RFC 7617 in UTF-8. Services that take an API key as the username want an empty password. */
export function basic({ username, password = '' }: Extract<Auth, { type: 'basic' }>): Authorizer {
  if (username.includes(':')) {
    throw new AuthorizationError(
      'invalid_auth',
      'auth.username',
      'holds a colon, which Basic authentication cannot carry: the password begins behind the first one',
    );
  }
  for (const [name, value] of Object.entries({ username, password })) {
    if (!value.isWellFormed()) {
      throw new AuthorizationError('invalid_auth', `auth.${name}`, 'holds half of a surrogate pair');
    }
  }
  const credentials = Buffer.from(`${username}:${password}`, 'utf8').toString('base64');
  return headerAuthorizer('Authorization', `Basic ${credentials}`, [password || username, credentials]);
}
