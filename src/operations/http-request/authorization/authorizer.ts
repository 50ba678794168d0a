import { HeaderError, HeaderList } from '../header-list.ts';
import type { PreparedRequest } from '../interceptors/interceptor.ts';

/** The authentication of a source, or one given explicitly, applied to the requests of one run of an operation. */
export interface Authorizer {
  /**
   * basic, apiKey, bearer, oauth2: sets a header, parameter or cookie where nobody has set one of the same name. To
   * be called after the Parameters and Headers scripts and before the interceptors.
   */
  apply(request: PreparedRequest): Promise<PreparedRequest>;
  /** sigV4, customSignature: to be called after the interceptors, signs the request unless Authorization is set. */
  sign(request: PreparedRequest): Promise<PreparedRequest>;
  /**
   * After a 401. `refused` is the request as it was sent. True: another token is there now, so the request should be
   * applied anew and tried again. A token that was got in this way and is refused, too, is not renewed once more.
   */
  renew(refused: PreparedRequest): Promise<boolean>;
  /** What the system said to a request as it was sent; `refused again` is a 401 to the second try. */
  judged(sent: PreparedRequest, verdict: 'accepted' | 'refused again'): void;
  /** What must not go along to another origin and must not be shown. Read it after `apply` and `sign`. */
  readonly credentials: { readonly headers: readonly string[]; readonly parameters: readonly string[] };
  /** Secret values, to be redacted wherever they turn up; another array when there are others. */
  readonly secrets: readonly string[];
}

/**
 * `incomplete_auth`: a secret that the type needs is missing; `invalid_auth`: a value cannot be sent; `signature`: the
 * script of customSignature asked for what cannot be done; `token_refused`: the token endpoint refuses the
 * credentials; `token_invalid`: its answer is no token; `token_unavailable`: no answer came, or one that says
 * nothing of the credentials.
 */
export type AuthorizationErrorKind =
  'incomplete_auth' | 'invalid_auth' | 'signature' | 'token_refused' | 'token_invalid' | 'token_unavailable';

/** A request cannot be authenticated. `path` is the field at fault, such as `auth.password`. */
export class AuthorizationError extends Error {
  override readonly name = 'AuthorizationError';
  readonly kind: AuthorizationErrorKind;
  readonly path: string;
  /** Of the token endpoint's answer. */
  readonly statusCode: number | undefined;
  /** Whether the same request may succeed later. */
  readonly transient: boolean;

  constructor(
    kind: AuthorizationErrorKind,
    path: string,
    message: string,
    options: { statusCode?: number; transient?: boolean; cause?: unknown } = {},
  ) {
    super(`${path}: ${message}`, 'cause' in options ? { cause: options.cause } : undefined);
    this.kind = kind;
    this.path = path;
    this.statusCode = options.statusCode;
    this.transient = options.transient ?? false;
  }
}

/** The secret that an auth type cannot do without. */
export function needed(value: string | undefined, path: string, type: string): string {
  if (value !== undefined && value !== '') return value;
  throw new AuthorizationError(
    'incomplete_auth',
    path,
    `is missing; auth of the type "${type}" needs it. Write the source again with it`,
  );
}

/** An authorizer that changes nothing, for the others to build on. */
export const inactive: Authorizer = {
  apply: async (request) => request,
  sign: async (request) => request,
  renew: async () => false,
  judged: () => {},
  credentials: { headers: [], parameters: [] },
  secrets: [],
};

/** One fixed header, unless somebody has set it. */
export function headerAuthorizer(name: string, value: string, secrets: readonly string[]): Authorizer {
  checkHeader(name, value);
  return {
    ...inactive,
    apply: async (request) => withHeader(request, name, value),
    credentials: { headers: [name], parameters: [] },
    secrets,
  };
}

/** At once, not with the first request: then it names the source's field. */
export function checkHeader(name: string, value: string): void {
  try {
    new HeaderList().set(name, value, 'source');
  } catch (error) {
    if (!(error instanceof HeaderError)) throw error;
    throw new AuthorizationError('invalid_auth', 'auth', `cannot be sent: ${error.message}`, {
      cause: error,
    });
  }
}

export function withHeader(request: PreparedRequest, name: string, value: string): PreparedRequest {
  if (request.headers.has(name)) return request;
  const headers = request.headers.clone();
  headers.set(name, value, 'source');
  return { ...request, headers };
}
