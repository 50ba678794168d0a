/** Every way in which a request can fail, and whether the same request may succeed later. */
export const failureKinds = {
  invalid_url: { transient: false, text: 'The URL is malformed.' },
  invalid_method: { transient: false, text: 'The method is no HTTP method that can be sent.' },
  invalid_header: { transient: false, text: 'A header cannot be sent as it is written.' },
  egress: { transient: false, text: 'The address is one that the service must not reach.' },
  dns: { transient: true, text: 'The name of the host could not be resolved.' },
  connect_timeout: { transient: true, text: 'No connection (TLS included) within connectTimeout.' },
  connection: { transient: true, text: 'The connection was refused or broke before the answer began.' },
  tls: { transient: false, text: 'The TLS handshake failed, or the certificate is not trusted.' },
  proxy: { transient: false, text: 'The proxy refused to pass the request on.' },
  write_timeout: { transient: true, text: 'The server took none of the body for longer than writeTimeout.' },
  read_timeout: { transient: true, text: 'The server was silent for longer than readTimeout.' },
  total_timeout: { transient: false, text: 'The request took longer than totalTimeout, with all its tries.' },
  protocol: { transient: false, text: 'The answer is not HTTP.' },
  truncated: { transient: true, text: 'The answer ended before it was complete.' },
  decoding: { transient: false, text: 'The Content-Encoding or charset of the answer is unknown or wrong.' },
  too_large: { transient: false, text: 'The answer is larger than the limit.' },
  redirects: { transient: false, text: 'Too many redirects, or one that leads nowhere.' },
  closed: { transient: false, text: 'The service is stopping.' },
} as const satisfies Record<string, { transient: boolean; text: string }>;

export type FailureKind = keyof typeof failureKinds;

/** A request that got no complete answer. The message holds no header values, paths or query parameters. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure';
  readonly kind: FailureKind;
  /** Whether the same request may succeed later. */
  readonly transient: boolean;
  /** Whether the server may have seen something of the request. */
  readonly sent: boolean;

  constructor(
    kind: FailureKind,
    message: string,
    options: { sent?: boolean; transient?: boolean; cause?: unknown } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.kind = kind;
    this.transient = options.transient ?? failureKinds[kind].transient;
    this.sent = options.sent ?? false;
  }
}

export type Stage = 'connecting' | 'sending' | 'waiting' | 'receiving';

/** What the transport reports, in the words of the service. */
export function asHttpFailure(error: unknown, stage: Stage, origin: string): HttpFailure {
  if (error instanceof HttpFailure) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  const sent = stage !== 'connecting';
  const failure = (kind: FailureKind, text: string) =>
    new HttpFailure(kind, `${origin}: ${text}`, { sent, cause: error });
  if (code === 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH') {
    return failure('invalid_header', 'the header Content-Length does not tell the length of the body');
  }
  if (code === 'UND_ERR_HEADERS_OVERFLOW')
    return failure('too_large', 'the headers of the answer are too large');
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED')
    return failure('closed', 'the service is stopping');
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED')
    return failure('invalid_header', message);
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') {
    return failure('truncated', 'the answer is shorter or longer than its Content-Length');
  }
  // The parser of undici gives no usable code.
  if ((error as Error).name === 'HTTPParserError' && !/EOF/.test(message))
    return failure('protocol', message);
  if (stage === 'receiving')
    return failure('truncated', `the answer broke off before it was complete: ${message}`);
  return failure('connection', `the connection broke before an answer came: ${message}`);
}
