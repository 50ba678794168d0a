import { errorCodes, ServiceError, type ErrorCode } from '../model/errors.ts';
import type { JobError } from '../model/job.ts';
import { FileError } from '../files/file-error.ts';
import { HttpFailure, type FailureKind } from '../http/failure.ts';
import { ScriptError, type ScriptErrorKind } from '../scripting/script-run.ts';
import { CellError, RowsError, StoreUnavailable, TableError } from '../tables/table-errors.ts';
import { AuthorizationError } from './http-request/authorization.ts';
import { BodyError } from './http-request/body.ts';
import { HeaderError } from './http-request/header-list.ts';
import { InterceptorError } from './http-request/interceptors/interceptor.ts';
import { TableEncodingError } from './http-request/table-encoding.ts';
import { UrlError } from './http-request/url.ts';

/** The external system answered, with a status that nobody took charge of. */
export class HttpStatusError extends Error {
  override readonly name = 'HttpStatusError';
  readonly statusCode: number;

  constructor(method: string, url: string, statusCode: number, statusMessage: string, beginning: string) {
    const status = `${statusCode} ${statusMessage}`.trim();
    super(
      `${method} ${url} was answered by ${status}${beginning === '' ? ', without a body' : `: ${beginning}`}`,
    );
    this.statusCode = statusCode;
  }
}

/** A step of a scenario failed, or one of a scenario that it calls. */
export class StepError extends Error {
  override readonly name = 'StepError';
  readonly #steps: readonly string[];
  readonly #field: string;

  /** `field`: what the path of the cause is relative to, in the scenario. */
  constructor(step: string, field: string, error: unknown) {
    super(`the step "${step}" failed`, { cause: error instanceof StepError ? error.cause : error });
    this.#steps = error instanceof StepError ? [step, ...error.#steps] : [step];
    this.#field = error instanceof StepError ? `${field}.scenario` : field;
  }

  /** What was wrong with it, as an error of the job. */
  get jobError(): JobError {
    const { path, message, ...rest } = jobErrorOf(this.cause);
    const isOfCalled = this.#steps.length > 1;
    const field = isOfCalled || path === undefined ? this.#field : `${this.#field}.${path}`;
    return {
      ...rest,
      message: `step "${this.#steps.join('/')}": ${message}`,
      ...((isOfCalled || path !== undefined) && { path: field }),
    };
  }
}

const ofHttp: Partial<Record<FailureKind, ErrorCode>> = {
  invalid_url: 'invalid_configuration',
  invalid_method: 'invalid_configuration',
  invalid_header: 'invalid_configuration',
  egress: 'egress_refused',
  connect_timeout: 'http_timeout',
  write_timeout: 'http_timeout',
  read_timeout: 'http_timeout',
  total_timeout: 'http_timeout',
  truncated: 'malformed_response',
  decoding: 'malformed_response',
  too_large: 'malformed_response',
  protocol: 'malformed_response',
  closed: 'interrupted',
};

const ofScript: Record<ScriptErrorKind, ErrorCode> = {
  script: 'script_error',
  response: 'malformed_response',
  timeout: 'script_timeout',
  memory: 'script_memory',
  crash: 'script_crash',
  overloaded: 'overloaded',
  closed: 'interrupted',
};

export function codeOfScriptError({ kind }: ScriptError): ErrorCode {
  return ofScript[kind];
}

/** Every error that a job can end with, by its code; what is not known here is a fault of ours. */
export function jobErrorOf(error: unknown): JobError {
  if (error instanceof StepError) return error.jobError;
  if (error instanceof ServiceError) {
    return { code: error.code, message: error.message, ...(error.path && { path: error.path }) };
  }
  if (error instanceof ScriptError) {
    const { line, column, property } = error;
    const place = { ...(line !== undefined && { line }), ...(column !== undefined && { column }) };
    return { code: codeOfScriptError(error), message: error.message, path: property, ...place };
  }
  if (error instanceof HttpStatusError) {
    return { code: 'http_status', message: error.message, httpStatus: error.statusCode };
  }
  if (error instanceof HttpFailure) {
    return { code: ofHttp[error.kind] ?? 'http_failure', message: error.message };
  }
  if (error instanceof AuthorizationError) {
    const code = error.kind.startsWith('token_') ? 'authorization_failed' : 'invalid_configuration';
    return { code, message: error.message, path: error.path };
  }
  if (error instanceof StoreUnavailable) return { code: 'table_unavailable', message: error.message };
  if (error instanceof TableError) {
    const isValue = error instanceof CellError || error instanceof RowsError;
    return { code: isValue ? 'value_error' : 'table_error', message: error.message };
  }
  if (error instanceof FileError) return { code: 'file_error', message: error.message };
  for (const known of [UrlError, HeaderError, BodyError, InterceptorError]) {
    if (error instanceof known) {
      return { code: 'invalid_configuration', message: error.message, path: error.path };
    }
  }
  if (error instanceof TableEncodingError) return { code: 'invalid_configuration', message: error.message };
  return { code: 'internal_error', message: 'the service failed; its log has more under the id of the job' };
}

/**
 * The HTTP status with which a job that was waited for is answered. What refuses a call with 400 or 404 is, once the
 * job runs, a fault of its configuration or of a script.
 */
export function statusOfJobError(code: string): number {
  const status = Object.hasOwn(errorCodes, code) ? errorCodes[code as ErrorCode].status : 500;
  return status === 400 || status === 404 ? 422 : status;
}
