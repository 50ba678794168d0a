import type { GrantType } from '../../model/access.ts';
import type { TokenPair, Tokens } from '../../system/tokens.ts';
import type { Authentication, Caller } from '../authentication.ts';

/** One way to obtain a token. A new one is a file beside this and a line in token-endpoint.ts. */
export interface Grant {
  readonly type: GrantType;
  /** Throws a TokenError, or gives the new pair. */
  exchange(caller: Caller, parts: GrantParts): Promise<TokenPair>;
}

export interface GrantParts {
  authentication: Authentication;
  tokens: Tokens;
}
