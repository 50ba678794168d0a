import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { Failure, Success, success } from '../../model/envelope.ts';
import { ServiceError } from '../../model/errors.ts';
import { ExecuteJob, isOver, JobStats, jobStates, type Job } from '../../model/job.ts';
import { Json } from '../../model/json.ts';
import { statusOfJobError } from '../../operations/failure.ts';
import type { JobRunner } from '../../jobs/job-runner.ts';
import type { Applications } from '../../system/applications.ts';
import { requireApplication } from '../bearer.ts';
import { route, type Route } from '../route.ts';

export interface ExecuteJobParts {
  applications: Applications;
  runner: JobRunner;
  /** How long a call that waits is kept waiting. */
  syncWaitSeconds: number;
}

const Submitted = z.strictObject({
  jobId: z.string(),
  state: z.enum(jobStates),
  statusUrl: z.string().meta({ description: 'Where the job is read' }),
});
const Done = z.strictObject({
  jobId: z.string(),
  state: z.enum(jobStates),
  output: Json.meta({ description: 'With the responseFormat text, a string' }),
  stats: JobStats,
});

/** Contract 4.2. */
export function executeJobRoutes({ applications, runner, syncWaitSeconds }: ExecuteJobParts): Route[] {
  return [
    route(
      {
        method: 'POST',
        path: '/api/v1/executeJob',
        access: 'operator',
        tag: 'Jobs',
        summary: 'Run an operation, and wait for it unless isAsync is true',
        body: ExecuteJob,
        headers: z.object({
          'Idempotency-Key': z
            .string()
            .min(1)
            .max(255)
            .optional()
            .meta({ description: 'The same key and body within 24 hours are the same job' }),
        }),
        answers: {
          200: { description: 'The job has succeeded', schema: Success(Done) },
          202: { description: 'The job is under way', schema: Success(Submitted) },
          409: {
            description: 'The Idempotency-Key came with another body, or the job was cancelled',
            schema: Failure,
          },
          422: {
            description: 'The job has failed: the configuration or a script is at fault',
            schema: Failure,
          },
          502: { description: 'The job has failed: the external system answered wrongly', schema: Failure },
          504: { description: 'The job has failed: the external system took too long', schema: Failure },
        },
      },
      async ({ body, principal, request, reply }) => {
        requireApplication(principal, body.appId);
        await applications.get(body.appId);
        const { opName, opParams } = body.operation;
        const { jobId } = await runner.submit({
          appId: body.appId,
          clientId: principal.clientId,
          username: principal.username,
          opName,
          opParams,
          policy: body.job,
          idempotency: idempotencyOf(request, body),
        });
        const job = await runner.settled(jobId, body.isAsync ? 0 : syncWaitSeconds * 1000);
        if (body.isAsync || !isOver(job.state)) return accepted(job, reply);
        if (job.state === 'succeeded') return success(done(job, body.responseFormat));
        return failed(job, reply);
      },
    ),
  ];
}

function idempotencyOf(request: FastifyRequest, body: z.output<typeof ExecuteJob>) {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || key === '' || key.length > 255) {
    throw new ServiceError('invalid_request', 'the header Idempotency-Key must have 1 to 255 characters', {
      path: 'Idempotency-Key',
    });
  }
  return { key, hash: createHash('sha256').update(JSON.stringify(body)).digest('hex') };
}

function accepted({ jobId, state }: Job, reply: FastifyReply) {
  const statusUrl = `/api/v1/jobs/${jobId}`;
  reply.code(202).header('location', statusUrl);
  return success({ jobId, state, statusUrl });
}

function done({ jobId, state, output, stats }: Job, format: 'text' | 'json') {
  const text = typeof output === 'string' ? output : JSON.stringify(output);
  return { jobId, state, output: format === 'json' ? output : text, stats };
}

function failed({ jobId, state, error }: Job, reply: FastifyReply) {
  const told = error ?? { code: 'cancelled', message: 'the job was cancelled' };
  reply.code(statusOfJobError(told.code));
  return { status: 'error', result: { ...told, jobId, state } };
}
