import { z } from 'zod';
import { Json } from './json.ts';

/** **ext**: how a job is run, whatever it does. */
export const JobPolicy = z
  .strictObject({
    priority: z
      .int()
      .min(-100)
      .max(100)
      .default(0)
      .meta({ description: 'Of two jobs that wait, the one with the higher priority starts first' }),
    exclusive: z
      .union([z.boolean(), z.string().min(1).max(200)])
      .default(false)
      .meta({
        description:
          'true: of all jobs with the same target table that say so, one runs at a time; a text: of all jobs of ' +
          'the application with the same text',
      }),
    retry: z
      .strictObject({
        tries: z.int().min(1).max(100).meta({ description: 'How often the job is tried in all' }),
        delaySeconds: z.number().min(0).max(86_400).default(60).meta({
          description: 'Before the second try; it doubles from try to try, up to an hour',
          unit: 'seconds',
        }),
      })
      .optional()
      .meta({
        description:
          'What becomes of a job that failed for a reason that may pass: it goes on at its last page',
      }),
    timeLimitSeconds: z
      .number()
      .positive()
      .optional()
      .meta({ description: 'From its first start, with all pauses; then the job fails', unit: 'seconds' }),
  })
  .meta({ id: 'JobPolicy' });
export type JobPolicy = z.infer<typeof JobPolicy>;

/** Contract 4.2: the body of `POST /api/v1/executeJob`. What `opParams` holds is the operation's own matter. */
export const ExecuteJob = z
  .strictObject({
    appId: z.string().min(1).meta({ description: 'The application that the job belongs to' }),
    isAsync: z.boolean().default(false).meta({ description: 'true: answer at once, with the id of the job' }),
    responseFormat: z
      .enum(['text', 'json'])
      .default('text')
      .meta({ description: 'text: the output as a string; json: as a JSON value' }),
    operation: z
      .strictObject({
        opName: z
          .string()
          .min(1)
          .meta({ description: 'The name of the operation', examples: ['RunScenario'] }),
        opParams: z
          .record(z.string(), z.unknown())
          .default({})
          .meta({ description: 'The parameters of the operation' }),
      })
      .meta({ description: 'What is to be run' }),
    job: JobPolicy.prefault({}).meta({ description: 'How the job is run' }),
  })
  .meta({ id: 'ExecuteJob' });

/** The states of a job, and where each may go on to. */
export const jobTransitions = {
  queued: ['running', 'cancelled', 'failed'],
  running: ['waiting', 'succeeded', 'failed', 'cancelled', 'queued'],
  /** A durable pause: doWhileDelay, Retry-After. */
  waiting: ['running', 'queued', 'cancelled', 'failed'],
  succeeded: [],
  /** Resumed. */
  failed: ['queued'],
  cancelled: ['queued'],
} as const satisfies Record<string, readonly string[]>;
export type JobState = keyof typeof jobTransitions;
export const jobStates = Object.keys(jobTransitions) as [JobState, ...JobState[]];

export type FinalState = 'succeeded' | 'failed' | 'cancelled';

export function isOver(state: JobState): state is FinalState {
  return state === 'succeeded' || state === 'failed' || state === 'cancelled';
}

export const TableCount = z.strictObject({
  source: z.string(),
  space: z.string(),
  table: z.string(),
  records: z.int(),
});

export const JobStats = z
  .strictObject({
    requests: z.int().meta({ description: 'Sent, with all retries' }),
    pages: z.int().meta({ description: 'Committed' }),
    records: z.int().meta({ description: 'Loaded into tables' }),
    bytes: z.int().meta({ description: 'Received, after decompression' }),
    sourceRecords: z.int().meta({ description: 'Read from the source table' }),
    total: z.int().nullable().meta({ description: 'Of the source records, where it is known' }),
    durationMs: z.int(),
  })
  .meta({ id: 'JobStats' });
export type JobStats = z.infer<typeof JobStats>;

export const noStats: JobStats = {
  requests: 0,
  pages: 0,
  records: 0,
  bytes: 0,
  sourceRecords: 0,
  total: null,
  durationMs: 0,
};

export const JobError = z
  .strictObject({
    code: z.string(),
    message: z.string(),
    path: z.string().optional().meta({ description: 'The property of the configuration at fault' }),
    page: z.int().optional().meta({ description: 'The page at fault' }),
    line: z.int().optional().meta({ description: 'The line of the script at fault' }),
    column: z.int().optional(),
    httpStatus: z.int().optional().meta({ description: 'What the external system answered' }),
  })
  .meta({ id: 'JobError' });
export type JobError = z.infer<typeof JobError>;

export const Job = z
  .strictObject({
    jobId: z.string(),
    appId: z.string(),
    opName: z.string(),
    state: z.enum(jobStates),
    createdAt: z.iso.datetime(),
    startedAt: z.iso.datetime().nullable(),
    endedAt: z.iso.datetime().nullable(),
    wakesAt: z.iso.datetime().nullable().meta({ description: 'While it waits: when it goes on' }),
    priority: z.int(),
    rerunOf: z.string().nullable().meta({ description: 'The job whose work it does again' }),
    submittedBy: z.strictObject({ clientId: z.string(), username: z.string().nullable() }),
    stats: JobStats,
    output: Json.nullable().meta({ description: 'When it has succeeded' }),
    error: JobError.nullable().meta({ description: 'When it has failed' }),
  })
  .meta({ id: 'Job' });
export type Job = z.infer<typeof Job>;

const Sent = z.strictObject({
  method: z.string(),
  url: z.string(),
  headers: z.array(z.strictObject({ name: z.string(), value: z.string(), setBy: z.string() })),
  body: z.string().nullable().meta({ description: 'Its beginning; null: there was none' }),
  overriddenParameters: z.array(z.string()),
});

/** What is kept of a page: everything that was sent and received is redacted. */
export const JobPage = z
  .strictObject({
    n: z.int().meta({ description: 'From 1, in the order of the job' }),
    record: z.int().nullable().meta({ description: 'The source record or batch, from 1' }),
    iteration: z.int().meta({ description: 'Of the doWhile loop, from 1' }),
    request: Sent,
    status: z.int().nullable(),
    statusMessage: z.string().nullable(),
    responseHeaders: z.record(z.string(), z.union([z.string(), z.array(z.string())])),
    startedAt: z.iso.datetime(),
    timing: z.strictObject({ sendMs: z.int(), parseMs: z.int(), loadMs: z.int() }),
    tries: z.int(),
    bytes: z.int(),
    records: z.int(),
    tables: z.array(TableCount),
    next: z.strictObject({ url: z.string(), why: z.string() }).nullable().meta({
      description: 'The request that follows, and why there is one; null: the loop ends',
    }),
    hash: z.string().nullable().meta({ description: 'SHA-256 of the response' }),
    error: JobError.nullable(),
    hasBody: z.boolean().meta({ description: 'Whether the response itself is kept' }),
  })
  .meta({ id: 'JobPage' });
export type JobPage = z.infer<typeof JobPage>;

export const jobEventTypes = ['state', 'page', 'log'] as const;
export const JobEvent = z
  .strictObject({
    n: z.int().meta({ description: 'From 1, without gaps' }),
    type: z.enum(jobEventTypes),
    at: z.iso.datetime(),
    data: z.record(z.string(), Json),
  })
  .meta({ id: 'JobEvent' });
export type JobEvent = z.infer<typeof JobEvent>;
