import { z } from 'zod';
import { Success, success } from '../../model/envelope.ts';
import { ExecuteJob } from '../../model/job.ts';
import type { OperationRegistry } from '../../operations/registry.ts';
import type { Applications } from '../../system/applications.ts';
import { requireApplication } from '../bearer.ts';
import { route, type Route } from '../route.ts';

export function executeJobRoutes(parts: {
  applications: Applications;
  operations: OperationRegistry;
}): Route[] {
  return [
    route(
      {
        method: 'POST',
        path: '/api/v1/executeJob',
        access: 'operator',
        tag: 'Jobs',
        summary: 'Run an operation',
        body: ExecuteJob,
        answers: { 200: { description: 'The job has succeeded', schema: Success(z.unknown()) } },
      },
      async ({ body: { appId, operation }, principal }) => {
        requireApplication(principal, appId);
        await parts.applications.get(appId);
        const { opName, opParams } = operation;
        return success(await parts.operations.find(opName).run({ appId, opParams }));
      },
    ),
  ];
}
