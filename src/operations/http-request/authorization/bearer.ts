import type { Auth } from '../../../model/source.ts';
import { headerAuthorizer, needed, type Authorizer } from './authorizer.ts';

export function bearer(auth: Extract<Auth, { type: 'bearer' }>): Authorizer {
  const token = needed(auth.token, 'auth.token', auth.type);
  return headerAuthorizer('Authorization', `Bearer ${token}`, [token]);
}
