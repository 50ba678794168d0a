import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';
import { z } from 'zod';
import type { Principal } from '../../model/access.ts';
import { KeysetPage, KeysetQuery, Success, success } from '../../model/envelope.ts';
import { ServiceError } from '../../model/errors.ts';
import { Job, JobPage, jobStates } from '../../model/job.ts';
import { OutboxItem, outboxStatuses, ResumeJob } from '../../model/outbox.ts';
import type { JobRunner } from '../../jobs/job-runner.ts';
import type { Jobs } from '../../system/jobs.ts';
import type { Outbox } from '../../system/outbox.ts';
import { requireApplication } from '../bearer.ts';
import { streamEvents } from '../event-stream.ts';
import { keysetPage } from '../keyset-page.ts';
import { route, type Route } from '../route.ts';

const tag = 'Jobs';
const path = '/api/v1/jobs';
const params = z.strictObject({ jobId: z.string() });
const inflate = promisify(inflateRaw);
const PageNumber = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);

interface JobRoutesParts {
  jobs: Jobs;
  runner: JobRunner;
  outbox: Outbox;
}

export function jobRoutes({ jobs, runner, outbox }: JobRoutesParts): Route[] {
  async function visible(jobId: string, principal: Principal): Promise<Job> {
    const job = await jobs.get(jobId);
    if (!job) throw new ServiceError('not_found', `there is no job "${jobId}"`);
    requireApplication(principal, job.appId);
    return job;
  }

  return [
    route(
      {
        method: 'GET',
        path,
        access: 'viewer',
        tag,
        summary: 'List jobs, the newest first',
        query: KeysetQuery.extend({
          appId: z.string().optional(),
          state: z.enum(jobStates).optional(),
        }),
        answers: { 200: { description: 'The jobs', schema: Success(KeysetPage(Job)) } },
      },
      async ({ query, principal }) => {
        if (query.appId !== undefined) requireApplication(principal, query.appId);
        const list = (ask: { after: string | undefined; limit: number }) =>
          jobs.list({ ...ask, appId: query.appId, state: query.state, only: principal.applications });
        return success(await keysetPage(query, list, ({ jobId }) => jobId));
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{jobId}`,
        access: 'viewer',
        tag,
        summary: 'Read a job',
        params,
        answers: { 200: { description: 'The job', schema: Success(Job) } },
      },
      async ({ params: { jobId }, principal }) => success(await visible(jobId, principal)),
    ),
    route(
      {
        method: 'POST',
        path: `${path}/{jobId}/cancel`,
        access: 'operator',
        tag,
        summary: 'Cancel a job after the page that is under way; called again, at once',
        params,
        answers: { 200: { description: 'The job as it is now', schema: Success(Job) } },
      },
      async ({ params: { jobId }, principal }) => {
        await visible(jobId, principal);
        return success(await runner.cancel(jobId));
      },
    ),
    route(
      {
        method: 'POST',
        path: `${path}/{jobId}/resume`,
        access: 'operator',
        tag,
        summary: 'Let a failed or cancelled job go on after its last page',
        params,
        body: ResumeJob,
        answers: { 200: { description: 'The job as it is now', schema: Success(Job) } },
      },
      async ({ params: { jobId }, body, principal }) => {
        await visible(jobId, principal);
        return success(await runner.resume(jobId, body));
      },
    ),
    route(
      {
        method: 'POST',
        path: `${path}/{jobId}/rerun`,
        access: 'operator',
        tag,
        summary: 'Run the same once more, from its beginning, as a job of its own',
        params,
        answers: { 202: { description: 'The new job', schema: Success(Job) } },
      },
      async ({ params: { jobId }, principal, reply }) => {
        await visible(jobId, principal);
        const { jobId: newId } = await runner.rerun(jobId, principal);
        reply.code(202).header('location', `${path}/${newId}`);
        return success(await visible(newId, principal));
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{jobId}/outbox`,
        access: 'viewer',
        tag,
        summary:
          'Read what became of the source records that were sent; of a rerun, with those of the job before it',
        params,
        query: KeysetQuery.extend({ status: z.enum(outboxStatuses).optional() }),
        answers: { 200: { description: 'The records', schema: Success(KeysetPage(OutboxItem)) } },
      },
      async ({ params: { jobId }, query, principal }) => {
        const { rerunOf } = await visible(jobId, principal);
        const list = (ask: { after: string | undefined; limit: number }) =>
          outbox.list(rerunOf ?? jobId, { ...ask, status: query.status });
        const { items, next } = await keysetPage(query, list, ({ key }) => key);
        return success({ items: items.map(({ item }) => item), next });
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{jobId}/pages`,
        access: 'viewer',
        tag,
        summary: 'Read what was sent and received, page by page; secrets are blotted out',
        params,
        query: KeysetQuery.extend({ after: PageNumber.optional() }),
        answers: { 200: { description: 'The pages', schema: Success(KeysetPage(JobPage)) } },
      },
      async ({ params: { jobId }, query, principal }) => {
        await visible(jobId, principal);
        const { after = 0, limit } = query;
        const list = (ask: { limit: number }) => jobs.history.pages(jobId, { after, limit: ask.limit });
        return success(await keysetPage({ limit }, list, ({ n }) => String(n)));
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{jobId}/pages/{n}/body`,
        access: 'viewer',
        tag,
        summary: 'Read the response of a page, where it is kept: of the last pages, and of one that failed',
        params: params.extend({ n: z.coerce.number().int().min(1) }),
        answers: { 200: { description: 'The response', schema: z.string(), mediaType: 'text/plain' } },
      },
      async ({ params: { jobId, n }, principal, reply }) => {
        await visible(jobId, principal);
        const body = await jobs.history.pageBody(jobId, n);
        if (!body) throw new ServiceError('not_found', `the response of page ${n} is not kept`);
        reply.type('text/plain; charset=utf-8').header('x-content-type-options', 'nosniff');
        return inflate(body);
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{jobId}/events`,
        access: 'viewer',
        tag,
        summary: 'Follow a job: server-sent events with ids, which go on behind Last-Event-ID',
        params,
        answers: { 200: { description: 'Events', schema: z.string(), mediaType: 'text/event-stream' } },
      },
      async ({ params: { jobId }, principal, request, reply }) => {
        await visible(jobId, principal);
        await streamEvents(jobId, { jobs, runner }, request, reply);
        return reply;
      },
    ),
  ];
}
