import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { didYouMean } from './model/did-you-mean.ts';

const seconds = (fallback: number, description: string, least = 0) =>
  z.int().min(least).default(fallback).meta({ description, unit: 'seconds' });
const count = (fallback: number, description: string, least = 1) =>
  z.int().min(least).default(fallback).meta({ description });
const text = (fallback: string, description: string, schema: z.ZodType<string> = z.string()) =>
  schema.default(fallback).meta({ description });
const list = (description: string) => z.array(z.string()).default([]).meta({ description });

/**
 * Every setting there is. A setting `refreshGraceSeconds` is `MILLRACE_REFRESH_GRACE_SECONDS` in the environment and
 * `--refresh-grace-seconds` on the command line.
 */
const Settings = z.strictObject({
  data: text(
    'millrace-data',
    'The folder of the embedded database, the master key and the files',
    z.string().min(1, 'a folder'),
  ),
  database: z
    .string()
    .refine((url) => url === '' || (/^postgres(?:ql)?:\/\//.test(url) && URL.canParse(url)), {
      error: 'must be a URL that begins with postgres://, or empty',
    })
    .default('')
    .meta({
      description:
        "Where the service's own records are: a URL postgres://…; empty: the embedded database in the data folder",
      secret: true,
    }),
  role: z
    .enum(['all', 'api', 'worker'])
    .default('all')
    .meta({
      description:
        'What this node does: api answers requests, worker runs jobs, all does both; api and worker need a database ' +
        'that nodes can share',
    }),
  host: text('127.0.0.1', 'The address to listen on; 0.0.0.0 or :: for all', z.string().min(1, 'an address')),
  port: z
    .int()
    .min(0)
    .max(65535)
    .default(8080)
    .meta({ description: 'The port to listen on; 0: any free one' }),
  masterKey: z
    .string()
    .default('')
    .meta({
      description:
        'The key that encrypts stored secrets: 32 bytes in base64; several, separated by commas, while keys are ' +
        'rotated, the new one first; empty: the file master.key in the data folder, made at the first start',
      secret: true,
    }),
  bootstrapClientId: text(
    '',
    'With bootstrapClientSecret: an administrator client that is made when it is missing',
  ),
  bootstrapClientSecret: z
    .union([z.literal(''), z.string().min(16, 'at least 16 characters')])
    .default('')
    .meta({
      description: 'The secret of the client bootstrapClientId, at least 16 characters',
      secret: true,
    }),
  logLevel: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .meta({ description: 'The least important messages that are logged; debug logs each request' }),
  trustedProxies: list('Addresses of proxies whose X-Forwarded-For is believed'),
  corsOrigins: list('Web origins that may call the API from a browser'),
  openMetrics: z
    .boolean()
    .default(false)
    .meta({ description: 'Whether GET /metrics answers without a token' }),
  bodyLimitBytes: z
    .int()
    .min(1024)
    .default(10 * 1024 * 1024)
    .meta({ description: 'The largest body of an API request', unit: 'bytes' }),
  jobsAtOnce: count(8, 'How many jobs run at once on this node; the others wait'),
  jobsAtOncePerApplication: count(8, 'How many jobs of one application run at once on this node'),
  resumableHours: z.int().min(0).default(168).meta({
    description: 'How long a failed or cancelled job can be resumed; until then its staging tables are kept',
    unit: 'hours',
  }),
  sweepSeconds: seconds(60, 'How often what is no longer kept is removed', 1),
  keptJobDays: z.int().min(1).default(90).meta({
    description: 'How long jobs are kept after their end, with their pages and events',
    unit: 'days',
  }),
  keptBodyDays: z
    .int()
    .min(1)
    .default(14)
    .meta({ description: 'How long kept responses are kept after the end of their job', unit: 'days' }),
  syncWaitSeconds: seconds(
    600,
    'How long executeJob waits for a job before it answers like an async call',
    1,
  ),
  keptPageBodies: count(3, 'The responses of so many last pages of a job are kept, for inspection', 0),
  keptBodyBytes: z
    .int()
    .min(0)
    .default(1024 * 1024)
    .meta({ description: 'The most that is kept of one response', unit: 'bytes' }),
  logLinesPerJob: count(10_000, 'Lines of the log of one job; further ones are left out'),
  extraMethods: z
    .array(z.enum(['PUT', 'HEAD']))
    .default([])
    .meta({
      description: 'HTTP methods that requests may use beside GET, POST, DELETE and PATCH: PUT, HEAD',
    }),
  privateAddresses: z
    .enum(['auto', 'allowed', 'refused'])
    .default('auto')
    .meta({
      description:
        'Whether requests may go to loopback and private addresses; auto: while the service listens on a loopback ' +
        'address alone',
    }),
  scriptCallSeconds: seconds(5, 'How long one call of a script may take', 1),
  scriptMemoryMib: z
    .int()
    .min(16)
    .default(128)
    .meta({ description: 'Memory of the scripts of a job', unit: 'MiB' }),
  scriptOutputBytes: z
    .int()
    .min(1024)
    .default(64 * 1024 * 1024)
    .meta({ description: 'The largest result of a script', unit: 'bytes' }),
  stopGraceSeconds: seconds(30, 'How long a stop waits for requests that are under way'),
  refreshTokenSeconds: seconds(14 * 86_400, 'Lifetime of a refresh token; each use brings a new one', 1),
  refreshTokenAbsoluteSeconds: seconds(90 * 86_400, 'How long a user stays signed in by refreshing alone', 1),
  clientCredentialsRefreshSeconds: seconds(
    86_400,
    'How long a client refreshes a token of the client_credentials grant before it must show its secret again',
    1,
  ),
  refreshGraceSeconds: seconds(
    10,
    'How long a spent refresh token is accepted while its successor is unused',
  ),
  tokenSweepSeconds: seconds(300, 'How often expired tokens are deleted', 1),
  argon2MemoryKib: z
    .int()
    .min(8)
    .default(19_456)
    .meta({ description: 'Memory of one argon2id hash', unit: 'KiB' }),
  argon2Passes: count(2, 'Passes of one argon2id hash'),
  argon2Concurrency: count(
    Math.max(1, Math.min(4, availableParallelism() - 1)),
    'How many argon2id hashes are computed at once',
  ),
  verifiedSecretSeconds: seconds(
    300,
    'How long a secret that was right is remembered in memory as a keyed hash, to skip argon2id; 0: not at all',
  ),
  clientFailureBurst: count(10, 'Failed attempts in the name of a client that are free'),
  clientFailureSeconds: seconds(6, 'Another failed attempt is free after this long', 1),
  userFailureBurst: count(10, 'Failed passwords of a user that are free'),
  userFailureSeconds: seconds(6, 'Another failed password is free after this long', 1),
  userLockBurst: count(100, 'Failed passwords after which the password of a user is not even looked at'),
  userLockSeconds: seconds(60, 'Another one is looked at after this long', 1),
  addressFailureBurst: count(100, 'Failed attempts from one address that are free'),
  addressFailureSeconds: seconds(1, 'Another failed attempt from an address is free after this long', 1),
});

export type Settings = z.infer<typeof Settings>;
export type SettingName = keyof Settings;
export type Origin = 'default' | 'file' | 'environment' | 'flag';

export interface ResolvedSettings {
  values: Settings;
  origins: Record<SettingName, Origin>;
}

export interface SettingDescription {
  name: SettingName;
  flag: string;
  environment: string;
  description: string;
  unit: string | undefined;
  secret: boolean;
  kind: 'text' | 'integer' | 'boolean' | 'list';
}

/** A setting that is unknown or wrong. The start stops with it. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

const ENVIRONMENT_PREFIX = 'MILLRACE_';
/** Of the test suite and of the program's own start, not of the service. */
const RESERVED_PREFIX = 'MILLRACE_TEST_';
const FILE_VARIABLE = 'MILLRACE_CONFIG';

export const settingDescriptions: readonly SettingDescription[] = Object.entries(Settings.shape).map(
  ([name, schema]) => {
    const { description = '', unit, secret } = schema.meta() ?? {};
    const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
    return {
      name: name as SettingName,
      flag: snake.toLowerCase().replaceAll('_', '-'),
      environment: ENVIRONMENT_PREFIX + snake,
      description,
      unit: unit as string | undefined,
      secret: secret === true,
      kind: kindOf(schema),
    };
  },
);

/** Defaults < file < environment < flags. `flags` are by setting name and already known to exist. */
export function resolveSettings(
  environment: NodeJS.ProcessEnv,
  flags: Partial<Record<SettingName, string>>,
  configFlag?: string,
): ResolvedSettings {
  const given: Record<string, { value: unknown; origin: Origin; shownAs: string }> = {};
  const file = configFlag ?? environment[FILE_VARIABLE];
  if (file) {
    for (const [name, value] of Object.entries(readFile(file))) {
      if (!(name in Settings.shape))
        throw unknownSetting(`${name} in ${file}`, name, Object.keys(Settings.shape));
      given[name] = { value, origin: 'file', shownAs: `${name} in ${file}` };
    }
  }
  checkEnvironmentNames(environment);
  for (const setting of settingDescriptions) {
    const variable = environment[setting.environment];
    if (variable !== undefined) {
      given[setting.name] = {
        value: fromText(variable, setting),
        origin: 'environment',
        shownAs: setting.environment,
      };
    }
    const flag = flags[setting.name];
    if (flag !== undefined) {
      given[setting.name] = { value: fromText(flag, setting), origin: 'flag', shownAs: `--${setting.flag}` };
    }
  }
  const parsed = Settings.safeParse(
    Object.fromEntries(Object.entries(given).map(([k, { value }]) => [k, value])),
  );
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => {
      const name = String(issue.path[0]);
      const description = settingDescriptions.find((setting) => setting.name === name)?.description ?? '';
      return `${given[name]?.shownAs ?? name}: ${issue.message} (${description})`;
    });
    throw new SettingsError(problems.join('\n'));
  }
  if (Boolean(parsed.data.bootstrapClientId) !== Boolean(parsed.data.bootstrapClientSecret)) {
    throw new SettingsError('bootstrapClientId and bootstrapClientSecret are given together or not at all');
  }
  if (parsed.data.role !== 'all' && parsed.data.database === '') {
    throw new SettingsError(
      `role: ${parsed.data.role} needs the setting database, a URL postgres://… that all nodes share; over the ` +
        'embedded database only the role all is possible',
    );
  }
  const origins = Object.fromEntries(
    settingDescriptions.map(({ name }) => [name, given[name]?.origin ?? 'default']),
  ) as Record<SettingName, Origin>;
  return { values: parsed.data, origins };
}

/** What may be shown of a setting's value. */
export function shownValue(setting: SettingDescription, value: Settings[SettingName]): string {
  if (setting.secret && value !== '')
    return setting.name === 'database' ? maskPassword(String(value)) : '***';
  return Array.isArray(value) ? value.join(',') : String(value);
}

function maskPassword(url: string): string {
  return URL.canParse(url) ? url.replace(/(?<=:\/\/[^:@/]*:)[^@/]*(?=@)/, '***').replace(/\?.*/, '') : '***';
}

function readFile(file: string): Record<string, unknown> {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new SettingsError(`the settings file ${file} cannot be read: ${(cause as Error).message}`, {
      cause,
    });
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new SettingsError(`the settings file ${file} must hold a JSON object of settings by name`);
  }
  return content as Record<string, unknown>;
}

function checkEnvironmentNames(environment: NodeJS.ProcessEnv): void {
  const known = settingDescriptions.map(({ environment: variable }) => variable);
  for (const variable of Object.keys(environment)) {
    const ours = variable.startsWith(ENVIRONMENT_PREFIX) && !variable.startsWith(RESERVED_PREFIX);
    if (ours && variable !== FILE_VARIABLE && !known.includes(variable)) {
      throw unknownSetting(`the environment variable ${variable}`, variable, known);
    }
  }
}

function unknownSetting(shownAs: string, name: string, known: readonly string[]): SettingsError {
  return new SettingsError(
    `${shownAs} is not a setting.${didYouMean(name, known)} "millrace settings" lists them all`,
  );
}

/** A value of the wrong form stays text, for the schema to say what it should be. */
function fromText(value: string, { kind }: SettingDescription): unknown {
  if (kind === 'integer' && /^-?\d+$/.test(value)) return Number(value);
  if (kind === 'boolean' && /^(?:true|false)$/.test(value)) return value === 'true';
  if (kind === 'list')
    return value
      .split(',')
      .map((item) => item.trim())
      .filter(Boolean);
  return value;
}

function kindOf(schema: z.ZodType): SettingDescription['kind'] {
  const { type } = z.toJSONSchema(schema, { io: 'input' });
  if (type === 'integer' || type === 'boolean') return type;
  return type === 'array' ? 'list' : 'text';
}
