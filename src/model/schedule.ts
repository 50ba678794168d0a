import { z } from 'zod';
import { cronFault, isTimezone } from './cron.ts';
import { didYouMean } from './did-you-mean.ts';
import { ExecuteJob, jobStates } from './job.ts';
import { Name } from './names.ts';
import { holdsSecrets } from './source.ts';

const CronText = z
  .string()
  .max(200, 'at most 200 characters')
  .superRefine((cron, context) => {
    const fault = cronFault(cron);
    if (fault !== null) context.addIssue({ code: 'custom', message: fault });
  })
  .meta({
    description:
      'When it fires: minute hour day month weekday, with seconds in front where there are six fields',
    examples: ['30 2 * * *', '*/15 8-18 * * MON-FRI'],
  });

const Timezone = z
  .string()
  .superRefine((timezone, context) => {
    if (isTimezone(timezone)) return;
    const message =
      `is no time zone of the IANA database.${didYouMean(timezone, Intl.supportedValuesOf('timeZone'))} ` +
      'Allowed: UTC and names such as Europe/Berlin';
    context.addIssue({ code: 'custom', message });
  })
  .default('UTC')
  .meta({ description: 'The IANA time zone of the cron fields', examples: ['Europe/Berlin'] });

/** Runs an operation at certain times. */
export const Schedule = z
  .strictObject({
    name: Name,
    cron: CronText,
    timezone: Timezone,
    operation: ExecuteJob.shape.operation.optional(),
    request: Name.optional().meta({ description: 'A saved request to run, instead of an operation' }),
    overlap: z.enum(['skip', 'queue', 'allow']).default('skip').meta({
      description:
        'While its last run is not over, a firing is: skip: left out; queue: run afterwards, one at most; allow: run',
    }),
    missed: z.enum(['skip', 'once', 'all']).default('once').meta({
      description:
        'Firings that came while no service ran are: skip: left out; once: run once together; all: run one by one',
    }),
    paused: z.boolean().optional().meta({
      description: 'Whether it fires; left out: as it is, and a new one fires',
    }),
    job: ExecuteJob.shape.job,
    pauseAfterFailures: z.int().min(1).max(1000).nullable().default(null).meta({
      description: 'After so many failed runs in a row it pauses by itself; null: never',
    }),
  })
  .refine(({ operation, request }) => (operation === undefined) !== (request === undefined), {
    error: 'either operation or request must be given, and not both',
    path: ['operation'],
  })
  .refine(({ operation }) => !holdsSecrets(operation?.opParams), {
    error:
      'secrets are not kept in a schedule: put them into an HTTPSource, and name that as opParams.request.source',
    path: ['operation', 'opParams', 'request', 'auth'],
  })
  .meta({ id: 'Schedule' });
export type Schedule = z.infer<typeof Schedule>;

/** What became of a firing that has no job, and before it has one. */
const runStates = ['held', 'due', 'skipped', 'refused', 'gone'] as const;
const RunState = z.enum([...jobStates, ...runStates]).meta({
  description:
    'The state of the job; before there is one, held: waits for the run before it, due: is being submitted; ' +
    'without one, skipped: by overlap or missed, refused: what it runs cannot work, gone: its job was deleted',
});

export const ScheduleRun = z
  .strictObject({
    at: z.iso.datetime().meta({ description: 'The time that it stands for' }),
    cause: z
      .enum(['time', 'catchUp', 'manual'])
      .meta({ description: 'catchUp: fired late, by "missed": "all"' }),
    state: RunState,
    jobId: z.string().nullable(),
    why: z.string().nullable().meta({ description: 'Why it was skipped or refused' }),
  })
  .meta({ id: 'ScheduleRun' });
export type ScheduleRun = z.infer<typeof ScheduleRun>;
export type RunCause = ScheduleRun['cause'];

/** A schedule with where it stands. */
export const ShownSchedule = z
  .strictObject({
    ...Schedule.shape,
    paused: z.boolean(),
    pausedBecause: z.string().nullable().meta({ description: 'Null: it is not paused' }),
    nextAt: z.iso.datetime().nullable().meta({ description: 'Null: it is paused' }),
    lastRun: ScheduleRun.pick({ at: true, jobId: true, state: true })
      .nullable()
      .meta({ description: 'The last one that was not skipped' }),
    failuresInARow: z.int(),
    savedBy: z
      .strictObject({ clientId: z.string(), username: z.string().nullable() })
      .meta({ description: 'In whose name its jobs run' }),
  })
  .meta({ id: 'ShownSchedule' });
export type ShownSchedule = z.infer<typeof ShownSchedule>;
