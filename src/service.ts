/** The only wiring: settings -> stores -> operations -> jobs -> server. Nothing else imports an adapter. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { pino, type Logger } from 'pino';
import { createServer } from './api/server.ts';
import { ApplicationData } from './application-data.ts';
import { openPostgres } from './database/adapters/postgres.ts';
import { openSqlite } from './database/adapters/sqlite.ts';
import type { Database } from './database/database.ts';
import { openFolder } from './files/adapters/folder.ts';
import { HttpClient } from './http/http-client.ts';
import { JobRunner } from './jobs/job-runner.ts';
import { OperationSecrets } from './jobs/operation-secrets.ts';
import { ServiceError } from './model/errors.ts';
import { Authentication } from './oauth2/authentication.ts';
import { FailureThrottle } from './oauth2/failure-throttle.ts';
import { TokenEndpoint } from './oauth2/token-endpoint.ts';
import { VerifiedClients } from './oauth2/verified-clients.ts';
import { OAuthTokens } from './operations/http-request/authorization.ts';
import { HttpRequestOperation } from './operations/http-request/http-request.ts';
import { extendRequest } from './operations/http-request/interceptors/extend-request.ts';
import { InterceptorRegistry } from './operations/http-request/interceptors/interceptor.ts';
import { signWithCloudSigV4 } from './operations/http-request/interceptors/sign-with-cloud-sig-v4.ts';
import { OperationRegistry } from './operations/registry.ts';
import { ScriptPool } from './scripting/script-pool.ts';
import type { ScriptLimits } from './scripting/script-limits.ts';
import type { Settings } from './settings.ts';
import { MasterKeys, readOrCreateKeyFile } from './system/master-key.ts';
import type { Records } from './system/records.ts';
import { openSystem, type System } from './system/system.ts';
import { openSqliteTables } from './tables/adapters/sqlite.ts';

export const version = await readVersion();

export interface Service {
  /** Where it listens, such as http://127.0.0.1:8080. */
  url: string;
  system: System;
  server: FastifyInstance;
  /** Answers what is under way, then closes. */
  stop(): Promise<void>;
}

export function createLogger(settings: Settings): Logger {
  // Standard output is for results; synchronous, so that the last words of a crash are not lost.
  return pino({ level: settings.logLevel }, pino.destination({ fd: 2, sync: true }));
}

export async function openRecords(settings: Settings, logger: Logger): Promise<System> {
  const database = await openDatabase(settings, logger);
  try {
    return await openSystem(database, settings, () => readMasterKeys(settings));
  } catch (error) {
    await database.close();
    throw error;
  }
}

export function masterKeyFile(settings: Settings): string {
  return join(settings.data, 'master.key');
}

export async function readMasterKeys(settings: Settings): Promise<MasterKeys> {
  if (settings.masterKey !== '') return MasterKeys.parse(settings.masterKey, 'the setting masterKey');
  await makeDataFolder(settings);
  return readOrCreateKeyFile(masterKeyFile(settings));
}

/** Whatever runs jobs: the service, and `millrace run`. */
export interface Engine {
  system: System;
  runner: JobRunner;
  places: ApplicationData;
  /** Lets the jobs that run have until the signal. */
  stop(signal: AbortSignal): Promise<void>;
}

export async function startEngine(
  settings: Settings,
  logger: Logger,
  now: () => number = Date.now,
): Promise<Engine> {
  const database = await openDatabase(settings, logger);
  try {
    const system = await openSystem(database, settings, () => readMasterKeys(settings), now);
    const scripts = new ScriptPool(scriptLimits(settings), (level, message, detail) =>
      logger[level](detail, message),
    );
    const client = new HttpClient({ allowPrivate: mayReachPrivateAddresses(settings) });
    const interceptors = new InterceptorRegistry([signWithCloudSigV4, extendRequest]);
    const places: ApplicationData = new ApplicationData({
      folder: settings.data,
      openTables: openSqliteTables,
      openFiles: openFolder,
      isBusy: (appId) => runner.isBusy(appId),
      now,
    });
    const oauthTokens = new OAuthTokens({ client, secrets: system.secrets, leases: system.leases, now });
    system.saved.sources.onDelete((sourceKey) => oauthTokens.forget(sourceKey));
    const httpRequest = new HttpRequestOperation({
      ...system,
      client,
      scripts,
      places,
      interceptors,
      sources: system.saved.sources,
      oauthTokens,
      extraMethods: settings.extraMethods,
    });
    const runner: JobRunner = new JobRunner({
      jobs: system.jobs,
      operations: new OperationRegistry([httpRequest]),
      variables: system.variables,
      secrets: new OperationSecrets(system.secrets),
      settings,
      now,
      logError: (error, jobId) => logger.error({ err: error, jobId }, 'a job met a fault of the service'),
      cleanUp: (appId, jobId) => cleanUpAfterJob(places, appId, jobId),
    });
    const stop = async (signal: AbortSignal) => {
      await runner.stop(signal);
      await Promise.all([scripts.close(), client.close(), places.close()]);
      await database.close();
    };
    return { system, runner, places, stop };
  } catch (error) {
    await database.close();
    throw error;
  }
}

export async function startService(
  settings: Settings,
  logger: Logger,
  now: () => number = Date.now,
): Promise<Service> {
  const engine = await startEngine(settings, logger, now);
  const { system, runner } = engine;
  let server: FastifyInstance | undefined;
  try {
    await bootstrap(system, settings, logger);
    await runner.start();
    server = await createServer(
      {
        ...engine,
        ...system,
        version,
        tokenEndpoint: createTokenEndpoint(system, settings, now),
        logger,
        checkReady: () => checkReady(system.database),
      },
      settings,
    );
    const url = await server.listen({ host: settings.host, port: settings.port });
    const stopSweeping = sweepTokens(system, settings, logger);
    const running = server;
    return { url, system, server, stop: () => stop(running, stopSweeping) };
  } catch (error) {
    await server?.close();
    await engine.stop(AbortSignal.abort());
    throw error;
  }

  async function stop(running: FastifyInstance, stopSweeping: () => Promise<void>): Promise<void> {
    const graceMs = settings.stopGraceSeconds * 1000;
    const graceOver = AbortSignal.timeout(graceMs);
    graceOver.addEventListener('abort', () => running.server.closeAllConnections());
    await Promise.all([running.close(), runner.stop(graceOver)]);
    await stopSweeping();
    await engine.stop(graceOver);
  }
}

function scriptLimits(settings: Settings): Partial<ScriptLimits> {
  return {
    callMs: settings.scriptCallSeconds * 1000,
    isolateMib: settings.scriptMemoryMib,
    outputBytes: settings.scriptOutputBytes,
  };
}

function mayReachPrivateAddresses({ privateAddresses, host }: Settings): boolean {
  if (privateAddresses !== 'auto') return privateAddresses === 'allowed';
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/** What a job leaves that nobody needs when it is over, however it ended. */
async function cleanUpAfterJob(places: ApplicationData, appId: string, jobId: string): Promise<void> {
  const store = await places.tables(appId);
  await store.dropTemporary(jobId);
  await store.abandon(jobId);
}

async function openDatabase(settings: Settings, logger: Logger): Promise<Database<Records>> {
  if (settings.database !== '') {
    return openPostgres(settings.database, (error) =>
      logger.warn({ err: error }, 'a database connection broke'),
    );
  }
  await makeDataFolder(settings);
  return openSqlite(join(settings.data, 'millrace.sqlite'));
}

/** For its owner alone: the folder holds the master key and whatever is downloaded. */
async function makeDataFolder(settings: Settings): Promise<void> {
  await mkdir(settings.data, { recursive: true, mode: 0o700 });
}

function createTokenEndpoint(system: System, settings: Settings, now: () => number): TokenEndpoint {
  const { clients, users, hashing, tokens } = system;
  const throttle = (burst: number, secondsPerFailure: number) =>
    new FailureThrottle({ burst, secondsPerFailure }, now);
  const throttles = {
    client: throttle(settings.clientFailureBurst, settings.clientFailureSeconds),
    user: throttle(settings.userFailureBurst, settings.userFailureSeconds),
    userLock: throttle(settings.userLockBurst, settings.userLockSeconds),
    address: throttle(settings.addressFailureBurst, settings.addressFailureSeconds),
  };
  const verified = new VerifiedClients(settings.verifiedSecretSeconds, now);
  const authentication = new Authentication({ clients, users, hashing, throttles, verified });
  return new TokenEndpoint({ authentication, tokens });
}

async function bootstrap(system: System, settings: Settings, logger: Logger): Promise<void> {
  const { bootstrapClientId: clientId, bootstrapClientSecret: clientSecret } = settings;
  if (clientId === '') return;
  const known = await system.clients.credentials(clientId);
  if (known) {
    const matches = await Promise.all(
      known.secrets.map(({ argon2 }) => system.hashing.verify(clientSecret, argon2, 'normal')),
    );
    if (!matches.includes(true)) {
      logger.warn(
        { clientId },
        'the bootstrap client exists already, with another secret: nothing was changed',
      );
    }
    return;
  }
  try {
    await system.clients.create(
      {
        name: 'bootstrap',
        role: 'administrator',
        grants: ['client_credentials', 'password', 'refresh_token'],
        applications: null,
      },
      { clientId, clientSecret },
    );
  } catch (error) {
    // Another node has just created it.
    if (!(error instanceof ServiceError && error.code === 'conflict')) throw error;
  }
}

async function checkReady(database: Database<Records>): Promise<void> {
  await database.query.selectFrom('client').select('client_id').limit(1).execute();
}

/** Gives the function that stops it, which waits for a sweep that is under way. */
function sweepTokens(system: System, settings: Settings, logger: Logger): () => Promise<void> {
  let underWay = Promise.resolve();
  const timer = setInterval(() => {
    underWay = underWay.then(async () => {
      try {
        await system.tokens.sweep();
      } catch (error) {
        logger.warn({ err: error }, 'expired tokens could not be deleted; the next sweep tries again');
      }
    });
  }, settings.tokenSweepSeconds * 1000);
  return async () => {
    clearInterval(timer);
    await underWay;
  };
}

async function readVersion(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
