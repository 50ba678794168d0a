import type { z } from 'zod';
import type { Json } from '../model/json.ts';
import type { JobPage, JobStats } from '../model/job.ts';
import type { Variables } from './variables.ts';

/** A response, to be redacted when it is stored. */
export interface PageBody {
  bytes: Uint8Array;
  redact(text: string): string;
}

/** Something that a job can run; `opName` is its name in the contract. */
export interface Operation<Params = unknown> {
  readonly opName: string;
  /** The shape of `opParams`. */
  readonly params: z.ZodType<Params>;
  /**
   * Refuses what cannot work, before the job is taken: unknown sources, tables, models, methods. As a step of a
   * scenario, tables are not looked for: a step before it may make them.
   */
  check(appId: string, params: Params, as: 'job' | 'step'): Promise<void>;
  /** What `job.exclusive: true` is about; null: nothing. */
  targetOf?(params: Params): string | null;
  /** Gives the job's output. */
  run(params: Params, context: OperationContext): Promise<Json>;
}

export interface OperationContext {
  readonly jobId: string;
  /** The job itself, or the one that it runs again. */
  readonly originId: string;
  readonly appId: string;
  /** Under which the job was taken; the fence of every commit. */
  readonly epoch: number;
  /** Which step of the job this is: a job that is no scenario has one. */
  readonly step: string;
  readonly variables: Variables;
  /** The records given to RunScenario: `$ctx.data` of its steps, and their source table `{source: "input"}`. */
  readonly input: readonly Json[] | null;
  readonly progress: JobProgress;
  /** Breaks off at once. */
  readonly signal: AbortSignal;
  /** Asks for an end after the page that is under way; a pause between pages ends at once. */
  readonly stopSignal: AbortSignal;
  readonly report: JobReport;
}

/**
 * What the operations of a job have written down, each under its step, to go on from after a pause, a crash or a
 * failure. Notes are durable, and refused when another worker has taken the job.
 */
export interface JobProgress {
  of(step: string): Json | null;
  note(step: string, value: Json): Promise<void>;
}

export type LogLevel = 'info' | 'warn' | 'error';

/** What a job tells while it runs. */
export interface JobReport {
  readonly stats: JobStats;
  /** From now on this is applied to all that the job logs, and to the error that it ends with. */
  redactWith(redact: (text: string) => string): void;
  log(level: LogLevel, text: string): void;
  /** For what is kept elsewhere than in the log. */
  redacted(text: string): string;
  /** `body`: the response, for later inspection. */
  page(page: Omit<JobPage, 'n' | 'hasBody'>, body: PageBody | null): void;
}

/** The job is to be taken up again then; until then it holds no worker. */
export class Paused extends Error {
  override readonly name = 'Paused';
  readonly until: number;

  constructor(until: number, reason: string) {
    super(reason);
    this.until = until;
  }
}

/** Another worker has taken the job: this one must not write any more. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

/** The job was cancelled: no failure of anybody. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled';
}
