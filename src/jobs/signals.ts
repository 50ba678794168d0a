import { EventEmitter } from 'node:events';

/** Tells all nodes that something about a job has changed: its state, its events, a wish to cancel it. */
export interface JobSignals {
  send(jobId: string): void;
  /** Signals may be lost: who depends on one looks for itself from time to time. */
  on(listener: (jobId: string) => void): void;
  close(): Promise<void>;
}

/** Where all who could listen are in this process. */
export class LocalSignals implements JobSignals {
  readonly #emitter = new EventEmitter().setMaxListeners(0);

  send(jobId: string): void {
    this.#emitter.emit('signal', jobId);
  }

  on(listener: (jobId: string) => void): void {
    this.#emitter.on('signal', listener);
  }

  async close(): Promise<void> {
    this.#emitter.removeAllListeners();
  }
}
