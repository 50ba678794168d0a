import { z } from 'zod';
import { Application, ApplicationId, NewApplication } from '../../model/access.ts';
import { KeysetPage, KeysetQuery, keysetKey, Success, success } from '../../model/envelope.ts';
import type { Applications } from '../../system/applications.ts';
import { requireApplication } from '../bearer.ts';
import { keysetPage } from '../keyset-page.ts';
import { route, type Route } from '../route.ts';

const tag = 'Applications';
const path = '/api/v1/applications';

export function applicationRoutes({ applications }: { applications: Applications }): Route[] {
  return [
    route(
      {
        method: 'GET',
        path,
        access: 'viewer',
        tag,
        summary: 'List the applications that the caller may see',
        query: KeysetQuery.extend({ after: keysetKey(ApplicationId) }),
        answers: {
          200: { description: 'The applications by appId', schema: Success(KeysetPage(Application)) },
        },
      },
      async ({ query, principal }) => {
        const list = (ask: { after?: string | undefined; limit: number }) =>
          applications.list({ ...ask, only: principal.applications });
        return success(await keysetPage(query, list, ({ appId }) => appId));
      },
    ),
    route(
      {
        method: 'POST',
        path,
        access: 'editor',
        tag,
        summary: 'Create an application',
        body: NewApplication,
        answers: { 201: { description: 'The application', schema: Success(Application) } },
      },
      async ({ body, principal, reply }) => {
        requireApplication(principal, body.appId);
        const application = await applications.create(body);
        reply.code(201).header('location', `${path}/${application.appId}`);
        return success(application);
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{appId}`,
        access: 'viewer',
        tag,
        summary: 'Read an application',
        params: z.strictObject({ appId: z.string() }),
        answers: { 200: { description: 'The application', schema: Success(Application) } },
      },
      async ({ params: { appId }, principal }) => {
        requireApplication(principal, appId);
        return success(await applications.get(appId));
      },
    ),
  ];
}
