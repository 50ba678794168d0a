import { lookup as resolve } from 'node:dns/promises';
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Client } from 'undici';
import { checkAddress, checkHost, type EgressPolicy } from './egress.ts';
import { HttpFailure } from './failure.ts';

export interface TlsOptions {
  /** Trusted instead of the system's certificates, PEM. */
  ca?: string;
  cert?: string;
  key?: string;
  passphrase?: string;
  /** false: any certificate is taken. */
  rejectUnauthorized?: boolean;
  /** The name that the certificate must bear, when it is not the URL's. */
  servername?: string;
}

/** By which way a host is reached. */
export interface Route {
  tls?: TlsOptions | undefined;
  /** `http://` or `https://`, with `user:password@` where the proxy asks for it. */
  proxy?: string | undefined;
}

interface ResolvedAddress {
  address: string;
  family: number;
}
export type Lookup = (hostname: string) => Promise<readonly ResolvedAddress[]>;

export const systemLookup: Lookup = (hostname) => resolve(hostname, { all: true });

export interface Dialler {
  policy: EgressPolicy;
  lookup: Lookup;
}

/** A connection that stands, TLS and proxy included; ready for the request to be written. */
export async function openConnection(
  url: URL,
  route: Route,
  dialler: Dialler,
  signal: AbortSignal,
): Promise<Socket> {
  if (!route.proxy) return secured(await openTcp(url, dialler, signal), url, route.tls, signal);
  await checkBehindProxy(url, dialler, signal);
  const proxy = new URL(route.proxy);
  const toProxy = await secured(await openTcp(proxy, dialler, signal), proxy, undefined, signal);
  if (url.protocol === 'http:') return toProxy;
  return secured(await tunnel(toProxy, url, proxy, signal), url, route.tls, signal);
}

export function proxyAuthorization(proxy: URL): string | null {
  if (proxy.username === '' && proxy.password === '') return null;
  const credentials = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

function portOf(url: URL): number {
  return Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
}

async function openTcp(url: URL, dialler: Dialler, signal: AbortSignal): Promise<Socket> {
  const host = hostOf(url);
  checkHost(host, dialler.policy);
  const addresses = isIP(host) ? [] : await allowedAddresses(host, dialler, signal);
  const socket = connectTcp({
    host,
    port: portOf(url),
    lookup: fixedLookup(addresses),
    autoSelectFamily: true,
  });
  socket.setNoDelay(true).setKeepAlive(true, 60_000);
  await established(socket, 'connect', url, signal);
  // What counts is the address that was really connected to.
  try {
    checkAddress(socket.remoteAddress ?? '', host, dialler.policy);
  } catch (error) {
    socket.destroy();
    throw error;
  }
  return socket;
}

/** The addresses of a name that may be reached; when none of them may, the refusal of the first. */
async function allowedAddresses(host: string, { lookup, policy }: Dialler, signal: AbortSignal) {
  const addresses = await resolved(host, lookup, signal);
  const refusals: unknown[] = [];
  const allowed = addresses.filter(({ address }) => {
    try {
      checkAddress(address, host, policy);
      return true;
    } catch (refusal) {
      refusals.push(refusal);
      return false;
    }
  });
  if (allowed.length === 0) throw refusals[0] ?? new HttpFailure('dns', `the host ${host} has no address`);
  return allowed;
}

async function resolved(
  host: string,
  lookup: Lookup,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  try {
    return await unlessAborted(lookup(host), signal);
  } catch (cause) {
    signal.throwIfAborted();
    const { code = 'unknown error' } = cause as NodeJS.ErrnoException;
    // A name that does not exist is most often misspelt; the other codes are a name server's trouble.
    const transient = code !== 'ENOTFOUND';
    throw new HttpFailure('dns', `the name of the host ${host} could not be resolved (${code})`, {
      transient,
      cause,
    });
  }
}

/**
 * Behind a proxy the name is resolved there. What is known here is checked here: a literal address, and a name that
 * resolves to addresses of which none may be reached.
 */
async function checkBehindProxy(url: URL, dialler: Dialler, signal: AbortSignal): Promise<void> {
  const host = hostOf(url);
  checkHost(host, dialler.policy);
  if (isIP(host)) return;
  try {
    await allowedAddresses(host, dialler, signal);
  } catch (error) {
    if (!(error instanceof HttpFailure) || error.kind !== 'dns') throw error;
  }
}

function fixedLookup(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_hostname, options, callback) => {
    if (options.all) callback(null, [...addresses]);
    else callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
  };
}

async function tunnel(toProxy: Socket, url: URL, proxy: URL, signal: AbortSignal): Promise<Socket> {
  const client = new Client(proxy.origin, {
    // Not at once: undici does not go on when it is called back while it is still connecting.
    connect: (_options, callback) => queueMicrotask(() => callback(null, toProxy)),
    allowH2: false,
    headersTimeout: 0,
  });
  const target = `${url.hostname}:${portOf(url)}`;
  const authorization = proxyAuthorization(proxy);
  try {
    const { statusCode, socket } = await client.connect({
      path: target,
      headers: { host: target, ...(authorization === null ? {} : { 'proxy-authorization': authorization }) },
      signal,
    });
    if (statusCode >= 200 && statusCode < 300) return socket as Socket;
    socket.destroy();
    const transient = statusCode >= 500;
    throw new HttpFailure('proxy', `the proxy answered ${statusCode} when asked for ${target}`, {
      transient,
    });
  } catch (cause) {
    toProxy.destroy();
    signal.throwIfAborted();
    if (cause instanceof HttpFailure) throw cause;
    throw new HttpFailure('connection', `the proxy ended the connection: ${(cause as Error).message}`, {
      cause,
    });
  } finally {
    void client.destroy();
  }
}

async function secured(
  socket: Socket,
  url: URL,
  tls: TlsOptions | undefined,
  signal: AbortSignal,
): Promise<Socket> {
  if (url.protocol !== 'https:') return socket;
  const host = hostOf(url);
  const { servername = isIP(host) ? undefined : host, ...options } = tls ?? {};
  try {
    const encrypted = connectTls({
      ...options,
      ...(servername === undefined ? {} : { servername }),
      socket,
      host,
      ALPNProtocols: ['http/1.1'],
    });
    await established(encrypted, 'secureConnect', url, signal);
    return encrypted;
  } catch (error) {
    socket.destroy();
    if (error instanceof HttpFailure || signal.aborted) throw error;
    // Of a CA, certificate or key that cannot be read.
    throw new HttpFailure('tls', `the TLS options for ${host} cannot be used: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function established(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  url: URL,
  signal: AbortSignal,
) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => socket.destroy(signal.reason as Error);
  // Stays: until undici listens, an error must not be without a listener.
  socket.on('error', (error) => reject(signal.aborted ? signal.reason : connectFailure(error, event, url)));
  socket.once('close', () => reject(connectFailure(new Error('the connection was closed'), event, url)));
  socket.once(event, () => resolve());
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

const BROKEN_CONNECTION = new Set([undefined, 'ECONNRESET', 'EPIPE', 'ETIMEDOUT']);

function connectFailure(error: Error, event: 'connect' | 'secureConnect', url: URL): HttpFailure {
  const { code } = error as NodeJS.ErrnoException;
  const inner =
    error instanceof AggregateError ? (error.errors as Error[]).map(({ message }) => message) : [];
  const message = inner.join('; ') || error.message || String(code);
  if (event === 'secureConnect' && !BROKEN_CONNECTION.has(code)) {
    return new HttpFailure('tls', `no trusted TLS connection to ${url.host}: ${message}`, { cause: error });
  }
  return new HttpFailure('connection', `no connection to ${url.host}: ${message}`, { cause: error });
}

async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason as Error);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
