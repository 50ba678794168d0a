import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { HttpFailure, type FailureKind } from './failure.ts';
import { HttpClient, type SendOptions } from './http-client.ts';
import type { OutgoingRequest } from './request.ts';

/** Real servers on random ports of 127.0.0.1 for the tests of this folder; each ends with its test. */
export async function httpServer(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  t.after(() => server.closeAllConnections());
  return `http://127.0.0.1:${await listening(t, server)}`;
}

export async function httpsServer(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createSecureServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, listener);
  t.after(() => server.closeAllConnections());
  return `https://127.0.0.1:${await listening(t, server)}`;
}

/** A server below HTTP; `onConnection` writes whatever bytes the test needs. */
export async function rawServer(t: TestContext, onConnection: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcpServer({ allowHalfOpen: false }, (socket) => {
    sockets.add(socket);
    // The other side breaks connections on purpose.
    socket.on('error', () => sockets.delete(socket));
    onConnection(socket);
  });
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  return `http://127.0.0.1:${await listening(t, server)}`;
}

/** Answers each request with these bytes, once its head has come. */
export function rawAnswer(
  t: TestContext,
  answer: string | Buffer,
  then: (socket: Socket) => void = () => undefined,
) {
  return rawServer(t, (socket) => {
    socket.once('data', () => {
      socket.write(answer, () => then(socket));
    });
  });
}

async function listening(t: TestContext, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A port on which nothing listens. */
export async function closedPort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

export function httpClient(t: TestContext, policy = { allowPrivate: true }, options = {}): HttpClient {
  const client = new HttpClient(policy, options);
  t.after(() => client.close());
  return client;
}

export function get(url: string, parts: Partial<OutgoingRequest> = {}): OutgoingRequest {
  return { method: 'GET', url, headers: [], body: null, ...parts };
}

export function post(url: string, body: OutgoingRequest['body'] = 'hello'): OutgoingRequest {
  return { method: 'POST', url, headers: [['Content-Type', 'text/plain']], body };
}

export function sendOptions(parts: Partial<SendOptions> = {}): SendOptions {
  return {
    connectTimeoutMs: 2000,
    readTimeoutMs: 2000,
    writeTimeoutMs: 2000,
    retry: { tries: 1, firstDelayMs: 5, longestDelayMs: 20, longestRetryAfterMs: 2000 },
    redirects: 10,
    credentials: { headers: [], parameters: [] },
    signal: new AbortController().signal,
    ...parts,
  };
}

export const threeTries = { tries: 3, firstDelayMs: 5, longestDelayMs: 20, longestRetryAfterMs: 2000 };

/** For `assert.rejects`. */
export function failure(kind: FailureKind, message?: RegExp): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof HttpFailure))
      throw new Error(`no HttpFailure, but ${String(error)}`, { cause: error });
    if (error.kind !== kind)
      throw new Error(`${error.kind} instead of ${kind}: ${error.message}`, { cause: error });
    if (message && !message.test(error.message)) throw new Error(`${error.message} is not like ${message}`);
    return true;
  };
}

export async function bodyOf(message: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** What the server saw, as JSON. */
export function echo(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('error', () => response.destroy());
  request.on('end', () => {
    const { method, url, rawHeaders, headers } = request;
    response.setHeader('Content-Type', 'application/json');
    response.end(
      JSON.stringify({ method, url, rawHeaders, headers, body: Buffer.concat(chunks).toString('utf8') }),
    );
  });
}

/** Of 127.0.0.1, localhost and api.test, for tests only. */
export const TEST_CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBozCCAUmgAwIBAgIUYSVoDiMQ9MgK6cMyctHEIcqKUq0wCgYIKoZIzj0EAwIw
EzERMA8GA1UEAwwIYXBpLnRlc3QwIBcNMjYxMTIxMTIzNzQ4WhgPMjEyNjEwMjgx
MjM3NDhaMBMxETAPBgNVBAMMCGFwaS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEl/Pe8IsFP5hFqLZNtJ0oz2bTKlmuIhPL9FQ+zJtusjYxBZnn3fosxRdc
jGl8VxHe22HHrxgj7lXhOkBlmSVKJ6N5MHcwHQYDVR0OBBYEFBvubB+txFekjOXr
YRSYuGPkJ3htMB8GA1UdIwQYMBaAFBvubB+txFekjOXrYRSYuGPkJ3htMA8GA1Ud
EwEB/wQFMAMBAf8wJAYDVR0RBB0wG4IIYXBpLnRlc3SCCWxvY2FsaG9zdIcEfwAA
ATAKBggqhkjOPQQDAgNIADBFAiAQ7yLmofCiqdvMS0rfH0y7L1+ezfo6jvTEm1by
yvZNxQIhAME86ncUBkotwxaACjyJF8NZ+YekR22N5NDwF8Q0E5uc
-----END CERTIFICATE-----`;
const TEST_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxen9bEEmnhlyxKim
kgAhlvgv56OoB2VM1oGecAxscQChRANCAASX897wiwU/mEWotk20nSjPZtMqWa4i
E8v0VD7Mm26yNjEFmefd+izFF1yMaXxXEd7bYcevGCPuVeE6QGWZJUon
-----END PRIVATE KEY-----`;
