import { z } from 'zod';
import { errorCodes, type ErrorCode } from './errors.ts';
import { JobError, jobStates } from './job.ts';

/** Every answer of the API but the token endpoint's: the success envelope … */
export function Success<Result extends z.ZodType>(result: Result) {
  return z.strictObject({ status: z.literal('success'), result });
}

/** Of a job that failed while executeJob waited for it. */
const ofJob = {
  jobId: z.string().optional(),
  state: z.enum(jobStates).optional(),
  ...JobError.omit({ code: true, message: true, path: true }).shape,
};

/** … and its mirror, the error envelope of the contract's section 7. */
export const Failure = z
  .strictObject({
    status: z.literal('error'),
    result: z.strictObject({
      code: z.enum(Object.keys(errorCodes) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      path: z.string().optional().meta({ description: 'The field at fault' }),
      requestId: z.string().optional().meta({ description: "Finds the request in the service's log" }),
      ...ofJob,
    }),
  })
  .meta({ id: 'Failure' });
export type Failure = z.infer<typeof Failure>;

export function success<Result>(result: Result): { status: 'success'; result: Result } {
  return { status: 'success', result };
}

/** One page of a list that is read by key, so that it stays right while records come and go. */
export function KeysetPage<Item extends z.ZodType>(item: Item) {
  return z.strictObject({
    items: z.array(item),
    next: z.string().nullable().meta({ description: 'Give it as `after` to read on; null: the end' }),
  });
}

/** For a list whose keys have a form of their own. */
export function keysetKey<Key extends z.ZodType>(key: Key) {
  return key.optional().meta({ description: 'The `next` of the page before' });
}

export const KeysetQuery = z.strictObject({
  after: keysetKey(z.string().regex(/^[^\p{Cc}]+$/u, 'must be the `next` of the page before')),
  limit: z.coerce.number().int().min(1).max(1000).default(100).meta({ description: 'Items a page' }),
});
