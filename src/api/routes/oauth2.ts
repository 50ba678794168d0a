import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { Introspection, TokenReference, TokenRequest, TokenResponse } from '../../model/token.ts';
import type { Caller } from '../../oauth2/authentication.ts';
import { parseForm } from '../../oauth2/form.ts';
import type { TokenEndpoint } from '../../oauth2/token-endpoint.ts';
import { TokenError } from '../../oauth2/token-error.ts';
import type { Metrics } from '../metrics.ts';
import { route, type Route } from '../route.ts';

const tag = 'Tokens';

export function oauth2Routes({ endpoint, metrics }: { endpoint: TokenEndpoint; metrics: Metrics }): Route[] {
  return [
    route(
      {
        method: 'POST',
        path: '/api/v1/oauth2/token',
        access: 'public',
        tag,
        summary: 'Obtain an access token and a refresh token',
        form: TokenRequest,
        answers: { 200: { description: 'The tokens', schema: TokenResponse } },
      },
      async ({ request }) => {
        try {
          const { grant, response } = await endpoint.token(callerOf(request));
          metrics.tokenIssued(grant);
          return response;
        } catch (error) {
          if (error instanceof TokenError) metrics.tokenRefused(error.error);
          throw error;
        }
      },
    ),
    route(
      {
        method: 'POST',
        path: '/api/v1/oauth2/revoke',
        access: 'public',
        tag,
        summary:
          'Revoke a token (RFC 7009); a refresh token takes all tokens with it that descend from its grant',
        form: TokenReference,
        answers: { 200: { description: 'The token is not valid any more', schema: z.strictObject({}) } },
      },
      async ({ request }) => {
        await endpoint.revoke(callerOf(request));
        return {};
      },
    ),
    route(
      {
        method: 'POST',
        path: '/api/v1/oauth2/introspect',
        access: 'public',
        tag,
        summary: 'Ask whether a token of the same client is valid (RFC 7662)',
        form: TokenReference,
        answers: { 200: { description: 'What is known of the token', schema: Introspection } },
      },
      ({ request }) => endpoint.introspect(callerOf(request)),
    ),
  ];
}

function callerOf(request: FastifyRequest): Caller {
  if (!Buffer.isBuffer(request.body)) {
    throw new TokenError(
      'invalid_request',
      'The body must be of the type application/x-www-form-urlencoded.',
    );
  }
  return {
    form: parseForm(request.body),
    authorization: request.headers.authorization,
    address: request.ip,
  };
}
