import { z } from 'zod';
import type { Scheduler } from '../../jobs/scheduler.ts';
import type { Principal } from '../../model/access.ts';
import { firingsAfter } from '../../model/cron.ts';
import { KeysetPage, KeysetQuery, keysetKey, Success, success } from '../../model/envelope.ts';
import { ServiceError } from '../../model/errors.ts';
import { Name } from '../../model/names.ts';
import { Schedule, ScheduleRun, ShownSchedule } from '../../model/schedule.ts';
import type { Applications } from '../../system/applications.ts';
import type { Schedules } from '../../system/schedules.ts';
import { requireApplication } from '../bearer.ts';
import { keysetPage } from '../keyset-page.ts';
import { route, type Route } from '../route.ts';

export interface ScheduleParts {
  applications: Applications;
  schedules: Schedules;
  scheduler: Scheduler;
  now: () => number;
}

const tag = 'Schedules';
const listPath = '/api/v1/applications/{appId}/schedules';
const path = `${listPath}/{name}` as const;
const params = z.strictObject({ appId: z.string(), name: z.string() });
const Changed = z.strictObject({ name: z.string(), change: z.enum(['created', 'changed', 'unchanged']) });
const MOST_NEXT = 100;

export function scheduleRoutes(parts: ScheduleParts): Route[] {
  return [...definitionRoutes(parts), ...timeRoutes(parts), ...actionRoutes(parts)];
}

function definitionRoutes(parts: ScheduleParts): Route[] {
  const { schedules, scheduler } = parts;
  return [
    route(
      {
        method: 'GET',
        path: listPath,
        access: 'viewer',
        tag,
        summary: 'List every schedule of an application',
        params: z.strictObject({ appId: z.string() }),
        query: KeysetQuery.extend({ after: keysetKey(Name) }),
        answers: { 200: { description: 'By name', schema: Success(KeysetPage(ShownSchedule)) } },
      },
      async ({ params: { appId }, query, principal }) => {
        await enter(parts, principal, appId);
        return success(
          await keysetPage(
            query,
            (ask) => schedules.showAll(appId, ask),
            ({ name }) => name,
          ),
        );
      },
    ),
    route(
      {
        method: 'GET',
        path,
        access: 'viewer',
        tag,
        summary: 'Read a schedule',
        params,
        answers: { 200: { description: 'It', schema: Success(ShownSchedule) } },
      },
      async ({ params: { appId, name }, principal }) => {
        await enter(parts, principal, appId);
        return success(await shown(schedules, appId, name));
      },
    ),
    route(
      {
        method: 'PUT',
        path,
        access: 'editor',
        tag,
        summary: 'Create or replace a schedule; its jobs run in the name of the caller',
        params,
        body: Schedule,
        answers: {
          200: { description: 'It was there before', schema: Success(Changed) },
          201: { description: 'It is new', schema: Success(Changed) },
        },
      },
      async ({ params: { appId, name }, body, principal, reply }) => {
        await enter(parts, principal, appId);
        if (body.name !== name) {
          throw new ServiceError('invalid_request', `name: must be "${name}", as in the path`, {
            path: 'name',
          });
        }
        const change = await scheduler.save(appId, body, principal);
        reply.code(change === 'created' ? 201 : 200);
        return success({ name, change });
      },
    ),
    route(
      {
        method: 'DELETE',
        path,
        access: 'editor',
        tag,
        summary: 'Delete a schedule; its jobs stay',
        params,
        answers: { 200: { description: 'It is gone', schema: Success(z.null()) } },
      },
      async ({ params: { appId, name }, principal }) => {
        await enter(parts, principal, appId);
        if (!(await schedules.delete(appId, name))) throw missing(name);
        return success(null);
      },
    ),
  ];
}

function timeRoutes(parts: ScheduleParts): Route[] {
  const { schedules, now } = parts;
  return [
    route(
      {
        method: 'GET',
        path: `${path}/next`,
        access: 'viewer',
        tag,
        summary: 'The times at which a schedule fires next, also while it is paused',
        params,
        query: z.strictObject({
          count: z.coerce
            .number()
            .int()
            .min(1)
            .max(MOST_NEXT)
            .default(5)
            .meta({ description: 'How many times' }),
        }),
        answers: { 200: { description: 'The times', schema: Success(z.array(z.iso.datetime())) } },
      },
      async ({ params: { appId, name }, query: { count }, principal }) => {
        await enter(parts, principal, appId);
        const { cron, timezone } = await shown(schedules, appId, name);
        const times = firingsAfter(cron, timezone, now(), count);
        return success(times.map((time) => new Date(time).toISOString()));
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/runs`,
        access: 'viewer',
        tag,
        summary: 'What became of the last 200 firings of a schedule',
        params,
        query: KeysetQuery.extend({ after: keysetKey(z.iso.datetime()) }),
        answers: { 200: { description: 'The newest first', schema: Success(KeysetPage(ScheduleRun)) } },
      },
      async ({ params: { appId, name }, query, principal }) => {
        await enter(parts, principal, appId);
        await shown(schedules, appId, name);
        return success(
          await keysetPage(
            query,
            (ask) => schedules.history.list(appId, name, ask),
            ({ at }) => at,
          ),
        );
      },
    ),
  ];
}

function actionRoutes(parts: ScheduleParts): Route[] {
  const { schedules, scheduler } = parts;
  const action = (
    verb: 'pause' | 'resume',
    summary: string,
    act: (appId: string, name: string) => Promise<boolean>,
  ) =>
    route(
      {
        method: 'POST',
        path: `${path}/${verb}`,
        access: 'operator',
        tag,
        summary,
        params,
        answers: { 200: { description: 'As it is now', schema: Success(ShownSchedule) } },
      },
      async ({ params: { appId, name }, principal }) => {
        await enter(parts, principal, appId);
        if (!(await act(appId, name))) throw missing(name);
        scheduler.wake();
        return success(await shown(schedules, appId, name));
      },
    );
  return [
    action('pause', 'Let a schedule fire no more; a job that runs goes on', (appId, name) =>
      schedules.pause(appId, name),
    ),
    action(
      'resume',
      'Let a schedule fire again, from its next time on; the failures in a row are forgotten',
      (appId, name) => schedules.resume(appId, name),
    ),
    route(
      {
        method: 'POST',
        path: `${path}/run`,
        access: 'operator',
        tag,
        summary: 'Run what a schedule runs now, in the name of the caller, whatever else is under way',
        params,
        answers: {
          202: {
            description: 'The job is under way',
            schema: Success(z.strictObject({ jobId: z.string(), statusUrl: z.string() })),
          },
        },
      },
      async ({ params: { appId, name }, principal, reply }) => {
        await enter(parts, principal, appId);
        const jobId = await scheduler.runNow(appId, name, principal);
        const statusUrl = `/api/v1/jobs/${jobId}`;
        reply.code(202).header('location', statusUrl);
        return success({ jobId, statusUrl });
      },
    ),
  ];
}

async function enter({ applications }: ScheduleParts, principal: Principal, appId: string): Promise<void> {
  requireApplication(principal, appId);
  await applications.get(appId);
}

async function shown(schedules: Schedules, appId: string, name: string): Promise<ShownSchedule> {
  const found = await schedules.show(appId, name);
  if (!found) throw missing(name);
  return found;
}

function missing(name: string): ServiceError {
  return new ServiceError('not_found', `there is no schedule "${name}"`);
}
