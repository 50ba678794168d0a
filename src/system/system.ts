import type { Database } from '../database/database.ts';
import { ApplicationVariables } from './application-variables.ts';
import { Applications } from './applications.ts';
import { BearerTokens } from './bearer-tokens.ts';
import { Clients } from './clients.ts';
import { Definitions } from './definitions.ts';
import { Jobs } from './jobs.ts';
import { Leases } from './leases.ts';
import type { MasterKeys } from './master-key.ts';
import { migrate } from './migrations/migrate.ts';
import type { Records } from './records.ts';
import { savedDefinitions, type SavedDefinitions } from './saved-definitions.ts';
import { Outbox } from './outbox.ts';
import { Schedules } from './schedules.ts';
import { SecretHashing, type SecretHashingSettings } from './secret-hashing.ts';
import { Secrets } from './secrets.ts';
import { Sources } from './sources.ts';
import { Tokens, type TokenSettings } from './tokens.ts';
import { Users } from './users.ts';
import { Workers } from './workers.ts';

/** The service's own records, ready to use. */
export interface System {
  database: Database<Records>;
  hashing: SecretHashing;
  secrets: Secrets;
  leases: Leases;
  applications: Applications;
  definitions: Definitions;
  saved: SavedDefinitions;
  variables: ApplicationVariables;
  jobs: Jobs;
  outbox: Outbox;
  workers: Workers;
  schedules: Schedules;
  clients: Clients;
  users: Users;
  tokens: Tokens;
  bearerTokens: BearerTokens;
}

export async function openSystem(
  database: Database<Records>,
  settings: SecretHashingSettings & TokenSettings,
  readMasterKeys: () => Promise<MasterKeys>,
  now: () => number = Date.now,
): Promise<System> {
  await migrate(database);
  const hashing = new SecretHashing(settings, now);
  const secrets = await Secrets.open(database, readMasterKeys);
  const definitions = new Definitions(database, now);
  const bearerTokens = new BearerTokens(database, now);
  return {
    database,
    hashing,
    secrets,
    leases: new Leases(database, now),
    applications: new Applications(database, now),
    definitions,
    saved: savedDefinitions(definitions, new Sources(definitions, secrets)),
    variables: new ApplicationVariables(database, now),
    jobs: new Jobs(database, now),
    outbox: new Outbox(database, now),
    workers: new Workers(database, now),
    schedules: new Schedules(database, now),
    clients: new Clients(database, hashing, bearerTokens, now),
    users: new Users(database, hashing, bearerTokens, now),
    tokens: new Tokens(database, settings, bearerTokens, now),
    bearerTokens,
  };
}
