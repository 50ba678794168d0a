/** The wiring of the service: the engine, the API in front of it, and what happens at its start and stop. */
import { readFile } from 'node:fs/promises';
import type { FastifyInstance } from 'fastify';
import { pino, type Logger } from 'pino';
import { createServer } from './api/server.ts';
import type { Database } from './database/database.ts';
import { ServiceError } from './model/errors.ts';
import { Authentication } from './oauth2/authentication.ts';
import { FailureThrottle } from './oauth2/failure-throttle.ts';
import { TokenEndpoint } from './oauth2/token-endpoint.ts';
import { VerifiedClients } from './oauth2/verified-clients.ts';
import type { Settings } from './settings.ts';
import type { Records } from './system/records.ts';
import type { System } from './system/system.ts';
import { openEngine } from './engine.ts';

export const version = await readVersion();

export function createLogger(settings: Settings): Logger {
  // Standard output is for results; synchronous, so that the last words of a crash are not lost.
  return pino({ level: settings.logLevel }, pino.destination({ fd: 2, sync: true }));
}

export interface Service {
  /** Where it listens, such as http://127.0.0.1:8080. */
  url: string;
  system: System;
  server: FastifyInstance;
  /** Answers what is under way, then closes. */
  stop(): Promise<void>;
}

export async function startService(
  settings: Settings,
  logger: Logger,
  now: () => number = Date.now,
): Promise<Service> {
  const engine = await openEngine(settings, logger, { now });
  const { system, runner, scheduler } = engine;
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
        now,
        checkReady: () => checkReady(system.database),
      },
      settings,
    );
    const url = await server.listen({ host: settings.host, port: settings.port });
    if (settings.role !== 'api') scheduler.start();
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
    await scheduler.stop();
    await Promise.all([running.close(), runner.stop(graceOver)]);
    await stopSweeping();
    await engine.stop(graceOver);
  }
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
