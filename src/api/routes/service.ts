import { z } from 'zod';
import { Success, success } from '../../model/envelope.ts';
import { ServiceError } from '../../model/errors.ts';
import type { Metrics } from '../metrics.ts';
import { openApi } from '../openapi.ts';
import { route, type Route } from '../route.ts';

const tag = 'Service';
const Health = Success(z.strictObject({ version: z.string() }));

export interface ServiceParts {
  version: string;
  metrics: Metrics;
  openMetrics: boolean;
  /** Throws where the service could not do its work now. */
  checkReady: () => Promise<void>;
}

export function serviceRoutes({ version, metrics, openMetrics, checkReady }: ServiceParts): Route[] {
  return [
    route(
      {
        method: 'GET',
        path: '/health/live',
        access: 'public',
        tag,
        summary: 'Whether the process runs',
        answers: { 200: { description: 'It runs', schema: Health } },
      },
      async () => success({ version }),
    ),
    route(
      {
        method: 'GET',
        path: '/health/ready',
        access: 'public',
        tag,
        summary: 'Whether requests can be answered',
        answers: { 200: { description: 'They can; otherwise 503', schema: Health } },
      },
      async () => {
        await checkReady().catch((cause: unknown) => {
          throw new ServiceError('records_unavailable', 'the service is not ready', { cause });
        });
        return success({ version });
      },
    ),
    route(
      {
        method: 'GET',
        path: '/metrics',
        access: openMetrics ? 'public' : 'viewer',
        tag,
        summary: 'Figures for Prometheus',
        answers: {
          200: {
            description: 'In the text format of Prometheus',
            schema: z.string(),
            mediaType: 'text/plain',
          },
        },
      },
      async ({ reply }) => {
        reply.type(metrics.registry.contentType);
        return metrics.registry.metrics();
      },
    ),
  ];
}

/** Made last, since it describes all the others and itself. */
export function openApiRoute(others: readonly Route[], version: string): Route {
  const self = route(
    {
      method: 'GET',
      path: '/api/v1/openapi.json',
      access: 'viewer',
      tag,
      summary: 'This description, in OpenAPI 3.1',
      answers: { 200: { description: 'An OpenAPI document', schema: z.record(z.string(), z.unknown()) } },
    },
    async () => document,
  );
  const document = openApi([...others, self], version);
  return self;
}
