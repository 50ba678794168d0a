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
  definition: DefinitionRecord;
  variable: VariableRecord;
  job: JobRecord;
  job_page: JobPageRecord;
  job_event: JobEventRecord;
  lease: LeaseRecord;
  worker: WorkerRecord;
  schedule: ScheduleRecord;
  schedule_run: ScheduleRunRecord;
  outbox: OutboxRecord;
  rate_budget: RateBudgetRecord;
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
  /** Sorts by the time of issue; both tokens begin with it. */
  pair_id: string;
  access_hash: string;
  refresh_hash: string;
  /** The pair_id of the family's first pair. */
  family_id: string;
  /** The pair that this one was issued for; null: it is the first. */
  parent_id: string | null;
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

/** A source, model or saved request of an application. */
interface DefinitionRecord {
  app_id: string;
  kind: string;
  name: string;
  /** JSON by the schema of its kind, without secrets: these are sealed. */
  body: string;
  changed_at: number;
}

interface VariableRecord {
  app_id: string;
  name: string;
  /** JSON. */
  value: string;
  changed_at: number;
}

/** The one truth about a job. */
interface JobRecord {
  /** Sorts by the time of submission. */
  job_id: string;
  app_id: string;
  client_id: string;
  username: string | null;
  op_name: string;
  /** JSON. */
  op_params: string;
  state: string;
  /** Raised whenever a worker takes the job. */
  epoch: number;
  /** The worker that has it, or, in a queue of its own, will have it. */
  owner: string | null;
  priority: number;
  /** Of the jobs with the same key one runs at a time. */
  exclusive_key: string | null;
  /** JSON: when it is tried again, and how long it may take. */
  policy: string;
  /** How often its retry policy has sent it back. */
  retries: number;
  /** While it waits: when it goes on. */
  wake_at: number | null;
  /** JSON, by step: what its operations go on from. */
  progress: string;
  /** The numbers of its last page and event. */
  page_count: number;
  event_count: number;
  rerun_of: string | null;
  /** When its checkpoints, staging tables and secrets go; null: they are gone, or it is not over. */
  clean_up_at: number | null;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  /** After the page that is under way. */
  cancel_requested_at: number | null;
  /** At once. */
  abort_requested_at: number | null;
  /** JSON, when it has succeeded. */
  output: string | null;
  /** JSON, when it has failed. */
  error: string | null;
  /** JSON. */
  stats: string;
  idempotency_key: string | null;
  /** Of the body that came with the key. */
  idempotency_hash: string | null;
}

interface JobPageRecord {
  job_id: string;
  n: number;
  /** JSON. */
  record: string;
  /** The response, redacted and deflated, of the last pages and of the one that failed. */
  body: Uint8Array | null;
}

interface JobEventRecord {
  job_id: string;
  n: number;
  type: string;
  at: number;
  /** JSON. */
  data: string;
}

/** Who may do a thing that only one may do at a time, until then. */
interface LeaseRecord {
  name: string;
  holder: string;
  until: number;
}

/** A process that runs jobs, where the queue is its own. */
interface WorkerRecord {
  owner: string;
  seen_at: number;
}

interface ScheduleRecord {
  app_id: string;
  name: string;
  /** JSON by the schema of schedules, without `paused`. */
  body: string;
  /** Who saved it; its jobs run in this name. */
  client_id: string;
  username: string | null;
  /** Null: it is paused, or never fires again. */
  next_at: number | null;
  /** Null: it is not paused. */
  paused_because: string | null;
  /** Failed runs in a row. */
  failures: number;
  changed_at: number;
}

/** A firing of a schedule. */
interface ScheduleRunRecord {
  app_id: string;
  name: string;
  /** The time that it stands for; with the schedule, the idempotency key of its job. */
  fire_at: number;
  cause: string;
  /** held: behind another one; due: to be submitted; submitted; over; skipped; refused. */
  state: string;
  client_id: string;
  username: string | null;
  job_id: string | null;
  /** When it is over: the last state of its job; null: the job was deleted before anybody looked. */
  outcome: string | null;
  /** Why it was skipped or refused. */
  why: string | null;
}

/** A source record, a batch or a part of one that a job has sent; what is not sent yet has no row. */
interface OutboxRecord {
  /** The job, or the one that it runs again. */
  origin_id: string;
  step: string;
  /** Its identity: the keys of the first and the last row. */
  record: string;
  /** Of a part of a batch: where it begins, from 0. */
  first: number;
  /** How many source records it holds. */
  count: number;
  /** The record or batch, from 1, as the last job that sent it has counted. */
  number: number;
  /** Which request of the record or batch was the last. */
  request: number;
  /** sent, ok, failed or unknown. */
  status: string;
  /** Of one that is unknown: whether it is to be sent again or passed over; null: nobody has said. */
  decision: string | null;
  http_status: number | null;
  response_id: string | null;
  error: string | null;
  changed_at: number;
}

/** The requests to a source, of all jobs together. Times are in microseconds, so that none are lost at fast limits. */
interface RateBudgetRecord {
  /** `appId/source`. */
  source: string;
  /** When the next turn that nobody has reserved is due. */
  free_at_us: number;
  /** Until then the system takes no requests. */
  blocked_until_us: number;
}
