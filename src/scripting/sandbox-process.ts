import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import type { Duplex } from 'node:stream';
import { type Confinement, sandboxCommand } from './confinement.ts';
import { type CallMeta, decodeReply, encodeFrame, HEADER_BYTES, type Meta, type Reply } from './protocol.ts';
import { sandboxSources } from './sources.ts';

export type FailureKind = 'timeout' | 'memory' | 'crash' | 'gone';

/** The process did not survive a call; `gone`: it was dead before the call reached it. */
export class ProcessFailure extends Error {
  override readonly name = 'ProcessFailure';
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.kind = kind;
  }
}

export interface CallLimits {
  wallMs: number;
  processMib: number;
  controlBytes: number;
  dataBytes: number;
  tables: number;
}

interface Pending extends CallLimits {
  resolve(reply: Reply): void;
  reject(failure: ProcessFailure): void;
  timer: NodeJS.Timeout;
  memoryTimer: NodeJS.Timeout | undefined;
}

const MEMORY_POLL_MS = 25;
const START_MS = 15_000;
const STDERR_CHARACTERS = 8_192;
const NICENESS = 10;
const OUT_OF_MEMORY = /out of memory|heap limit|allocation failed|invalid (?:array|table|size)/i;

/** One sandbox process and the one call that it may be busy with. */
export class SandboxProcess {
  readonly #child: ChildProcess;
  readonly #channel: Duplex;
  #pending: Pending | undefined;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  #header: { controlBytes: number; dataBytes: number } | undefined;
  #stderr = '';
  #failure: ProcessFailure | undefined;
  readonly exited: Promise<void>;

  private constructor(confinement: Confinement) {
    const [command, ...args] = sandboxCommand(confinement);
    this.#child = spawn(command, args, {
      env: {},
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      detached: true, // Ctrl+C in a terminal goes to the whole process group: it is for us to end the scripts
    });
    this.#channel = this.#child.stdio[3] as Duplex;
    this.#channel.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.#channel.on('error', (error) => this.#fail('gone', 'the process cannot be written to', error));
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_CHARACTERS);
    });
    this.exited = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        this.#fail('crash', 'the process cannot be started', error);
        resolve();
      });
      this.#child.once('close', (code, signal) => {
        this.#fail(
          OUT_OF_MEMORY.test(this.#stderr) ? 'memory' : 'crash',
          `the process ended with ${signal ?? code}`,
        );
        resolve();
      });
    });
  }

  /** A process that has answered once; throws when it does not come to that. */
  static async start(confinement: Confinement): Promise<SandboxProcess> {
    const process = new SandboxProcess(confinement);
    const limits = { wallMs: START_MS, processMib: Infinity, controlBytes: 1_000, dataBytes: 0, tables: 0 };
    try {
      await process.#exchange({ type: 'init', sources: await sandboxSources() }, [], limits);
      await process.#yieldToOthers();
    } catch (error) {
      process.kill();
      throw new Error(`no sandbox process: ${(error as Error).message}. ${process.#stderr}`.trim(), {
        cause: error,
      });
    }
    return process;
  }

  get isAlive(): boolean {
    return this.#failure === undefined;
  }

  /** What it last wrote to stderr: the words of V8 when it gave up. */
  get lastWords(): string {
    return this.#stderr.trim();
  }

  call(meta: CallMeta, segments: readonly Uint8Array[], limits: CallLimits): Promise<Reply> {
    return this.#exchange(meta, segments, limits);
  }

  closeRun(run: string): void {
    if (this.isAlive) this.#send({ type: 'close', run }, []);
  }

  kill(): void {
    this.#fail('gone', 'the process was ended');
  }

  /** Resident memory; undefined where the system does not tell. */
  residentMib(): number | undefined {
    try {
      const status = readFileSync(`/proc/${this.#child.pid}/status`, 'latin1');
      const resident = /^VmRSS:\s+(\d+) kB/m.exec(status);
      return resident ? Number(resident[1]) / 1024 : undefined;
    } catch {
      return undefined; // no /proc here, or the process is gone, which its exit will tell
    }
  }

  /** Scripts must not take the processor from the service, nor memory when that becomes short. */
  async #yieldToOthers(): Promise<void> {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      setPriority(pid, NICENESS);
      const file = `/proc/${pid}/oom_score_adj`;
      if ((await readFile(file, 'utf8')).trim() !== '1000') await writeFile(file, '1000');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && code !== 'EACCES' && code !== 'EPERM' && code !== 'ESRCH') throw error;
    }
  }

  #exchange(meta: Meta, segments: readonly Uint8Array[], limits: CallLimits): Promise<Reply> {
    if (this.#failure) return Promise.reject(new ProcessFailure('gone', this.#failure.message));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#fail('timeout', 'the time was over'), limits.wallMs);
      const memoryTimer =
        limits.processMib === Infinity ? undefined : setInterval(() => this.#checkMemory(), MEMORY_POLL_MS);
      this.#pending = { ...limits, resolve, reject, timer, memoryTimer };
      this.#send(meta, segments);
    });
  }

  #send(meta: Meta, segments: readonly Uint8Array[]): void {
    this.#channel.cork();
    for (const part of encodeFrame(meta, segments)) if (part.length > 0) this.#channel.write(part);
    this.#channel.uncork();
  }

  #checkMemory(): void {
    const limit = this.#pending?.processMib ?? Infinity;
    if ((this.residentMib() ?? 0) > limit) this.#fail('memory', `the process used more than ${limit} MiB`);
  }

  #receive(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#receivedBytes += chunk.length;
    const pending = this.#pending;
    if (!pending) return this.#fail('crash', 'the process spoke without being asked');
    if (!this.#header && this.#receivedBytes >= HEADER_BYTES) {
      const start = this.#takeReceived();
      this.#header = { controlBytes: start.readUInt32LE(0), dataBytes: start.readUInt32LE(4) };
      this.#received = [start];
      if (this.#header.controlBytes > pending.controlBytes || this.#header.dataBytes > pending.dataBytes) {
        return this.#fail('crash', 'the process announced an answer over the limits');
      }
    }
    if (!this.#header) return;
    const { controlBytes, dataBytes } = this.#header;
    const length = HEADER_BYTES + controlBytes + dataBytes;
    if (this.#receivedBytes > length)
      return this.#fail('crash', 'the process answered more than it announced');
    if (this.#receivedBytes < length) return;
    const answer = this.#takeReceived();
    this.#received = [];
    this.#receivedBytes = 0;
    this.#header = undefined;
    try {
      const dataAt = HEADER_BYTES + controlBytes;
      const reply = decodeReply(
        answer.subarray(HEADER_BYTES, dataAt),
        answer.subarray(dataAt),
        pending.tables,
      );
      this.#settle();
      pending.resolve(reply);
    } catch (error) {
      this.#fail('crash', (error as Error).message, error);
    }
  }

  #takeReceived(): Buffer {
    return this.#received.length === 1 ? (this.#received[0] as Buffer) : Buffer.concat(this.#received);
  }

  #settle(): void {
    clearTimeout(this.#pending?.timer);
    clearInterval(this.#pending?.memoryTimer);
    this.#pending = undefined;
  }

  /** The first failure counts; there is no life after it. */
  #fail(kind: FailureKind, message: string, cause?: unknown): void {
    if (this.#failure) return;
    this.#failure = new ProcessFailure(kind, message, cause);
    const pending = this.#pending;
    this.#settle();
    this.#child.kill('SIGKILL');
    this.#channel.destroy();
    pending?.reject(this.#failure);
  }
}
