/**
 * The one table of error codes. `status` is the HTTP status of an answer that carries the code, `transient`
 * says whether the same call may succeed later, `text` is what the code means (the reference is made from it).
 */
export const errorCodes = {
  invalid_request: { status: 400, transient: false, text: 'A field is missing, unknown or not of its type.' },
  unknown_operation: { status: 400, transient: false, text: 'operation.opName names no operation.' },
  invalid_grant: { status: 401, transient: false, text: 'Credentials or token is invalid or expired.' },
  forbidden: { status: 403, transient: false, text: 'The token is valid but does not allow this.' },
  not_found: { status: 404, transient: false, text: 'Nothing is there under this address or name.' },
  unknown_application: { status: 404, transient: false, text: 'appId names no application.' },
  method_not_allowed: { status: 405, transient: false, text: 'The address exists, but not for this method.' },
  conflict: { status: 409, transient: false, text: 'What is to be created exists already.' },
  body_too_large: { status: 413, transient: false, text: 'The body of the request is over the limit.' },
  unsupported_media_type: { status: 415, transient: false, text: 'The body is not application/json.' },
  header_too_large: { status: 431, transient: false, text: 'The headers of the request are over the limit.' },
  internal_error: {
    status: 500,
    transient: false,
    text: 'A fault of the service; its log has the request id.',
  },
  records_unavailable: {
    status: 503,
    transient: true,
    text: "The database of the service's records is away.",
  },
} as const satisfies Record<string, { status: number; transient: boolean; text: string }>;

export type ErrorCode = keyof typeof errorCodes;

/** What the contract's section 7 says, to the letter. */
export const INVALID_GRANT_TEXT = 'Credentials or token is invalid or expired.';

/** An error meant for the caller: its message names what is wrong and what is allowed. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly code: ErrorCode;
  /** The field at fault, as a path such as `operation.opName`. */
  readonly path: string | undefined;

  constructor(code: ErrorCode, message: string, options: { path?: string; cause?: unknown } = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.path = options.path;
  }

  get status(): number {
    return errorCodes[this.code].status;
  }
}
