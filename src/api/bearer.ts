import type { FastifyRequest } from 'fastify';
import { roleIncludes, type Principal, type Role } from '../model/access.ts';
import { INVALID_GRANT_TEXT, ServiceError } from '../model/errors.ts';
import type { Tokens } from '../system/tokens.ts';

/** Contract section 5: the bearer token of every API request. */
export async function authenticate(tokens: Tokens, request: FastifyRequest): Promise<Principal> {
  const token = /^bearer +([\w.~+/-]+=*) *$/i.exec(request.headers.authorization ?? '')?.[1];
  const principal = token === undefined ? null : await tokens.principal(token);
  if (!principal) throw new ServiceError('invalid_grant', INVALID_GRANT_TEXT);
  return principal;
}

export function requireRole(principal: Principal, needed: Role): void {
  if (!roleIncludes(principal.role, needed)) {
    throw new ServiceError(
      'forbidden',
      `this needs the role ${needed}; the token has the role ${principal.role}`,
    );
  }
}

/** A client that is restricted to applications learns nothing of the others, not even whether they exist. */
export function requireApplication(principal: Principal, appId: string): void {
  if (principal.applications && !principal.applications.includes(appId)) {
    throw new ServiceError('forbidden', `the client is restricted to other applications than "${appId}"`, {
      path: 'appId',
    });
  }
}
