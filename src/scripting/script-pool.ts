import { randomUUID } from 'node:crypto';
import type { Confinement } from './confinement.ts';
import { FairQueue } from './fair-queue.ts';
import { type BoundProcess, type Log, ProcessPool } from './process-pool.ts';
import type { CallMeta, CallMode, Failure, Reply, Success } from './protocol.ts';
import { Rest } from './rest.ts';
import { ProcessFailure } from './sandbox-process.ts';
import { defaultScriptLimits, type ScriptLimits } from './script-limits.ts';
import {
  type ConsoleLine,
  type ParsedResult,
  type ResponseInput,
  type Script,
  ScriptError,
  type ScriptInput,
  type ScriptRun,
  placeIn,
} from './script-run.ts';

interface Call {
  appId: string;
  run: string;
  script: Script;
  mode: CallMode;
  segments: Uint8Array[];
  bytes: number;
  resolve(answer: { reply: Success; blocks: Buffer[] }): void;
  reject(error: ScriptError): void;
  isRetry: boolean;
}

const MIB = 1024 * 1024;
const NOTHING = Buffer.alloc(0);
/**
 * Large bodies raise the limits of memory. Measured with records of 10 columns that are parsed, mapped and written:
 * 3 times the body does in the isolate, the process grows by 9 times.
 */
const ISOLATE_BYTES_PER_INPUT_BYTE = 6;
const PROCESS_BYTES_PER_INPUT_BYTE = 12;
const PROCESS_BASE_MIB = 128;
/** Copying a large body takes time that is not the script's. */
const WALL_MS_PER_MIB = 20;

/**
 * Runs the scripts of all applications, each in an isolate of its job run, in processes that one application has
 * for itself, in a fair order and within limits.
 */
export class ScriptPool {
  readonly #limits: ScriptLimits;
  readonly #log: Log;
  readonly #queue: FairQueue<Call>;
  readonly #processes: ProcessPool;
  readonly #rest: Rest;
  readonly #guestLimits: string;
  #isClosed = false;

  constructor(limits: Partial<ScriptLimits>, log: Log, ladder?: readonly Confinement[]) {
    this.#limits = { ...defaultScriptLimits, ...limits };
    this.#log = log;
    this.#queue = new FairQueue(this.#limits.callsAtOnce);
    this.#rest = new Rest(this.#limits);
    const events = { ready: () => this.#dispatch(), startFailed: (error: Error) => this.#failWaiting(error) };
    this.#processes = new ProcessPool(this.#limits, log, events, ladder);
    this.#guestLimits = JSON.stringify({
      tables: this.#limits.tablesPerResult,
      columns: this.#limits.columnsPerTable,
      outputCharacters: this.#limits.outputBytes,
      controlCharacters: this.#limits.controlBytes,
      consoleCharacters: this.#limits.consoleCharacters,
    });
  }

  openRun(appId: string): ScriptRun {
    const run = randomUUID();
    let isClosed = false;
    const submit = async (mode: CallMode, script: Script, texts: readonly (string | Uint8Array)[]) => {
      if (isClosed)
        throw new ScriptError({ kind: 'closed', property: script.property, message: 'the run is closed' });
      return this.#submit(appId, run, mode, script, texts);
    };
    return {
      async evaluate(script, input) {
        const { reply, blocks } = await submit('value', script, inputTexts(input));
        const value: unknown = blocks[0] ? JSON.parse(blocks[0].toString('utf8')) : undefined;
        return { value, console: consoleOf(reply) };
      },
      async parse(script, input, response) {
        const { reply, blocks } = await submit('parse', script, [
          ...inputTexts(input),
          ...responseTexts(response),
        ]);
        return parsedResult(reply, blocks);
      },
      async map(script, input) {
        const { reply, blocks } = await submit('map', script, inputTexts(input));
        return parsedResult(reply, blocks);
      },
      close: () => {
        isClosed = true;
        this.#refuse((call) => call.run === run, 'closed', 'the run was closed');
        this.#processes.closeRun(run);
      },
    };
  }

  /** Compiles the script and looks for its `return`, and runs nothing; throws a ScriptError. */
  async check(appId: string, script: Script): Promise<void> {
    const run = randomUUID();
    try {
      await this.#submit(appId, run, 'check', script, []);
    } finally {
      this.#processes.closeRun(run);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#refuse(() => true, 'closed', 'the service stops');
    await this.#processes.close();
  }

  #submit(
    appId: string,
    run: string,
    mode: CallMode,
    script: Script,
    texts: readonly (string | Uint8Array)[],
  ): Promise<{ reply: Success; blocks: Buffer[] }> {
    const { property } = script;
    const segments = [script.text, ...texts].map((text) =>
      typeof text === 'string' ? Buffer.from(text) : text,
    );
    const bytes = segments.reduce((sum, { length }) => sum + length, 0);
    return new Promise((resolve, reject) => {
      this.#refuseOversized(script, segments[0]?.length ?? 0, bytes);
      this.#refuseOverloaded(appId, property, bytes);
      this.#queue.add(appId, { appId, run, script, mode, segments, bytes, resolve, reject, isRetry: false });
      this.#dispatch();
    });
  }

  #refuseOversized({ property }: Script, scriptBytes: number, bytes: number): void {
    const { scriptBytes: most, largestBodyBytes } = this.#limits;
    if (scriptBytes > most) {
      throw new ScriptError({ kind: 'script', property, message: `the script is larger than ${most} bytes` });
    }
    if (bytes - scriptBytes > largestBodyBytes) {
      const message = `what the script is given (body, data, variables) is larger than ${largestBodyBytes} bytes`;
      throw new ScriptError({ kind: 'memory', property, message });
    }
  }

  #refuseOverloaded(appId: string, property: string, bytes: number): void {
    const refused = (message: string) => new ScriptError({ kind: 'overloaded', property, message });
    if (this.#isClosed) throw new ScriptError({ kind: 'closed', property, message: 'the service stops' });
    const restSeconds = this.#rest.secondsLeft(appId);
    if (restSeconds > 0) {
      throw refused(`scripts of this application had to be killed too often; they rest for ${restSeconds} s`);
    }
    const waiting = this.#queue.waitingOf(appId);
    const { waitingCallsPerApplication, waitingBytesPerApplication } = this.#limits;
    if (waiting >= waitingCallsPerApplication)
      throw refused(`${waiting} calls of this application wait already`);
    const waitingBytes = this.#queue.sumOf(appId, (call) => call.bytes);
    if (waiting > 0 && waitingBytes + bytes > waitingBytesPerApplication) {
      throw refused(`the calls of this application that wait hold ${waitingBytes} bytes already`);
    }
  }

  #dispatch(): void {
    for (;;) {
      const candidates = this.#queue.candidates();
      const found = this.#firstWithProcess(candidates);
      if (!found) {
        if (candidates.length > 0) this.#processes.demand(new Set(candidates.map(({ appId }) => appId)));
        return;
      }
      const { item, done } = this.#queue.take(found.appId);
      void this.#run(item, found.bound).finally(() => {
        done();
        this.#dispatch();
      });
    }
  }

  #firstWithProcess(
    candidates: { appId: string; item: Call }[],
  ): { appId: string; bound: BoundProcess } | undefined {
    for (const { appId, item } of candidates) {
      const bound = this.#processes.take(appId, item.run);
      if (bound) return { appId, bound };
    }
    return undefined;
  }

  async #run(call: Call, bound: BoundProcess): Promise<void> {
    try {
      const reply = await bound.process.call(this.#metaOf(call), call.segments, this.#callLimits(call));
      this.#processes.giveBack(bound);
      this.#answer(call, reply);
    } catch (error) {
      this.#processes.discard(bound);
      const failure =
        error instanceof ProcessFailure ? error : new ProcessFailure('crash', String(error), error);
      if (failure.kind === 'gone' && !call.isRetry && !this.#isClosed) {
        this.#queue.putBack(call.appId, { ...call, isRetry: true });
        return;
      }
      this.#rest.killed(call.appId);
      const { appId, script } = call;
      this.#log('warn', 'a sandbox process was lost', {
        appId,
        property: script.property,
        reason: failure.message,
      });
      call.reject(this.#processError(call, failure));
    }
  }

  #answer(call: Call, { reply, blocks }: Reply): void {
    if (reply.ok) call.resolve({ reply, blocks });
    else call.reject(this.#scriptError(call, reply));
  }

  #scriptError(
    { script, bytes }: Call,
    { failure, message, position, statusCodeRead, console }: Failure,
  ): ScriptError {
    const reasons = {
      script: message,
      response: message,
      timeout: this.#timeoutText(),
      memory: this.#memoryText(bytes),
    };
    return new ScriptError({
      kind: failure,
      property: script.property,
      message: reasons[failure],
      ...placeIn(script.text, position),
      statusCodeRead,
      console: console.map(asLine),
    });
  }

  #processError({ script: { property }, bytes }: Call, cause: ProcessFailure): ScriptError {
    const kind = cause.kind === 'gone' ? (this.#isClosed ? 'closed' : 'crash') : cause.kind;
    const texts = {
      timeout: this.#timeoutText(),
      memory: this.#memoryText(bytes),
      crash: 'the sandbox process died while the script ran',
      closed: 'the service stops',
    };
    return new ScriptError({ kind, property, message: texts[kind], cause });
  }

  #timeoutText(): string {
    return `the script ran longer than ${this.#limits.callMs} ms`;
  }

  #memoryText(bytes: number): string {
    return `the script used more than ${this.#isolateMib(bytes)} MiB of memory`;
  }

  #isolateMib(bytes: number): number {
    return Math.max(this.#limits.isolateMib, Math.ceil((bytes * ISOLATE_BYTES_PER_INPUT_BYTE) / MIB));
  }

  #metaOf({ run, mode, script, segments, bytes }: Call): CallMeta {
    const { callMs, tablesPerResult } = this.#limits;
    return {
      type: 'call',
      run,
      mode,
      property: script.property,
      timeoutMs: callMs,
      isolateMib: this.#isolateMib(bytes),
      mostBlocks: mode === 'value' ? 1 : tablesPerResult,
      limits: this.#guestLimits,
      segments: segments.map(({ length }) => length),
    };
  }

  #callLimits({ bytes, mode }: Call) {
    const { callMs, graceMs, processMib, controlBytes, consoleCharacters, outputBytes, tablesPerResult } =
      this.#limits;
    return {
      wallMs: callMs + graceMs + (bytes / MIB) * WALL_MS_PER_MIB,
      processMib: Math.max(processMib, PROCESS_BASE_MIB + (bytes * PROCESS_BYTES_PER_INPUT_BYTE) / MIB),
      // Inside, characters are counted; as UTF-8 and escaped in JSON each may take six bytes.
      controlBytes: (controlBytes + consoleCharacters) * 6 + 65_536,
      dataBytes: outputBytes * 3,
      tables: mode === 'value' ? 1 : tablesPerResult,
    };
  }

  #refuse(
    isRefused: (call: Call) => boolean,
    kind: 'closed' | 'crash',
    message: string,
    cause?: Error,
  ): void {
    for (const { script, reject } of this.#queue.remove(isRefused)) {
      reject(new ScriptError({ kind, property: script.property, message, cause }));
    }
  }

  #failWaiting(cause: Error): void {
    this.#refuse(() => true, 'crash', 'no sandbox process can be started', cause);
  }
}

function inputTexts({ variables, dataJson, request, steps }: ScriptInput): string[] {
  return [exactJson(variables), dataJson, request || steps ? JSON.stringify({ request, steps }) : ''];
}

/** Not yet among the types of the language. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };

/** A BigInt as its digits: inside, a long number becomes a string of them. */
function exactJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'bigint' ? rawJSON(`${item}`) : item,
  );
}

function responseTexts({ statusCode, statusMessage, headers, body }: ResponseInput): (string | Uint8Array)[] {
  return [JSON.stringify({ statusCode, statusMessage, headers }), body];
}

function parsedResult(reply: Success, blocks: Buffer[]): ParsedResult {
  return {
    control: reply.control,
    blocks: reply.blocks.map(([index, rowCount, columns], n) => ({
      index,
      rowCount,
      rows: blocks[n] ?? NOTHING,
      columns: columns.map(([name, kinds]) => ({ name, kinds })),
    })),
    statusCodeRead: reply.statusCodeRead,
    console: consoleOf(reply),
  };
}

function consoleOf({ console }: Success): ConsoleLine[] {
  return console.map(asLine);
}

function asLine([level, text]: [ConsoleLine['level'], string]): ConsoleLine {
  return { level, text };
}
