import type { PreparedRequest } from '../interceptors/interceptor.ts';
import { inactive, withHeader, type Authorizer } from './authorizer.ts';
import type { TokenCache } from './tokens.ts';

const SCHEME = 'Bearer ';

/** Undefined where a script has authorized the request. */
function tokenIn({ headers }: PreparedRequest): string | undefined {
  const sent = headers.get('Authorization') ?? '';
  if (headers.setBy('Authorization') !== 'source' || !sent.startsWith(SCHEME)) return undefined;
  return sent.slice(SCHEME.length);
}

export function oauth2(tokens: TokenCache, signal: AbortSignal): Authorizer {
  return {
    ...inactive,
    async apply(request) {
      // A script that authorizes by itself costs no token.
      if (request.headers.has('Authorization')) return request;
      return withHeader(request, 'Authorization', SCHEME + (await tokens.accessToken(signal)));
    },
    async renew(refused) {
      const token = tokenIn(refused);
      return token !== undefined && tokens.replace(token, signal);
    },
    judged(sent, verdict) {
      const token = tokenIn(sent);
      if (token !== undefined) tokens.judged(token, verdict);
    },
    credentials: { headers: ['Authorization'], parameters: [] },
    get secrets() {
      return tokens.secrets;
    },
  };
}
