import { createConnection, type Connection, type ConnectionConfig } from 'mariadb';
import { StoreUnavailable } from '../../table-errors.ts';

const WAIT_MS = 60_000;
/** Below the wait_timeout that servers are given to close idle connections. */
const IDLE_MS = 30_000;

interface Waiting {
  resolve: (connection: Connection) => void;
  reject: (error: Error) => void;
  timer: NodeJS.Timeout;
}

/**
 * At most `most` connections. The connector's own pool would try for its whole waiting time to reach a server that
 * is away; here that is an error at once.
 */
export class ConnectionPool {
  readonly #config: () => ConnectionConfig;
  readonly #most: number;
  readonly #idle: { connection: Connection; timer: NodeJS.Timeout }[] = [];
  readonly #waiting: Waiting[] = [];
  #open = 0;

  constructor(config: () => ConnectionConfig, most: number) {
    this.#config = config;
    this.#most = most;
  }

  async take(): Promise<Connection> {
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      clearTimeout(idle.timer);
      if (idle.connection.isValid()) return idle.connection;
      this.#open--;
    }
    return this.#open < this.#most ? this.#connect() : this.#wait();
  }

  /** `usable` false: its transaction or its locks may still stand, so it is cut. */
  give(connection: Connection, usable: boolean): void {
    if (!usable || !connection.isValid()) {
      connection.destroy();
      this.#open--;
      this.#connectForNext();
      return;
    }
    const next = this.#next();
    if (next) next.resolve(connection);
    else this.#keep(connection);
  }

  async close(): Promise<void> {
    const idle = this.#idle.splice(0);
    for (const { timer } of idle) clearTimeout(timer);
    await Promise.allSettled(idle.map(({ connection }) => connection.end()));
  }

  async #connect(): Promise<Connection> {
    this.#open++;
    try {
      const connection = await createConnection(this.#config());
      // Whoever uses it gets the error as well; idle ones are looked at before they are used.
      connection.on('error', () => {});
      return connection;
    } catch (error) {
      this.#open--;
      throw error;
    }
  }

  #connectForNext(): void {
    const next = this.#next();
    if (!next) return;
    this.#connect().then(next.resolve, (error: Error) => {
      next.reject(error);
      this.#connectForNext();
    });
  }

  #wait(): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        const problem = `all ${this.#most} connections are in use for longer than ${WAIT_MS / 1000} s`;
        reject(new StoreUnavailable({ problem }));
      }, WAIT_MS);
      const waiting = { resolve, reject, timer };
      this.#waiting.push(waiting);
    });
  }

  #next(): Waiting | undefined {
    const next = this.#waiting.shift();
    if (next) clearTimeout(next.timer);
    return next;
  }

  #keep(connection: Connection): void {
    const timer = setTimeout(() => {
      this.#idle.splice(
        this.#idle.findIndex((idle) => idle.connection === connection),
        1,
      );
      this.#open--;
      connection.end().catch(() => connection.destroy());
    }, IDLE_MS);
    timer.unref();
    this.#idle.push({ connection, timer });
  }
}
