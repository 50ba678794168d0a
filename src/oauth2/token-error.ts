import { INVALID_GRANT_TEXT } from '../model/errors.ts';

/** RFC 6749 section 5.2, and what HTTP itself demands around it. */
const statuses = {
  invalid_request: 400,
  invalid_grant: 400,
  unsupported_grant_type: 400,
  unauthorized_client: 400,
  invalid_client: 401,
  too_many_requests: 429,
} as const;

/** An answer of the token endpoint that is not a token. */
export class TokenError extends Error {
  override readonly name = 'TokenError';
  readonly error: keyof typeof statuses;
  readonly headers: Record<string, string>;

  constructor(error: keyof typeof statuses, description: string, headers: Record<string, string> = {}) {
    super(description);
    this.error = error;
    this.headers = headers;
  }

  get status(): number {
    return statuses[this.error];
  }
}

/** Contract section 7: wrong, expired and revoked credentials of a grant all read the same. */
export function invalidGrant(): TokenError {
  return new TokenError('invalid_grant', INVALID_GRANT_TEXT);
}

export function tooManyFailures(retryAfterSeconds: number): TokenError {
  return new TokenError(
    'too_many_requests',
    `Too many failed attempts; try again in ${retryAfterSeconds} seconds. Right credentials are still accepted.`,
    { 'retry-after': String(retryAfterSeconds) },
  );
}
