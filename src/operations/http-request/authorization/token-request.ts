import { z } from 'zod';
import { readUtf8 } from '../../../http/charset.ts';
import type { Route } from '../../../http/connect.ts';
import { HttpFailure } from '../../../http/failure.ts';
import type { HttpClient, HttpResponse, SendOptions } from '../../../http/http-client.ts';
import { Redactor } from '../../../http/redaction.ts';
import type { OutgoingRequest } from '../../../http/request.ts';
import type { Auth } from '../../../model/source.ts';
import { AuthorizationError, needed } from './authorizer.ts';

export type OAuth2 = Extract<Auth, { type: 'oauth2' }>;

/** What a token endpoint gave. */
export interface Grant {
  accessToken: string;
  /** Null: it did not say. */
  lifetimeMs: number | null;
  /** A new one, in the place of that which was sent. */
  refreshToken: string | undefined;
}

export type TokenClient = Pick<HttpClient, 'send'>;

const TIMEOUT_MS = 30_000;
const TOTAL_TIMEOUT_MS = 60_000;
const LARGEST_ANSWER_BYTES = 1024 * 1024;
const LONGEST_DESCRIPTION = 300;
/** A POST is tried again only when nothing of it was sent, or when the server asks for it. */
const RETRY = { tries: 3, firstDelayMs: 500, longestDelayMs: 5_000, longestRetryAfterMs: 15_000 };

/** RFC 6749, appendix A.12: what a token is made of. */
const Token = z.string().regex(/^[\x20-\x7e]+$/);
const TokenAnswer = z.object({
  access_token: Token,
  token_type: z
    .string()
    .regex(/^bearer$/i)
    .nullish(),
  // Some servers write the number as a string.
  expires_in: z.union([z.number().nonnegative(), z.string().regex(/^\d+$/).transform(Number)]).nullish(),
  refresh_token: Token.nullish(),
});
const EXPECTED: Record<string, string> = {
  access_token: 'a string of visible characters',
  token_type: '"Bearer"',
  expires_in: 'a number of seconds',
  refresh_token: 'a string of visible characters',
};

/** RFC 6749: asks the token endpoint by one grant. */
export class TokenRequest {
  readonly #auth: OAuth2;
  readonly #client: TokenClient;
  readonly #route: Route;

  /** Refuses settings that could never bring a token. */
  constructor(auth: OAuth2, client: TokenClient, route: Route = {}) {
    const secret = (name: 'clientSecret' | 'password' | 'refreshToken' | 'username') =>
      needed(auth[name], `auth.${name}`, `${auth.type}" with the grant "${auth.grant}`);
    if (auth.grant === 'client_credentials') secret('clientSecret');
    if (auth.grant === 'password') ['username' as const, 'password' as const].forEach(secret);
    if (auth.grant === 'refresh_token') secret('refreshToken');
    this.#auth = auth;
    this.#client = client;
    this.#route = route;
  }

  /** `refreshToken`: the last one that was issued, where the one of the settings was exchanged already. */
  async send(refreshToken: string | undefined): Promise<Grant> {
    const exchange = new Exchange(this.#auth.tokenUrl, [...this.secrets, refreshToken ?? '']);
    const options: SendOptions = {
      ...this.#route,
      connectTimeoutMs: TIMEOUT_MS,
      readTimeoutMs: TIMEOUT_MS,
      writeTimeoutMs: TIMEOUT_MS,
      totalTimeoutMs: TOTAL_TIMEOUT_MS,
      retry: RETRY,
      // Followed, one would carry the client's secret to wherever it leads.
      redirects: 0,
      credentials: { headers: [], parameters: [] },
      // Nobody may break it off: the answer could hold the only refresh token that is still worth something.
      signal: new AbortController().signal,
    };
    let response: HttpResponse | undefined;
    try {
      response = await this.#client.send(this.#request(refreshToken), options);
      const grant = exchange.grant(response, await readUtf8(response, LARGEST_ANSWER_BYTES));
      // The other grants ask anew with what the settings hold.
      return this.#auth.grant === 'refresh_token' ? grant : { ...grant, refreshToken: undefined };
    } catch (error) {
      throw error instanceof HttpFailure ? exchange.failure(error) : error;
    } finally {
      await response?.discard();
    }
  }

  /** Values of the settings that must not be shown. */
  get secrets(): string[] {
    const { clientSecret, password, refreshToken, clientAuth } = this.#auth;
    const basic = clientAuth === 'basic' ? basicCredentials(this.#auth) : undefined;
    return [clientSecret, password, refreshToken, basic].filter((secret) => secret !== undefined);
  }

  #request(refreshToken: string | undefined): OutgoingRequest {
    const auth = this.#auth;
    const inBody = auth.clientAuth === 'body';
    const form = Object.entries({
      grant_type: auth.grant,
      username: auth.grant === 'password' ? auth.username : undefined,
      password: auth.grant === 'password' ? auth.password : undefined,
      refresh_token: auth.grant === 'refresh_token' ? (refreshToken ?? auth.refreshToken) : undefined,
      scope: auth.scope,
      audience: auth.audience,
      client_id: inBody ? auth.clientId : undefined,
      client_secret: inBody ? auth.clientSecret : undefined,
    }).filter((field): field is [string, string] => Boolean(field[1]));
    return {
      method: 'POST',
      url: auth.tokenUrl,
      headers: [
        ['Content-Type', 'application/x-www-form-urlencoded'],
        ['Accept', 'application/json'],
        ...(inBody ? [] : [['Authorization', `Basic ${basicCredentials(auth)}`] as const]),
      ],
      body: new URLSearchParams(form).toString(),
    };
  }
}

/** RFC 6749, section 2.3.1: both are encoded like a form before they are joined. */
function basicCredentials({ clientId, clientSecret = '' }: OAuth2): string {
  return Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64');
}

function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1);
}

/** Reads the answer to one token request; its errors name the token endpoint and hold no secret. */
class Exchange {
  readonly #redactor: Redactor;
  readonly #endpoint: string;

  constructor(tokenUrl: string, secrets: readonly string[]) {
    this.#redactor = new Redactor({ headers: [], parameters: [], values: secrets });
    const { origin, pathname } = new URL(tokenUrl);
    this.#endpoint = `the token endpoint ${this.#redactor.text(origin + pathname)}`;
  }

  grant({ statusCode }: HttpResponse, body: Uint8Array): Grant {
    const text = Buffer.from(body).toString('utf8');
    const answer = asObject(text);
    if (typeof answer?.['error'] === 'string') throw this.#refusal(statusCode, answer);
    if (statusCode < 200 || statusCode > 299) throw this.#refusal(statusCode, {});
    if (!answer) {
      throw this.#invalid(statusCode, `which is no JSON object${text.trim() === '' ? ', but empty' : ''}`);
    }
    const { data, error } = TokenAnswer.safeParse(answer);
    if (!data) {
      const field = String(error.issues[0]?.path[0]);
      const problem = answer[field] === undefined ? `without ${field}` : `whose ${field} is not usable`;
      throw this.#invalid(statusCode, `${problem}; it must be ${EXPECTED[field]}`);
    }
    return {
      accessToken: data.access_token,
      lifetimeMs: typeof data.expires_in === 'number' ? data.expires_in * 1000 : null,
      refreshToken: data.refresh_token ?? undefined,
    };
  }

  failure(failure: HttpFailure): AuthorizationError {
    if (failure.kind === 'too_large') {
      return this.#invalid(undefined, `larger than ${LARGEST_ANSWER_BYTES / 1024} KiB`, failure);
    }
    const message = `${this.#endpoint} gave no answer: ${this.#redactor.text(failure.message)}`;
    return new AuthorizationError('token_unavailable', 'auth.tokenUrl', message, {
      transient: failure.transient || failure.kind === 'total_timeout',
      cause: failure,
    });
  }

  #refusal(statusCode: number, { error, error_description }: Record<string, unknown>): AuthorizationError {
    const code = typeof error === 'string' ? `, error ${this.#shown(error)}` : '';
    const description = typeof error_description === 'string' ? `: ${this.#shown(error_description)}` : '';
    const isRedirect = statusCode >= 300 && statusCode <= 399;
    const hint = isRedirect
      ? '; it redirects, which is not followed: tokenUrl must be its last address'
      : error === 'invalid_grant'
        ? '; the refresh token, or username and password, of the source are not valid or not valid any more'
        : '';
    const transient = statusCode === 408 || statusCode === 429 || statusCode >= 500;
    return new AuthorizationError(
      transient ? 'token_unavailable' : 'token_refused',
      'auth.tokenUrl',
      `${this.#endpoint} gave no token: status ${statusCode}${code}${description}${hint}`,
      { statusCode, transient },
    );
  }

  #invalid(statusCode: number | undefined, problem: string, cause?: unknown): AuthorizationError {
    const status = statusCode === undefined ? '' : `status ${statusCode} and `;
    return new AuthorizationError(
      'token_invalid',
      'auth.tokenUrl',
      `${this.#endpoint} answered with ${status}a body ${problem}`,
      { ...(statusCode !== undefined && { statusCode }), ...(cause !== undefined && { cause }) },
    );
  }

  /** What the other side wrote: on one line, not too long, without the secrets that it may repeat. */
  #shown(text: string): string {
    // oxlint-disable-next-line no-control-regex
    const line = this.#redactor.text(text).replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ');
    return line.length > LONGEST_DESCRIPTION ? `${line.slice(0, LONGEST_DESCRIPTION)}…` : line;
  }
}

function asObject(text: string): Record<string, unknown> | null {
  try {
    const answer: unknown = JSON.parse(text);
    return typeof answer === 'object' && answer !== null && !Array.isArray(answer)
      ? (answer as Record<string, unknown>)
      : null;
  } catch (error) {
    // A proxy's page, for example: the caller says what was expected instead.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
