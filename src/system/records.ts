/**
 * The service's own records, one interface a table. Times are milliseconds since 1970. A hash is base64url.
 * Lists are JSON text. What is not spelled out in a column's name is said beside it.
 */
export interface Records {
  application: ApplicationRecord;
  client: ClientRecord;
  client_secret: ClientSecretRecord;
  user: UserRecord;
  token: TokenRecord;
  sealed: SealedRecord;
}

interface ApplicationRecord {
  app_id: string;
  name: string;
  created_at: number;
}

interface ClientRecord {
  client_id: string;
  name: string;
  role: string;
  grants: string;
  /** JSON list of the applications it is restricted to; null: not restricted. */
  applications: string | null;
  created_at: number;
  revoked_at: number | null;
}

interface ClientSecretRecord {
  secret_id: string;
  client_id: string;
  argon2: string;
  fingerprint: string;
  created_at: number;
  last_used_at: number | null;
}

interface UserRecord {
  user_id: string;
  username: string;
  role: string;
  argon2: string;
  created_at: number;
  disabled_at: number | null;
}

/** A pair of access and refresh token. The pairs that descend from one grant by refreshing are a family. */
interface TokenRecord {
  access_hash: string;
  refresh_hash: string;
  family_id: string;
  /** The refresh_hash of the pair that this one was issued for; null: the family's first. */
  parent_hash: string | null;
  client_id: string;
  user_id: string | null;
  issued_at: number;
  access_expires_at: number;
  refresh_expires_at: number;
  /** However often it is refreshed, the family ends then. */
  family_expires_at: number;
  /** Its refresh token was used. */
  spent_at: number | null;
  /** Revoked with its whole family, by revocation or because a spent token was used again. */
  revoked_at: number | null;
  /** Revoked alone, because its parent was used again within the grace: its answer counts as lost. */
  superseded_at: number | null;
  /** When the record has no more meaning and is swept. */
  ends_at: number;
}

/** A secret at rest, encrypted under the master key; see secrets.ts. */
interface SealedRecord {
  name: string;
  envelope: string;
}
