/** The wiring of all that runs jobs: settings -> stores -> operations -> jobs. Nothing else imports an adapter. */
import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { ApplicationData } from './application-data.ts';
import { openPostgres } from './database/adapters/postgres.ts';
import { openSqlite } from './database/adapters/sqlite.ts';
import type { Database } from './database/database.ts';
import { HttpClient } from './http/http-client.ts';
import { EmbeddedQueue } from './jobs/adapters/embedded-queue.ts';
import { PgBossQueue } from './jobs/adapters/pg-boss-queue.ts';
import { PostgresSignals } from './jobs/adapters/postgres-signals.ts';
import { JobCleaner } from './jobs/job-cleaner.ts';
import { JobRunner } from './jobs/job-runner.ts';
import { JobWorker } from './jobs/job-worker.ts';
import { checkOperationBy } from './jobs/operation-check.ts';
import { OperationSecrets } from './jobs/operation-secrets.ts';
import { nameOfProcess, type JobQueue } from './jobs/queue.ts';
import { Scheduler } from './jobs/scheduler.ts';
import { LocalSignals, type JobSignals } from './jobs/signals.ts';
import { OAuthTokens } from './operations/http-request/authorization.ts';
import { HttpRequestOperation } from './operations/http-request/http-request.ts';
import { extendRequest } from './operations/http-request/interceptors/extend-request.ts';
import { InterceptorRegistry } from './operations/http-request/interceptors/interceptor.ts';
import { signWithCloudSigV4 } from './operations/http-request/interceptors/sign-with-cloud-sig-v4.ts';
import { SourceLimits } from './operations/http-request/source-turns.ts';
import { RunScenarioOperation, type CheckScenario } from './operations/run-scenario/run-scenario.ts';
import { OperationRegistry } from './operations/registry.ts';
import { ScriptPool } from './scripting/script-pool.ts';
import type { ScriptLimits } from './scripting/script-limits.ts';
import type { Settings } from './settings.ts';
import { MasterKeys, readOrCreateKeyFile } from './system/master-key.ts';
import { RateBudgets } from './system/rate-budgets.ts';
import type { Records } from './system/records.ts';
import { openStores, type Stores } from './stores.ts';
import { openSystem, type System } from './system/system.ts';

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
  scheduler: Scheduler;
  places: ApplicationData;
  checkScenario: CheckScenario;
  /** Jobs under way are handed back after their page, or, when the signal says so, at once. */
  stop(signal: AbortSignal): Promise<void>;
}

export interface EngineOptions {
  now?: () => number;
  /** Whether jobs that other processes left are taken up. */
  takesOver?: boolean;
}

export async function openEngine(
  settings: Settings,
  logger: Logger,
  { now = Date.now, takesOver = true }: EngineOptions = {},
): Promise<Engine> {
  const database = await openDatabase(settings, logger);
  try {
    const system = await openSystem(database, settings, () => readMasterKeys(settings), now);
    const { jobs, variables } = system;
    const logError = (error: unknown, what: string) => logger.error({ err: error }, what);
    const scripts = new ScriptPool(scriptLimits(settings), (level, message, detail) =>
      logger[level](detail, message),
    );
    const client = new HttpClient({ allowPrivate: mayReachPrivateAddresses(settings) });
    const stores: Stores = openStores({
      settings,
      sources: system.saved.sources,
      logger,
      isBusy: (appId) => runner.isBusy(appId),
      now,
    });
    const { places, leftovers } = stores;
    const { operations, checkScenario } = openOperations({ system, scripts, client, places, settings, now });
    const secrets = new OperationSecrets(system.secrets);
    const cleaner = new JobCleaner({
      database,
      jobs,
      secrets,
      leftovers,
      settings,
      now,
      logError,
    });
    const { queue, signals, owner } = await openQueue({ settings, system, logger, now, takesOver });
    jobs.life.carryBy(queue);
    const worker = new JobWorker({
      jobs,
      signals,
      operations,
      variables,
      secrets,
      cleaner,
      settings,
      owner,
      now,
      logError,
    });
    const parts = { jobs, queue, signals, worker, cleaner, operations, secrets, settings };
    const runner = new JobRunner({ ...parts, runsJobs: settings.role !== 'api' });
    const scheduler = new Scheduler({
      schedules: system.schedules,
      submit: (job) => runner.submit(job),
      check: checkOperationBy(operations),
      savedRequest: (appId, name) => system.saved.requests.get(appId, name),
      now,
      logError,
    });
    const stop = async (signal: AbortSignal) => {
      await scheduler.stop();
      await runner.stop(signal);
      await Promise.all([scripts.close(), client.close(), stores.close()]);
      await database.close();
    };
    return { system, runner, scheduler, places, checkScenario, stop };
  } catch (error) {
    await database.close();
    throw error;
  }
}

interface Carriers {
  queue: JobQueue;
  signals: JobSignals;
  /** By which the jobs that run here name this process. */
  owner: string;
}

interface QueueParts extends Required<EngineOptions> {
  settings: Settings;
  system: System;
  logger: Logger;
}

/** Nodes over PostgreSQL share a queue. A command that runs a job of its own does so beside it. */
async function openQueue({ settings, system, logger, now, takesOver }: QueueParts): Promise<Carriers> {
  const { database, jobs, workers } = system;
  const logError = (error: unknown, what: string) => logger.error({ err: error }, what);
  if (database.kind === 'sqlite' || !takesOver) {
    const queue = new EmbeddedQueue({ jobs, workers, limits: settings, now, takesOver, logError });
    return { queue, signals: new LocalSignals(), owner: queue.owner };
  }
  const { database: url } = settings;
  const queue = await PgBossQueue.open({
    url,
    database,
    limits: settings,
    runsJobs: settings.role !== 'api',
    folder: await nameOfDataFolder(settings),
    now,
    logWarning: (error, what) => logger.warn({ err: error }, what),
    logError,
  });
  await warnOfFolders(settings, queue, logger);
  const signals = new PostgresSignals({
    url,
    logDebug: (error, what) => logger.debug({ err: error }, what),
  });
  return { queue, signals, owner: nameOfProcess() };
}

async function warnOfFolders(settings: Settings, queue: PgBossQueue, logger: Logger): Promise<void> {
  const { data, masterKey, role } = settings;
  const hosts = await queue.hostsWithOtherFolders();
  if (hosts.length > 0) {
    logger.warn(
      { data, hosts },
      'other nodes have another data folder: what a job saves there is not found by all of them; mount one folder ' +
        'that all nodes share, and name it with the setting data',
    );
  }
  if (masterKey === '' && role !== 'all') {
    logger.warn(
      { file: masterKeyFile(settings) },
      'the master key is read from the data folder: all nodes must share the folder, or be given the key by the ' +
        'setting masterKey',
    );
  }
}

/** Made by the first node that uses the folder: whoever has the same one shares the folder. */
async function nameOfDataFolder(settings: Settings): Promise<string> {
  await makeDataFolder(settings);
  const file = join(settings.data, 'folder-id');
  const aside = `${file}.${randomUUID()}`;
  await writeFile(aside, randomUUID());
  try {
    await link(aside, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await unlink(aside);
  }
  return readFile(file, 'utf8');
}

function openOperations({ system, scripts, client, places, settings, now }: OperationsParts): {
  operations: OperationRegistry;
  checkScenario: CheckScenario;
} {
  const { database, secrets, leases, saved } = system;
  const oauthTokens = new OAuthTokens({ client, secrets, leases, now });
  const sourceLimits = new SourceLimits(new RateBudgets(database));
  saved.sources.onDelete(async (sourceKey) => {
    await oauthTokens.forget(sourceKey);
    await sourceLimits.forget(sourceKey);
  });
  const httpRequest = new HttpRequestOperation({
    ...system,
    client,
    scripts,
    places,
    interceptors: new InterceptorRegistry([signWithCloudSigV4, extendRequest]),
    sources: saved.sources,
    oauthTokens,
    sourceLimits,
    extraMethods: settings.extraMethods,
  });
  const { definitions } = system;
  const runScenario = new RunScenarioOperation({ definitions, scripts, operations: [httpRequest] });
  return {
    operations: new OperationRegistry([httpRequest, runScenario]),
    checkScenario: runScenario.checkScenario,
  };
}

interface OperationsParts {
  system: System;
  scripts: ScriptPool;
  client: HttpClient;
  places: ApplicationData;
  settings: Settings;
  now: () => number;
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
