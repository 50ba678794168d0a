import { proxyAuthorization, type Route } from '../../http/connect.ts';
import { Redactor } from '../../http/redaction.ts';
import type { Auth } from '../../model/source.ts';
import { apiKey } from './authorization/api-key.ts';
import { inactive, type Authorizer } from './authorization/authorizer.ts';
import { basic } from './authorization/basic.ts';
import { bearer } from './authorization/bearer.ts';
import { customSignature, type RunScript } from './authorization/custom-signature.ts';
import { oauth2 } from './authorization/oauth2.ts';
import { sigV4 } from './authorization/sig-v4.ts';
import type { OAuthTokens } from './authorization/tokens.ts';
import type { InterceptorRegistry } from './interceptors/interceptor.ts';
import { withoutParameters } from './url.ts';

export { AuthorizationError, type Authorizer } from './authorization/authorizer.ts';
export { OAuthTokens } from './authorization/tokens.ts';
export type { RunScript } from './authorization/custom-signature.ts';

export interface AuthorizerParts {
  tokens: Pick<OAuthTokens, 'cache'>;
  /** `appId/sourceName`: its tokens are shared among all jobs and nodes. Null: given explicitly, kept for this job. */
  sourceKey: string | null;
  /** The source's way to its system, which token requests take, too. */
  route?: Route;
  interceptors: InterceptorRegistry;
  runScript: RunScript;
  signal: AbortSignal;
  now?: () => number;
}

/** For the secrets as they are now: tokens come and go. */
export function redactorOf({ credentials, secrets }: Authorizer): Redactor {
  return new Redactor({ ...credentials, values: secrets });
}

/** A link of an answer may hold the key: kept with the checkpoint it would be in clear, and it is added anew anyhow. */
export function withoutKey(url: string, { credentials, secrets }: Authorizer): string {
  return withoutParameters(url, credentials.parameters, secrets);
}

/** `auth` complete with its secrets; what is missing or cannot be sent is an error at once. */
export function createAuthorizer(auth: Auth, parts: AuthorizerParts): Authorizer {
  return withSecretsOf(parts.route?.proxy, authorizerOf(auth, parts));
}

/** A proxy may pass on what it alone should see, and a system show it. */
function withSecretsOf(proxy: string | undefined, authorizer: Authorizer): Authorizer {
  const authorization = proxy === undefined ? null : proxyAuthorization(new URL(proxy));
  if (proxy === undefined || authorization === null) return authorizer;
  const ofProxy = [decodeURIComponent(new URL(proxy).password), authorization.replace('Basic ', '')];
  let own = authorizer.secrets;
  let all = [...own, ...ofProxy];
  return {
    apply: (request) => authorizer.apply(request),
    sign: (request) => authorizer.sign(request),
    renew: (refused) => authorizer.renew(refused),
    judged: (sent, verdict) => authorizer.judged(sent, verdict),
    get credentials() {
      return authorizer.credentials;
    },
    get secrets() {
      if (own !== authorizer.secrets) {
        own = authorizer.secrets;
        all = [...own, ...ofProxy];
      }
      return all;
    },
  };
}

function authorizerOf(auth: Auth, parts: AuthorizerParts): Authorizer {
  switch (auth.type) {
    case 'none':
      return inactive;
    case 'basic':
      return basic(auth);
    case 'apiKey':
      return apiKey(auth);
    case 'bearer':
      return bearer(auth);
    case 'oauth2':
      return oauth2(parts.tokens.cache(auth, parts.sourceKey, parts.route), parts.signal);
    case 'sigV4':
      return sigV4(auth, parts.now ?? Date.now);
    case 'customSignature':
      return customSignature(auth, parts.interceptors, parts.runScript);
    default:
      return auth satisfies never;
  }
}
