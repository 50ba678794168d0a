import { randomUUID } from 'node:crypto';
import cors from '@fastify/cors';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { ServiceError } from '../model/errors.ts';
import type { TokenEndpoint } from '../oauth2/token-endpoint.ts';
import type { JobRunner } from '../jobs/job-runner.ts';
import type { Scheduler } from '../jobs/scheduler.ts';
import type { DataPlaces } from '../operations/data-places.ts';
import type { CheckScenario } from '../operations/run-scenario/run-scenario.ts';
import type { ApplicationVariables } from '../system/application-variables.ts';
import type { Applications } from '../system/applications.ts';
import type { BearerTokens } from '../system/bearer-tokens.ts';
import type { Clients } from '../system/clients.ts';
import type { Jobs } from '../system/jobs.ts';
import type { Outbox } from '../system/outbox.ts';
import type { Schedules } from '../system/schedules.ts';
import type { SavedDefinitions } from '../system/saved-definitions.ts';
import type { Users } from '../system/users.ts';
import { authenticate, bearerCheck } from './bearer.ts';
import { leaveBodies } from './byte-body.ts';
import { answerError, answerMalformed, isTokenPath } from './errors.ts';
import { Metrics } from './metrics.ts';
import { parseJson } from './raw-json.ts';
import { paramsOf, pathPattern, routerPath, type Route } from './route.ts';
import { applicationRoutes } from './routes/applications.ts';
import { clientRoutes } from './routes/clients.ts';
import { definitionRoutes } from './routes/definitions.ts';
import { executeJobRoutes } from './routes/execute-job.ts';
import { fileRoutes } from './routes/files.ts';
import { jobRoutes } from './routes/jobs.ts';
import { oauth2Routes } from './routes/oauth2.ts';
import { openApiRoute, serviceRoutes } from './routes/service.ts';
import { scheduleRoutes } from './routes/schedules.ts';
import { tableRoutes } from './routes/tables.ts';
import { userRoutes } from './routes/users.ts';
import { validate } from '../model/validate.ts';

export interface ServerParts {
  version: string;
  applications: Applications;
  clients: Clients;
  users: Users;
  bearerTokens: BearerTokens;
  tokenEndpoint: TokenEndpoint;
  variables: ApplicationVariables;
  saved: SavedDefinitions;
  checkScenario: CheckScenario;
  jobs: Jobs;
  outbox: Outbox;
  runner: JobRunner;
  schedules: Schedules;
  scheduler: Scheduler;
  now: () => number;
  places: DataPlaces;
  logger: FastifyBaseLogger;
  checkReady: () => Promise<void>;
}

export interface ServerSettings {
  /** A worker has no API: only its health and its figures can be asked for. */
  role: 'all' | 'api' | 'worker';
  bodyLimitBytes: number;
  trustedProxies: string[];
  corsOrigins: string[];
  openMetrics: boolean;
  syncWaitSeconds: number;
}

/** A form of the token endpoint is small; a secret of 1 MB is none. */
const FORM_LIMIT_BYTES = 32 * 1024;
/** Slow senders are cut off; answers may take as long as they take. */
const RECEIVE_TIMEOUT_MS = 60_000;
const REQUEST_ID = /^[\w.:-]{1,64}$/;

export async function createServer(parts: ServerParts, settings: ServerSettings): Promise<FastifyInstance> {
  const metrics = new Metrics();
  const server = Fastify({
    loggerInstance: parts.logger,
    logController: new Fastify.LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    bodyLimit: settings.bodyLimitBytes,
    trustProxy: settings.trustedProxies.length > 0 ? settings.trustedProxies : false,
    requestTimeout: RECEIVE_TIMEOUT_MS,
    forceCloseConnections: 'idle',
    genReqId: ({ headers }) => {
      const given = headers['x-request-id'];
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
    },
    routerOptions: { maxParamLength: 1024 },
    frameworkErrors: (error, request, reply) => void answerError(error, request, reply),
    clientErrorHandler: answerMalformed,
  });
  server.setErrorHandler(answerError);
  server.decorateRequest('principal', null);
  if (settings.corsOrigins.length > 0) await server.register(cors, { origin: settings.corsOrigins });

  server.removeContentTypeParser(['text/plain', 'application/json']);
  server.addContentTypeParser('application/json', { parseAs: 'string' }, parseJson(server));
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer', bodyLimit: FORM_LIMIT_BYTES },
    (_request, body, done) => done(null, body),
  );
  // With callbacks: they run at every request, and a promise each would be felt.
  server.addHook('onSend', (request, reply, _payload, done) => {
    reply.header('x-request-id', request.id);
    if (isTokenPath(request)) reply.headers({ 'cache-control': 'no-store', pragma: 'no-cache' });
    done();
  });
  server.addHook('onResponse', (request, reply, done) => {
    noteAnswer(request, reply, metrics);
    done();
  });

  const service = serviceRoutes({ ...parts, metrics, openMetrics: settings.openMetrics });
  const described = [
    ...oauth2Routes({ endpoint: parts.tokenEndpoint, metrics }),
    ...executeJobRoutes({ ...parts, syncWaitSeconds: settings.syncWaitSeconds }),
    ...jobRoutes(parts),
    ...applicationRoutes(parts),
    ...definitionRoutes(parts),
    ...tableRoutes(parts),
    ...fileRoutes(parts),
    ...scheduleRoutes(parts),
    ...clientRoutes(parts),
    ...userRoutes(parts),
    ...service,
  ];
  const routes =
    settings.role === 'worker' ? service : [...described, openApiRoute(described, parts.version)];
  for (const route of routes) {
    if (!route.contract.bytes) addRoute(server, route, parts.bearerTokens);
    else
      await server.register(async (scope) => {
        leaveBodies(scope);
        addRoute(scope, route, parts.bearerTokens);
      });
  }
  server.setNotFoundHandler((request, reply) => answerUnrouted(request, reply, routes, parts.bearerTokens));
  return server;
}

function addRoute(server: FastifyInstance, { contract, handle }: Route, tokens: BearerTokens): void {
  const { access } = contract;
  server.route({
    method: contract.method,
    url: routerPath(contract),
    ...(contract.form && { bodyLimit: FORM_LIMIT_BYTES }),
    ...(access !== 'public' && { onRequest: bearerCheck(tokens, access) }),
    handler: (request, reply) =>
      handle({
        params: contract.params && validate(contract.params, paramsOf(contract, request)),
        query: contract.query && validate(contract.query, request.query),
        body: contract.body && validate(contract.body, jsonBody(request)),
        get principal() {
          const { principal } = request;
          if (!principal) throw new Error(`${contract.path} is public and has no principal`);
          return principal;
        },
        request,
        reply,
      }),
  });
}

function jsonBody(request: FastifyRequest): unknown {
  if (Buffer.isBuffer(request.body)) {
    throw new ServiceError('unsupported_media_type', 'the Content-Type must be application/json');
  }
  return request.body ?? {};
}

/** Outside of the public paths a stranger is not told what there is. */
async function answerUnrouted(
  request: FastifyRequest,
  reply: FastifyReply,
  routes: readonly Route[],
  tokens: BearerTokens,
): Promise<never> {
  const path = request.url.split('?')[0] ?? '';
  const here = routes.filter(({ contract }) => pathPattern(contract).test(path));
  const isPublic = here.some(({ contract }) => contract.access === 'public');
  if (path.startsWith('/api/') && !isPublic) await authenticate(tokens, request);
  if (here.length === 0) throw new ServiceError('not_found', `there is nothing at ${path}`);
  const allowed = here.map(({ contract }) => contract.method).join(', ');
  reply.header('allow', allowed);
  throw new ServiceError('method_not_allowed', `${request.method} is not possible here; allowed: ${allowed}`);
}

function noteAnswer(request: FastifyRequest, reply: FastifyReply, metrics: Metrics): void {
  const route = request.routeOptions.url ?? 'none';
  metrics.answered({ method: request.method, route, status: reply.statusCode }, reply.elapsedTime / 1000);
  request.log.debug(
    { method: request.method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime) },
    'answered',
  );
}
