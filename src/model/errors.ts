/**
 * The one table of error codes. `status` is the HTTP status of an answer that carries the code, `transient`
 * says whether the same call may succeed later, `text` is what the code means (the reference is made from it).
 */
export const errorCodes = {
  invalid_request: { status: 400, transient: false, text: 'A field is missing, unknown or not of its type.' },
  unknown_operation: { status: 400, transient: false, text: 'operation.opName names no operation.' },
  invalid_grant: { status: 401, transient: false, text: 'Credentials or token is invalid or expired.' },
  unknown_source: {
    status: 400,
    transient: false,
    text: 'A source is named that the application does not have.',
  },
  unknown_table: { status: 400, transient: false, text: 'A table is named that its source does not have.' },
  unknown_model: {
    status: 400,
    transient: false,
    text: 'A model is named that the application does not have.',
  },
  forbidden: { status: 403, transient: false, text: 'The token is valid but does not allow this.' },
  not_found: { status: 404, transient: false, text: 'Nothing is there under this address or name.' },
  unknown_application: { status: 404, transient: false, text: 'appId names no application.' },
  unknown_scenario: {
    status: 404,
    transient: false,
    text: 'A scenario is named that the application does not have.',
  },
  method_not_allowed: { status: 405, transient: false, text: 'The address exists, but not for this method.' },
  conflict: { status: 409, transient: false, text: 'What is to be created exists already.' },
  body_too_large: { status: 413, transient: false, text: 'The body of the request is over the limit.' },
  unsupported_media_type: { status: 415, transient: false, text: 'The body is not application/json.' },
  header_too_large: { status: 431, transient: false, text: 'The headers of the request are over the limit.' },
  invalid_configuration: {
    status: 422,
    transient: false,
    text: 'The request that the configuration gives cannot be sent.',
  },
  invalid_result: { status: 422, transient: false, text: 'A script returned what it must not return.' },
  script_error: { status: 422, transient: false, text: 'A script has a fault, or threw an error.' },
  script_timeout: { status: 422, transient: false, text: 'A script took longer than it may.' },
  script_memory: { status: 422, transient: false, text: 'A script needed more memory than it may have.' },
  script_crash: { status: 422, transient: false, text: 'The process that ran a script ended.' },
  value_error: { status: 422, transient: false, text: 'A value does not fit its column.' },
  table_error: {
    status: 422,
    transient: false,
    text: 'A table cannot be loaded or read as the configuration says.',
  },
  file_error: {
    status: 422,
    transient: false,
    text: 'A file cannot be written or read as the configuration says.',
  },
  paging_loop: { status: 422, transient: false, text: 'Paging went in a circle.' },
  outcome_unknown: {
    status: 409,
    transient: false,
    text: 'Records were sent, and whether the external system took them is not known.',
  },
  egress_refused: {
    status: 422,
    transient: false,
    text: 'The address is one that the service must not call.',
  },
  job_time_limit: { status: 504, transient: false, text: 'The job took longer than its time limit.' },
  table_unavailable: {
    status: 503,
    transient: true,
    text: 'The database that holds a table could not be reached.',
  },
  cancelled: { status: 409, transient: false, text: 'The job was cancelled.' },
  http_status: {
    status: 502,
    transient: true,
    text: 'The external system answered with a status other than 2xx.',
  },
  http_failure: {
    status: 502,
    transient: true,
    text: 'The external system could not be reached, or broke off.',
  },
  malformed_response: {
    status: 502,
    transient: false,
    text: 'The response is not what it says it is, or no JSON.',
  },
  authorization_failed: { status: 502, transient: false, text: 'The external system gave no token.' },
  http_timeout: {
    status: 504,
    transient: true,
    text: 'The external system took longer than a timeout of the options.',
  },
  interrupted: {
    status: 503,
    transient: true,
    text: 'The service is stopping, or the job was taken by another worker.',
  },
  overloaded: { status: 503, transient: true, text: 'More work waits than the service takes on.' },
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
