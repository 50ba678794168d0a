import { z } from 'zod';

/** What is not sent yet is not listed: it is pending. */
export const outboxStatuses = ['sent', 'ok', 'failed', 'unknown'] as const;
export type OutboxStatus = (typeof outboxStatuses)[number];

/** What can be said of a record that is unknown. */
const decisions = ['resend', 'skip'] as const;
export type Decision = (typeof decisions)[number];

/** **ext**: what became of a source record, or of a batch or a part of one, that was sent to the external system. */
export const OutboxItem = z
  .strictObject({
    step: z.string().meta({ description: 'Of the job' }),
    number: z.int().meta({ description: 'The source record or batch, from 1' }),
    first: z.int().meta({ description: 'Of a part of a batch: where in the batch it begins, from 0' }),
    count: z.int().meta({ description: 'How many source records it holds' }),
    request: z.int().meta({ description: 'Which request of the record or batch was its last, from 1' }),
    status: z.enum(outboxStatuses).meta({
      description:
        'sent: an answer is awaited; ok: answered, and what the answer brought is committed; failed: not taken; ' +
        'unknown: sent, and whether it was taken is not known',
    }),
    decision: z.enum(decisions).nullable().meta({
      description: 'Of one that is unknown: what was said when the job was resumed',
    }),
    httpStatus: z.int().nullable().meta({ description: 'What the external system answered' }),
    responseId: z.string().nullable().meta({
      description: 'Of the answer: the header Location, else X-Request-Id, else the property id of its JSON',
    }),
    error: z.string().nullable(),
    changedAt: z.iso.datetime(),
  })
  .meta({ id: 'OutboxItem' });
export type OutboxItem = z.infer<typeof OutboxItem>;

/** What becomes of a record of which it is not known whether the external system took it. */
export const OnUnknown = z.enum(['fail', ...decisions]);
export type OnUnknown = z.infer<typeof OnUnknown>;

/** The body of `POST /api/v1/jobs/{jobId}/resume`. */
export const ResumeJob = z
  .strictObject({
    onUnknown: OnUnknown.optional().meta({
      description:
        'For the records that are unknown now, in the place of options.onUnknown of the requests of the job',
    }),
  })
  .meta({ id: 'ResumeJob' });
export type ResumeJob = z.infer<typeof ResumeJob>;

/** Among the notes of a job: what it was resumed with last, and when. */
export const RESUME_NOTE = 'resume';
export interface ResumeNote extends ResumeJob {
  at: number;
}
