/** The only wiring: settings -> stores -> operations -> server. Nothing else imports an adapter. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { pino, type Logger } from 'pino';
import { createServer } from './api/server.ts';
import { openPostgres } from './database/adapters/postgres.ts';
import { openSqlite } from './database/adapters/sqlite.ts';
import type { Database } from './database/database.ts';
import { ServiceError } from './model/errors.ts';
import { Authentication } from './oauth2/authentication.ts';
import { FailureThrottle } from './oauth2/failure-throttle.ts';
import { TokenEndpoint } from './oauth2/token-endpoint.ts';
import { OperationRegistry } from './operations/registry.ts';
import type { Settings } from './settings.ts';
import { MasterKeys, readOrCreateKeyFile } from './system/master-key.ts';
import type { Records } from './system/records.ts';
import { Secrets } from './system/secrets.ts';
import { openSystem, type System } from './system/system.ts';

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
    return await openSystem(database, settings);
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

export async function startService(
  settings: Settings,
  logger: Logger,
  now: () => number = Date.now,
): Promise<Service> {
  const database = await openDatabase(settings, logger);
  let server: FastifyInstance | undefined;
  try {
    const system = await openSystem(database, settings, now);
    await Secrets.open(database, () => readMasterKeys(settings));
    await bootstrap(system, settings, logger);
    server = await createServer(
      {
        ...system,
        version,
        tokenEndpoint: createTokenEndpoint(system, settings, now),
        operations: new OperationRegistry([]),
        logger,
        checkReady: () => checkReady(database),
      },
      settings,
    );
    const url = await server.listen({ host: settings.host, port: settings.port });
    const stopSweeping = sweepTokens(system, settings, logger);
    return { url, system, server, stop: () => stop(stopSweeping) };
  } catch (error) {
    await server?.close();
    await database.close();
    throw error;
  }

  async function stop(stopSweeping: () => Promise<void>): Promise<void> {
    const graceOver = setTimeout(
      () => server?.server.closeAllConnections(),
      settings.stopGraceSeconds * 1000,
    );
    await server?.close();
    clearTimeout(graceOver);
    await stopSweeping();
    await database.close();
  }
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
  const authentication = new Authentication({ clients, users, hashing, throttles });
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
