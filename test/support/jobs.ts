import type { TestContext } from 'node:test';
import type { HttpSource } from '../../src/model/source.ts';
import type { Settings } from '../../src/settings.ts';
import type { Place } from './databases.ts';
import { startExternalApi, type ExternalApi, type ExternalApiOptions } from './external-api.ts';
import { startTestService, type Answer, type TestService } from './service.ts';

export interface JobBench {
  service: TestService;
  api: ExternalApi;
  appId: string;
  token: string;
  /** Runs an HTTPRequest through executeJob, waits, and answers as JSON. */
  run(opParams: unknown, more?: Record<string, unknown>): Promise<Answer>;
  /** Calls the API below /api/v1/applications/{appId}. */
  app(method: string, path: string, body?: unknown): Promise<Answer>;
  putSource(source: Partial<HttpSource> & { name: string }): Promise<Answer>;
  rows(table: string, space?: string): Promise<Record<string, unknown>[]>;
  pages(jobId: string): Promise<Record<string, never>[]>;
  /** The text of the job's log. */
  log(jobId: string): Promise<string[]>;
}

/** A service with an application, and the fake external API beside it. */
export async function startJobBench(
  t: TestContext,
  options: { settings?: Partial<Settings>; api?: ExternalApiOptions; newPlace?: () => Promise<Place> } = {},
): Promise<JobBench> {
  const { settings = {}, newPlace } = options;
  const service = await startTestService(t, { settings, ...(newPlace && { newPlace }) });
  // Jobs, retries and tokens take real time.
  service.clock.run();
  const api = await startExternalApi(t, options.api ?? {});
  const appId = 'shop';
  await service.system.applications.create({ appId });
  const token = await service.tokenOf('editor');
  const app = (method: string, path: string, body?: unknown) =>
    service.call(method, `/api/v1/applications/${appId}${path}`, token, body);
  return {
    service,
    api,
    appId,
    token,
    app,
    run: (opParams, more = {}) =>
      service.call('POST', '/api/v1/executeJob', token, {
        appId,
        responseFormat: 'json',
        operation: { opName: 'HTTPRequest', opParams },
        ...more,
      }),
    putSource: (source) => app('PUT', `/sources/${source.name}`, { type: 'HTTPSource', ...source }),
    async rows(table, space = 'main') {
      const { body } = await app('GET', `/tables/local/${space}/${encodeURIComponent(table)}?limit=10000`);
      return body.result.items;
    },
    async pages(jobId) {
      const { body } = await service.call('GET', `/api/v1/jobs/${jobId}/pages?limit=1000`, token);
      return body.result.items;
    },
    async log(jobId) {
      const events = await service.system.jobs.history.events(jobId, { limit: 10_000 });
      return events
        .filter(({ type }) => type === 'log')
        .map(({ data: { level, text } }) => `${level as string}: ${text as string}`);
    },
  };
}
