import { inactive, withHeader, type Authorizer } from './authorizer.ts';
import type { TokenCache } from './tokens.ts';

const SCHEME = 'Bearer ';

export function oauth2(tokens: TokenCache, signal: AbortSignal): Authorizer {
  return {
    ...inactive,
    async apply(request) {
      // A script that authorizes by itself costs no token.
      if (request.headers.has('Authorization')) return request;
      return withHeader(request, 'Authorization', SCHEME + (await tokens.accessToken(signal)));
    },
    async renew({ headers }) {
      const sent = headers.get('Authorization') ?? '';
      if (headers.setBy('Authorization') !== 'source' || !sent.startsWith(SCHEME)) return false;
      return tokens.replace(sent.slice(SCHEME.length), signal);
    },
    credentials: { headers: ['Authorization'], parameters: [] },
    get secrets() {
      return tokens.secrets;
    },
  };
}
