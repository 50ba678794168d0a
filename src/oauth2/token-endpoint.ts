import type { GrantType } from '../model/access.ts';
import { ACCESS_TOKEN_SECONDS, type Introspection, type TokenResponse } from '../model/token.ts';
import type { Tokens } from '../system/tokens.ts';
import type { Authentication, Caller } from './authentication.ts';
import { required } from './form.ts';
import { clientCredentials } from './grants/client-credentials.ts';
import type { Grant } from './grants/grant.ts';
import { password } from './grants/password.ts';
import { refreshToken } from './grants/refresh-token.ts';
import { TokenError } from './token-error.ts';

const grants: readonly Grant[] = [clientCredentials, password, refreshToken];

/** Contract 4.1, with revocation (RFC 7009) and introspection (RFC 7662) beside it. */
export class TokenEndpoint {
  readonly #authentication: Authentication;
  readonly #tokens: Tokens;

  constructor(parts: { authentication: Authentication; tokens: Tokens }) {
    this.#authentication = parts.authentication;
    this.#tokens = parts.tokens;
  }

  async token(caller: Caller): Promise<{ grant: GrantType; response: TokenResponse }> {
    const wanted = required(caller.form, 'grant_type');
    const grant = grants.find(({ type }) => type === wanted);
    if (!grant) {
      const known = grants.map(({ type }) => type).join(', ');
      throw new TokenError('unsupported_grant_type', `The parameter grant_type is none of: ${known}.`);
    }
    const pair = await grant.exchange(caller, { authentication: this.#authentication, tokens: this.#tokens });
    return {
      grant: grant.type,
      response: {
        access_token: pair.accessToken,
        refresh_token: pair.refreshToken,
        token_type: 'Bearer',
        expires_in: ACCESS_TOKEN_SECONDS,
      },
    };
  }

  /** A token that is unknown, or another client's, changes nothing and is no error (RFC 7009 2.2). */
  async revoke(caller: Caller): Promise<void> {
    const token = required(caller.form, 'token');
    const { clientId } = await this.#authentication.client(caller);
    await this.#tokens.revoke(token, clientId);
  }

  /** A client learns of its own tokens only; of all others it hears that they are not active. */
  async introspect(caller: Caller): Promise<Introspection> {
    const token = required(caller.form, 'token');
    const { clientId } = await this.#authentication.client(caller);
    const valid = await this.#tokens.inspect(token);
    if (!valid || valid.clientId !== clientId) return { active: false };
    return {
      active: true,
      client_id: valid.clientId,
      ...(valid.username !== null && { username: valid.username }),
      sub: valid.username ?? valid.clientId,
      token_type: valid.kind === 'access' ? 'Bearer' : 'refresh_token',
      iat: Math.floor(valid.issuedAt / 1000),
      exp: Math.floor(valid.expiresAt / 1000),
    };
  }
}
