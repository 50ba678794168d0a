import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { isUnavailable } from '../database/database.ts';
import type { Failure } from '../model/envelope.ts';
import { errorCodes, ServiceError, type ErrorCode } from '../model/errors.ts';
import { TokenError } from '../oauth2/token-error.ts';
import { isReceivingBytes } from './byte-body.ts';

/** When the records are away: long enough not to hammer them, short enough not to be felt. */
const RETRY_AFTER_SECONDS = '5';

/** What Fastify finds wrong with a request before we see it. */
const fastifyErrors: Record<string, [ErrorCode, string]> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['body_too_large', 'the body is over the limit'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'the Content-Type must be application/json'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['invalid_request', 'the body is empty'],
};

/** Answers any error in the shape that belongs to the path: the token endpoint has its own (contract section 7). */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error instanceof TokenError) {
    return sendTokenError(reply.headers(error.headers), error.status, error.error, error.message);
  }
  const known = asServiceError(error as FastifyError);
  if (known.status >= 500) request.log.error({ err: error }, known.message);
  if (known.code === 'records_unavailable') reply.header('retry-after', RETRY_AFTER_SECONDS);
  // Fastify would close the connection under a sender that is still sending, who would then see a broken
  // connection instead of the answer; Node.js reads and drops the rest.
  reply.removeHeader('connection');
  if (isTokenPath(request)) {
    // RFC 6749 has 400 for whatever is wrong with a request; its clients do not know 415.
    const status = known.code === 'unsupported_media_type' ? 400 : known.status;
    return sendTokenError(reply, status, tokenErrorCode(known), withRequestId(known, request));
  }
  if (known.code === 'invalid_grant') reply.header('www-authenticate', 'Bearer error="invalid_token"');
  return reply.code(known.status).send(failure(known, request));
}

export function isTokenPath(request: FastifyRequest): boolean {
  return request.url.startsWith('/api/v1/oauth2/');
}

function asServiceError(error: FastifyError): ServiceError {
  if (error instanceof ServiceError) return error;
  if (isUnavailable(error)) {
    return new ServiceError('records_unavailable', "the database of the service's records is not available", {
      cause: error,
    });
  }
  const [code, message] = fastifyErrors[error.code] ?? [];
  if (code && message) return new ServiceError(code, message);
  const { statusCode } = error;
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new ServiceError('invalid_request', error.message);
  }
  return new ServiceError('internal_error', 'the service failed; its log has more under the request id', {
    cause: error,
  });
}

function failure(error: ServiceError, request: FastifyRequest): Failure {
  return {
    status: 'error',
    result: {
      code: error.code,
      message: error.message,
      ...(error.path && { path: error.path }),
      ...(error.status >= 500 && { requestId: request.id }),
    },
  };
}

function tokenErrorCode({ status }: ServiceError): string {
  if (status < 500) return 'invalid_request';
  return status === 503 ? 'temporarily_unavailable' : 'server_error';
}

function withRequestId(error: ServiceError, request: FastifyRequest): string {
  return error.status >= 500 ? `${error.message} (request id ${request.id})` : error.message;
}

function sendTokenError(
  reply: FastifyReply,
  status: number,
  error: string,
  description: string,
): FastifyReply {
  return reply.code(status).send({ error, error_description: description });
}

/** What is not even HTTP: there is no request and no reply yet, only a socket. */
export function answerMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy(error);
    return;
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isReceivingBytes(socket)) return;
  const code = error.code === 'HPE_HEADER_OVERFLOW' ? 'header_too_large' : 'invalid_request';
  const timedOut = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const message = timedOut
    ? 'the request took too long to arrive'
    : `the request is not valid HTTP (${error.code})`;
  const status = timedOut ? 408 : errorCodes[code].status;
  const body = JSON.stringify({ status: 'error', result: { code, message } } satisfies Failure);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
