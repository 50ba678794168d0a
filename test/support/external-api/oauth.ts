import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Credentials } from './credentials.ts';
import type { Exchange } from './exchange.ts';
import { Refusal } from './exchange.ts';
import type { Guard, Routes } from './router.ts';

/** The token endpoint, and what its tokens open: /oauth/… but /oauth/token. */
export class OAuthServer {
  /** Successful answers by grant; `failed` counts refusals, `refused_reuse` spent refresh tokens among them. */
  readonly counts = { client_credentials: 0, password: 0, refresh_token: 0, failed: 0, refused_reuse: 0 };
  /** May be changed while the API runs. Tokens really expire. */
  expiresInSeconds: number;
  /** Whether each use of a refresh token gives a new one and spends the old one. */
  rotates = true;
  /** For renewals that overlap. */
  delayMs = 0;
  readonly #credentials: Credentials;
  readonly #access = new Map<string, number>();
  readonly #refresh = new Set<string>();
  readonly #spent = new Set<string>();

  constructor(credentials: Credentials, expiresInSeconds: number) {
    this.#credentials = credentials;
    this.expiresInSeconds = expiresInSeconds;
  }

  /** A refresh token that was not given out by the endpoint, for sources that begin with one. */
  issueRefreshToken(): string {
    const token = `refresh-${randomBytes(12).toString('hex')}`;
    this.#refresh.add(token);
    return token;
  }

  /** From now on every access token given out so far is answered with 401. */
  revokeAccessTokens(): void {
    this.#access.clear();
  }

  routes(): Routes {
    return { 'POST /oauth/token': (exchange) => this.#token(exchange) };
  }

  guard(): Guard {
    return ({ request }) => {
      const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
      if ((this.#access.get(token) ?? 0) > performance.now()) return true;
      throw new Refusal(401, 'invalid_token', 'the access token is unknown or has expired', {
        'www-authenticate': 'Bearer error="invalid_token"',
      });
    };
  }

  async #token(exchange: Exchange): Promise<void> {
    if (this.delayMs > 0) await delay(this.delayMs);
    const form = exchange.form();
    const refusal = this.#checkClient(exchange, form) ?? this.#checkGrant(form);
    if (refusal) {
      this.counts.failed += 1;
      const [status, error, description] = refusal;
      const challenge = status === 401 ? { 'www-authenticate': 'Basic realm="token"' } : {};
      exchange.json(status, { error, error_description: description }, challenge);
      return;
    }
    const grant = form.get('grant_type') as 'client_credentials' | 'password' | 'refresh_token';
    this.counts[grant] += 1;
    exchange.json(200, this.#issue(grant, form), { 'cache-control': 'no-store', pragma: 'no-cache' });
  }

  #issue(grant: string, form: URLSearchParams): Record<string, unknown> {
    const access = `access-${randomBytes(12).toString('hex')}`;
    this.#access.set(access, performance.now() + this.expiresInSeconds * 1000);
    const scope = form.get('scope');
    const answer = {
      access_token: access,
      token_type: 'Bearer',
      expires_in: this.expiresInSeconds,
      ...(scope ? { scope } : {}),
    };
    if (grant === 'client_credentials') return answer;
    if (grant === 'refresh_token') {
      if (!this.rotates) return answer;
      const used = form.get('refresh_token') ?? '';
      this.#refresh.delete(used);
      this.#spent.add(used);
    }
    return { ...answer, refresh_token: this.issueRefreshToken() };
  }

  /** The client by the form or by HTTP Basic (where id and secret are form-encoded, RFC 6749 2.3.1). */
  #checkClient({ request }: Exchange, form: URLSearchParams): [number, string, string] | undefined {
    const basic = /^Basic (.+)$/i.exec(request.headers.authorization ?? '')?.[1];
    if (basic !== undefined && form.has('client_secret')) {
      return [400, 'invalid_request', 'client credentials by form and by header at once'];
    }
    const [id, secret] =
      basic === undefined
        ? [form.get('client_id'), form.get('client_secret')]
        : Buffer.from(basic, 'base64').toString().split(':').map(formDecoded);
    const { clientId, clientSecret } = this.#credentials;
    if (id === clientId && secret === clientSecret) return undefined;
    return [401, 'invalid_client', 'unknown client or wrong secret'];
  }

  #checkGrant(form: URLSearchParams): [number, string, string] | undefined {
    const { username, password } = this.#credentials;
    switch (form.get('grant_type')) {
      case 'client_credentials':
        return undefined;
      case 'password':
        if (form.get('username') === username && form.get('password') === password) return undefined;
        return [400, 'invalid_grant', 'wrong user name or password'];
      case 'refresh_token': {
        const token = form.get('refresh_token') ?? '';
        if (this.#refresh.has(token)) return undefined;
        if (this.#spent.has(token)) this.counts.refused_reuse += 1;
        return [400, 'invalid_grant', 'the refresh token is unknown or was used before'];
      }
      default:
        return [400, 'unsupported_grant_type', 'client_credentials, password or refresh_token'];
    }
  }
}

const formDecoded = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));
