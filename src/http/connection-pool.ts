import type { Socket } from 'node:net';
import { Client, type buildConnector, type Dispatcher } from 'undici';
import { openConnection, type Dialler, type Route } from './connect.ts';
import { HttpFailure } from './failure.ts';
import { filterInterimAnswers, type InterimFilter } from './interim-answers.ts';

/** Further ones are closed instead of kept. */
const MOST_IDLE_PER_HOST = 64;
const LARGEST_HEADERS_BYTES = 128 * 1024;

/** One connection to one host, by one route; it takes one request at a time. */
export class Connection {
  readonly key: string;
  readonly #client: Client;
  readonly #abort = new AbortController();
  #socket: Socket | null = null;
  #filter: InterimFilter | null = null;

  constructor(key: string, url: URL, open: (signal: AbortSignal) => Promise<Socket>) {
    this.key = key;
    this.#client = new Client(url.origin, {
      allowH2: false,
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: LARGEST_HEADERS_BYTES,
      connect: (_options, callback) => void this.#open(open, callback),
    });
  }

  async #open(
    open: (signal: AbortSignal) => Promise<Socket>,
    callback: buildConnector.Callback,
  ): Promise<void> {
    let socket: Socket;
    try {
      socket = await open(this.#abort.signal);
    } catch (error) {
      callback(error as Error, null);
      return;
    }
    this.#socket = socket;
    this.#filter = filterInterimAnswers(socket);
    callback(null, socket);
  }

  onDisconnect(listener: () => void): void {
    this.#client.on('disconnect', listener);
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#client.dispatch(options, handler);
  }

  /** A request is about to be written. */
  expectAnswer(): void {
    this.#filter?.expectAnswer();
  }

  /** An answer without a length ends with the connection: when that broke, the answer is not whole. */
  get broken(): boolean {
    return Boolean(this.#socket?.errored);
  }

  /** Resolves when the socket is closed. */
  async destroy(reason: Error): Promise<void> {
    this.#abort.abort(reason);
    await this.#client.destroy(reason);
  }
}

/** Keeps connections alive and hands them out again. */
export class ConnectionPool {
  readonly #dialler: Dialler;
  readonly #idle = new Map<string, Connection[]>();
  readonly #all = new Set<Connection>();
  #closed = false;

  constructor(dialler: Dialler) {
    this.#dialler = dialler;
  }

  acquire(url: URL, route: Route): Connection {
    if (this.#closed) throw new HttpFailure('closed', 'the service is stopping');
    const key = JSON.stringify([url.origin, route.proxy, route.tls]);
    return this.#idle.get(key)?.pop() ?? this.#connect(key, url, route);
  }

  release(connection: Connection): void {
    if (!this.#all.has(connection)) return;
    const idle = this.#idle.get(connection.key) ?? [];
    if (idle.length >= MOST_IDLE_PER_HOST)
      return this.drop(connection, new Error('there are enough idle connections'));
    idle.push(connection);
    this.#idle.set(connection.key, idle);
  }

  drop(connection: Connection, reason: Error): void {
    this.#all.delete(connection);
    this.#forget(connection);
    void connection.destroy(reason);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const reason = new HttpFailure('closed', 'the service is stopping');
    const open = [...this.#all];
    this.#all.clear();
    this.#idle.clear();
    await Promise.all(open.map((connection) => connection.destroy(reason)));
  }

  #connect(key: string, url: URL, route: Route): Connection {
    const connection = new Connection(key, url, (signal) =>
      openConnection(url, route, this.#dialler, signal),
    );
    this.#all.add(connection);
    connection.onDisconnect(() => {
      if (this.#idle.get(key)?.includes(connection))
        this.drop(connection, new Error('the connection was closed'));
    });
    return connection;
  }

  #forget(connection: Connection): void {
    const rest = this.#idle.get(connection.key)?.filter((other) => other !== connection) ?? [];
    if (rest.length > 0) this.#idle.set(connection.key, rest);
    else this.#idle.delete(connection.key);
  }
}
