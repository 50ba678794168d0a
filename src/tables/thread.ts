import { Worker, type TransferListItem } from 'node:worker_threads';
import { fromPlain, StoreUnavailable } from './table-errors.ts';
import type { Answer, Call, Notice } from './thread-serve.ts';

type Method = (...args: never[]) => unknown;
type MethodsOf<T> = { [K in keyof T as T[K] extends Method ? K : never]: T[K] extends Method ? T[K] : never };

interface Waiting {
  resolve: (result: unknown) => void;
  reject: (error: Error) => void;
}

/**
 * A thread that answers calls about one place: a file, or what else can be sent to it. It starts with the first call; one that broke (out of memory, say)
 * fails the calls that it had, and the next call starts another.
 */
export class Thread<T> {
  readonly #entry: URL;
  readonly #place: unknown;
  readonly #onNotice: (error: Error) => void;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #lastCall = 0;
  #closed = false;

  constructor(entry: URL, place: unknown, onNotice: (error: Error) => void = () => undefined) {
    this.#entry = entry;
    this.#place = place;
    this.#onNotice = onNotice;
  }

  call<K extends keyof MethodsOf<T> & string>(
    method: K,
    args: Parameters<MethodsOf<T>[K]>,
    transfer: readonly TransferListItem[] = [],
  ): Promise<Awaited<ReturnType<MethodsOf<T>[K]>>> {
    return new Promise((resolve, reject) => {
      if (this.#closed) throw new StoreUnavailable({ problem: 'it was closed' });
      this.#worker ??= this.#start();
      const id = ++this.#lastCall;
      this.#worker.postMessage({ id, method, args } satisfies Call, transfer);
      this.#waiting.set(id, { resolve: resolve as (result: unknown) => void, reject });
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    const worker = this.#worker;
    if (!worker) return;
    const exited = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage({ id: 0, method: 'close', args: [] } satisfies Call);
    await exited;
  }

  #start(): Worker {
    const worker = new Worker(this.#entry, { workerData: this.#place });
    worker.on('message', (answer: Answer | Notice) => {
      if ('notice' in answer) return this.#onNotice(fromPlain(answer.notice));
      const waiting = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if ('error' in answer) waiting?.reject(fromPlain(answer.error));
      else waiting?.resolve(answer.result);
    });
    worker.on('error', (error) => this.#lose(worker, (error as Error).message));
    worker.on('exit', () => this.#lose(worker, 'it was closed'));
    return worker;
  }

  #lose(worker: Worker, problem: string): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    const lost = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of lost) reject(new StoreUnavailable({ problem }));
  }
}
