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
  /** Refuses what cannot work, before the job is taken: unknown sources, tables, models, methods. */
  check(appId: string, params: Params): Promise<void>;
  /** Gives the job's output. */
  run(params: Params, context: OperationContext): Promise<Json>;
}

export interface OperationContext {
  readonly jobId: string;
  readonly appId: string;
  /** Under which the job was taken; the fence of every commit. */
  readonly epoch: number;
  /** Which step of the job this is: a job that is no scenario has one. */
  readonly step: string;
  readonly variables: Variables;
  /** Breaks off at once. */
  readonly signal: AbortSignal;
  /** Asks for an end after the page that is under way; a pause between pages ends at once. */
  readonly stopSignal: AbortSignal;
  readonly report: JobReport;
}

export type LogLevel = 'info' | 'warn' | 'error';

/** What a job tells while it runs. */
export interface JobReport {
  readonly stats: JobStats;
  /** From now on this is applied to all that the job logs, and to the error that it ends with. */
  redactWith(redact: (text: string) => string): void;
  log(level: LogLevel, text: string): void;
  /** `body`: the response, for later inspection. */
  page(page: Omit<JobPage, 'n' | 'hasBody'>, body: PageBody | null): void;
}

/** The job was cancelled: no failure of anybody. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled';
}
