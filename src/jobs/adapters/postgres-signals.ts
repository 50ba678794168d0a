import pg from 'pg';
import { LocalSignals, type JobSignals } from '../signals.ts';

export interface PostgresSignalsParts {
  url: string;
  /** Nobody depends on signals: what fails here is worth knowing while a fault is looked for. */
  logDebug: (error: unknown, what: string) => void;
}

const CHANNEL = 'millrace_job';
/** Each notification wakes all nodes, and commits with one take a lock of the whole server. */
const EVERY_MS = 200;
const TIMEOUT_MS = 5_000;
const LONGEST_BACKOFF_MS = 10_000;

/** Signals between nodes by NOTIFY, over one connection of their own: never within a transaction of somebody else. */
export class PostgresSignals implements JobSignals {
  readonly #parts: PostgresSignalsParts;
  readonly #here = new LocalSignals();
  /** Jobs of which was told lately, and whether there is something new since. */
  readonly #told = new Map<string, { timer: NodeJS.Timeout; again: boolean }>();
  #client: pg.Client | undefined;
  #connecting: Promise<void> = Promise.resolve();
  #notifying: Promise<void> = Promise.resolve();
  #backoffTimer: NodeJS.Timeout | undefined;
  #backoffMs = 0;
  #isClosed = false;

  constructor(parts: PostgresSignalsParts) {
    this.#parts = parts;
    this.#connect();
  }

  send(jobId: string): void {
    this.#here.send(jobId);
    const told = this.#told.get(jobId);
    if (told) told.again = true;
    else this.#tell(jobId);
  }

  on(listener: (jobId: string) => void): void {
    this.#here.on(listener);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#backoffTimer);
    await this.#connecting;
    for (const [jobId, { timer, again }] of this.#told) {
      clearTimeout(timer);
      if (again) this.#notify(jobId);
    }
    this.#told.clear();
    await this.#notifying;
    await this.#here.close();
    const client = this.#client;
    this.#client = undefined;
    if (client) await this.#end(client);
  }

  #tell(jobId: string): void {
    if (this.#isClosed) return;
    const timer = setTimeout(() => {
      const again = this.#told.get(jobId)?.again;
      this.#told.delete(jobId);
      if (again) this.#tell(jobId);
    }, EVERY_MS);
    this.#told.set(jobId, { timer, again: false });
    this.#notify(jobId);
  }

  #notify(jobId: string): void {
    const client = this.#client;
    if (!client) return;
    // One connection answers in order: whoever waits for the last one waits for all.
    this.#notifying = client.query('select pg_notify($1, $2)', [CHANNEL, jobId]).then(
      () => {},
      (error: unknown) => {
        this.#parts.logDebug(error, 'a signal was lost');
        return this.#end(client);
      },
    );
  }

  #connect(): void {
    const client = new pg.Client({
      connectionString: this.#parts.url,
      application_name: 'millrace signals',
      connectionTimeoutMillis: TIMEOUT_MS,
      query_timeout: TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    client.on('error', (error) => this.#parts.logDebug(error, 'the connection for signals broke'));
    client.on('end', () => {
      if (this.#client !== client) return;
      this.#client = undefined;
      this.#connectLater();
    });
    this.#connecting = this.#listen(client);
  }

  async #listen(client: pg.Client): Promise<void> {
    try {
      await client.connect();
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      client.on('notification', ({ processId, payload }) => {
        // Those of this process were told directly.
        if (payload !== undefined && processId !== rows[0]?.pid) this.#here.send(payload);
      });
      await client.query(`listen ${CHANNEL}`);
      this.#client = client;
      this.#backoffMs = 0;
    } catch (error) {
      this.#parts.logDebug(error, 'signals of other nodes cannot be heard now');
      await this.#end(client);
      this.#connectLater();
    }
  }

  async #end(client: pg.Client): Promise<void> {
    try {
      await client.end();
    } catch (error) {
      this.#parts.logDebug(error, 'the connection for signals was gone');
    }
  }

  #connectLater(): void {
    if (this.#isClosed) return;
    this.#backoffMs = Math.min(LONGEST_BACKOFF_MS, this.#backoffMs * 2 + 250);
    this.#backoffTimer = setTimeout(() => this.#connect(), this.#backoffMs);
  }
}
