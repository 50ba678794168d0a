import type { Database } from '../database/database.ts';
import { Applications } from './applications.ts';
import { Clients } from './clients.ts';
import { migrate } from './migrations/migrate.ts';
import type { Records } from './records.ts';
import { SecretHashing, type SecretHashingSettings } from './secret-hashing.ts';
import { Tokens, type TokenSettings } from './tokens.ts';
import { Users } from './users.ts';

/** The service's own records, ready to use. */
export interface System {
  database: Database<Records>;
  hashing: SecretHashing;
  applications: Applications;
  clients: Clients;
  users: Users;
  tokens: Tokens;
}

export async function openSystem(
  database: Database<Records>,
  settings: SecretHashingSettings & TokenSettings,
  now: () => number = Date.now,
): Promise<System> {
  await migrate(database);
  const hashing = new SecretHashing(settings, now);
  return {
    database,
    hashing,
    applications: new Applications(database, now),
    clients: new Clients(database, hashing, now),
    users: new Users(database, hashing, now),
    tokens: new Tokens(database, settings, now),
  };
}
