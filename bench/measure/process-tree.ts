import { readdir, readFile } from 'node:fs/promises';
import { cpuSeconds, peakMemoryMib, ProcessEnded } from './process-usage.ts';

export interface ProcessFigures {
  pid: number;
  /** Since the watch began. */
  cpuSeconds: number;
  /** Since the start of the process. */
  peakMib: number;
}

interface Watched {
  cpuBefore: number;
  cpuSeconds: number;
  peakMib: number;
}

/** The kernel forgets the figures of a process with its end: the last look at it counts. */
const LOOK_MS = 100;

/** A process with all its descendants, those that end meanwhile included. */
export class ProcessTree implements AsyncDisposable {
  readonly #root: number;
  readonly #watched = new Map<number, Watched>();
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | undefined;

  private constructor(root: number) {
    this.#root = root;
    this.#timer = setInterval(() => {
      this.#looking ??= this.#look(false).finally(() => (this.#looking = undefined));
    }, LOOK_MS);
  }

  static async watch(root: number): Promise<ProcessTree> {
    const tree = new ProcessTree(root);
    await tree.#look(true);
    return tree;
  }

  /** The root first, then the others, the one with the most CPU time before. */
  async figures(): Promise<ProcessFigures[]> {
    await this.#looking;
    await this.#look(false);
    const all = [...this.#watched].map(([pid, { cpuBefore, cpuSeconds: cpu, peakMib }]) => ({
      pid,
      cpuSeconds: cpu - cpuBefore,
      peakMib,
    }));
    return all.toSorted(
      (a, b) => Number(b.pid === this.#root) - Number(a.pid === this.#root) || b.cpuSeconds - a.cpuSeconds,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  async #look(isFirst: boolean): Promise<void> {
    const all = [this.#root, ...((await unlessGone(descendants(this.#root))) ?? [])];
    await Promise.all(all.map((pid) => unlessGone(this.#lookAt(pid, isFirst))));
  }

  async #lookAt(pid: number, isFirst: boolean): Promise<void> {
    const [cpu, peakMib] = await Promise.all([cpuSeconds(pid), peakMemoryMib(pid)]);
    const cpuBefore = this.#watched.get(pid)?.cpuBefore ?? (isFirst ? cpu : 0);
    this.#watched.set(pid, { cpuBefore, cpuSeconds: cpu, peakMib });
  }
}

async function descendants(pid: number): Promise<number[]> {
  const tasks = await readdir(`/proc/${pid}/task`);
  const lists = await Promise.all(
    tasks.map((task) => unlessGone(readFile(`/proc/${pid}/task/${task}/children`, 'utf8'))),
  );
  const children = lists.flatMap((list = '') => list.split(' ').filter(Boolean).map(Number));
  const below = await Promise.all(children.map((child) => unlessGone(descendants(child))));
  return [...children, ...below.flatMap((pids = []) => pids)];
}

/** undefined: the process or the thread has ended. */
async function unlessGone<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH' || error instanceof ProcessEnded) return undefined;
    throw error;
  }
}
