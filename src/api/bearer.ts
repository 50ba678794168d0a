import type { FastifyReply, FastifyRequest } from 'fastify';
import { roleIncludes, type Principal, type Role } from '../model/access.ts';
import { INVALID_GRANT_TEXT, ServiceError } from '../model/errors.ts';
import type { BearerTokens } from '../system/bearer-tokens.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who calls; null where the route is public. */
    principal: Principal | null;
  }
}

const BEARER = /^bearer /i;
const SCHEME = 'bearer '.length;

/**
 * Contract section 5: the bearer token of every API request, checked before the body is read: who may not call costs
 * no memory. With a callback where the token is known, so that the check takes 1 to 2 us; a promise would add to it.
 */
export function bearerCheck(tokens: BearerTokens, needed: Role) {
  return (request: FastifyRequest, _reply: FastifyReply, done: () => void): Promise<void> | undefined => {
    const { authorization = '' } = request.headers;
    const known = BEARER.test(authorization) ? tokens.verifiedLately(authorization.slice(SCHEME)) : null;
    if (!known) return authenticate(tokens, request).then((principal) => admit(request, principal, needed));
    admit(request, known, needed);
    done();
    return undefined;
  };
}

export async function authenticate(tokens: BearerTokens, request: FastifyRequest): Promise<Principal> {
  const token = bearerToken(request);
  const principal = token === undefined ? null : await tokens.principal(token);
  if (!principal) throw new ServiceError('invalid_grant', INVALID_GRANT_TEXT);
  return principal;
}

function bearerToken({ headers }: FastifyRequest): string | undefined {
  return /^bearer +([\w.~+/-]+=*) *$/i.exec(headers.authorization ?? '')?.[1];
}

function admit(request: FastifyRequest, principal: Principal, needed: Role): void {
  requireRole(principal, needed);
  request.principal = principal;
}

function requireRole(principal: Principal, needed: Role): void {
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
