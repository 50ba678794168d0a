import { z } from 'zod';
import { Name, SpaceName } from './names.ts';

/** Write-only: encrypted at rest, never shown again. Left out where a source is written anew, the old one stays. */
const Secret = (description: string) =>
  z
    .string()
    .min(1)
    .optional()
    .meta({ description: `${description} (write-only)`, secret: true });
/** A URL is shown: what is secret has a field of its own. */
const holdsNoPassword = (url: string) => !URL.canParse(url) || new URL(url).password === '';
const holdsNoUser = (url: string) =>
  holdsNoPassword(url) && (!URL.canParse(url) || new URL(url).username === '');
/** Others of the drivers name files and hosts, and passwords. */
const hasKnownParameters = (url: string) =>
  !URL.canParse(url) || [...new URL(url).searchParams.keys()].every((name) => name === 'sslmode');
const WebUrl = z.url({ protocol: /^https?$/ });
const Script = (description: string) => z.string().min(1).meta({ description });

/** Every `auth.type` that an HTTPSource may have. */
export const Auth = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('none') }),
    z.strictObject({
      type: z.literal('basic'),
      username: z.string().meta({ description: 'The name of the user' }),
      password: Secret('The password'),
    }),
    z.strictObject({
      type: z.literal('apiKey'),
      name: z.string().min(1).meta({ description: 'Of the header, parameter or cookie' }),
      in: z.enum(['header', 'query', 'cookie']).meta({ description: 'Where the key is sent' }),
      value: Secret('The key'),
    }),
    z.strictObject({ type: z.literal('bearer'), token: Secret('The token') }),
    z.strictObject({
      type: z.literal('oauth2'),
      grant: z
        .enum(['client_credentials', 'password', 'refresh_token'])
        .meta({ description: 'How tokens are obtained' }),
      tokenUrl: WebUrl.refine(holdsNoUser, {
        error: 'must have no user and no password; clientAuth says how client id and secret are sent',
      }).meta({ description: 'The token endpoint' }),
      clientId: z.string().min(1).meta({ description: 'Of the client' }),
      clientSecret: Secret('The secret of the client'),
      clientAuth: z
        .enum(['body', 'basic'])
        .default('body')
        .meta({ description: 'How client id and secret are sent' }),
      scope: z.string().optional().meta({ description: 'Sent as it is' }),
      audience: z.string().optional().meta({ description: 'Sent as it is' }),
      username: z.string().optional().meta({ description: 'Of the password grant' }),
      password: Secret('Of the password grant'),
      refreshToken: Secret('Of the refresh_token grant; one that the system rotates is kept'),
    }),
    z.strictObject({
      type: z.literal('sigV4'),
      region: z.string().min(1).meta({ description: 'Such as eu-central-1' }),
      serviceName: z.string().min(1).meta({ description: 'Such as s3 or execute-api' }),
      accessKeyId: z.string().min(1).meta({ description: 'Names the key' }),
      accessKey: Secret('The secret key'),
    }),
    z.strictObject({
      type: z.literal('customSignature'),
      script: Script('In the form of the Interceptors script; sees the secrets in $ctx.variables'),
      secrets: z
        .record(Name, z.string().min(1))
        .optional()
        .meta({ description: 'Seen by this script alone (write-only)', secret: true }),
    }),
  ])
  .meta({ id: 'Auth' });
export type Auth = z.infer<typeof Auth>;

export const RateLimit = z
  .strictObject({
    requests: z.int().min(1).meta({ description: 'So many requests at most' }),
    perSeconds: z.number().positive().default(1).meta({ description: 'In so many seconds' }),
  })
  .meta({ id: 'RateLimit', description: 'At most so many requests in so many seconds' });

export const HttpSource = z
  .strictObject({
    name: Name.meta({ description: 'By which requests name it' }),
    type: z.literal('HTTPSource').meta({ description: 'For requests' }),
    baseUrl: WebUrl.refine(holdsNoUser, {
      error: 'must have no user and no password; auth of the type "basic" sends them',
    })
      .optional()
      .meta({ description: 'A relative URL of a request begins here' }),
    allowedHosts: z
      .array(z.string().min(1))
      .optional()
      .meta({ description: 'Hosts beside that of the URL to which the credentials may go along' }),
    properties: z
      .record(Name, z.string())
      .default({})
      .meta({ description: 'Seen by scripts in $ctx.variables' }),
    auth: Auth.default({ type: 'none' }).meta({ description: 'How requests are authenticated' }),
    rateLimit: RateLimit.optional().meta({ description: 'Of all jobs together, on all nodes' }),
    tls: z
      .strictObject({
        ca: z
          .string()
          .optional()
          .meta({ description: 'Certificates in PEM that are trusted besides the usual ones' }),
        rejectUnauthorized: z
          .boolean()
          .default(true)
          .meta({ description: 'false: the certificate of the system is not checked' }),
      })
      .optional()
      .meta({ description: 'How the system is trusted' }),
    proxy: z
      .url({ protocol: /^http$/ })
      .refine(holdsNoPassword, { error: 'must have no password; proxyPassword takes it' })
      .optional()
      .meta({ description: 'An HTTP proxy, with its user where it asks for one: http://user@proxy:3128' }),
    proxyPassword: Secret('The password of the user that the URL of the proxy names'),
  })
  .refine(({ proxy, proxyPassword }) => proxyPassword === undefined || proxyUser(proxy) !== '', {
    error: 'belongs to the user of a proxy, such as http://user@proxy:3128',
    path: ['proxyPassword'],
  })
  .meta({ id: 'HTTPSource', description: 'Credentials and authentication of an external HTTP system' });
export type HttpSource = z.infer<typeof HttpSource>;

/** Empty: there is no proxy, or it asks for no user. */
export function proxyUser(proxy: string | undefined): string {
  return proxy !== undefined && URL.canParse(proxy) ? new URL(proxy).username : '';
}

export const TableSource = z
  .strictObject({
    name: Name.meta({ description: 'By which tables name it' }),
    type: z.literal('TableSource').meta({ description: 'For tables' }),
    url: z
      .url({
        protocol: /^(?:postgres|postgresql|mariadb|mysql)$/,
        error:
          'must be the URL of a database, such as postgres://user@host:5432/database or mariadb://user@host/database',
      })
      .refine(holdsNoPassword, { error: 'must have no password; the field password takes it' })
      .refine(hasKnownParameters, { error: 'may have the parameter sslmode and no other' })
      .meta({ description: 'PostgreSQL (postgres://…), MariaDB or MySQL (mariadb://…)' }),
    password: Secret('The password of the user that the URL names'),
    defaultSpace: SpaceName.min(1)
      .optional()
      .meta({ description: 'Default: public in PostgreSQL, the database of the URL in MariaDB' }),
  })
  .meta({ id: 'TableSource', description: 'A database with tables of its own' });
export type TableSource = z.infer<typeof TableSource>;

export function isPostgres({ url }: Pick<TableSource, 'url'>): boolean {
  return url.startsWith('postgres');
}

/** Where a table is looked for when no space is given. */
export function defaultSpaceOf({ url, defaultSpace }: TableSource): string {
  if (defaultSpace !== undefined) return defaultSpace;
  return isPostgres({ url }) ? 'public' : decodeURIComponent(new URL(url).pathname.slice(1));
}

/** What can be defined beside the built-in sources. */
export const Source = z
  .discriminatedUnion('type', [HttpSource, TableSource])
  .meta({ id: 'Source', description: 'An external HTTP system, or a database with tables' });
export type Source = z.infer<typeof Source>;

/** As a source table: the records that a scenario was given. */
export const INPUT_SOURCE = 'input';

/** The sources that each application has from its beginning; their names are taken. */
export const builtInSources = {
  local: { type: 'TableSource', defaultSpace: 'main' },
  files: { type: 'FileSource', defaultSpace: '' },
} as const;

/** The paths of the secrets that an auth type needs, and whether it can do without. */
export const secretFields: Record<Auth['type'], readonly string[]> = {
  none: [],
  basic: ['password'],
  apiKey: ['value'],
  bearer: ['token'],
  oauth2: ['clientSecret', 'password', 'refreshToken'],
  sigV4: ['accessKey'],
  customSignature: ['secrets'],
};

const SECRET_FIELDS = Object.values(secretFields).flat();

/** Whether the parameters of an operation hold secrets: authentication given explicitly in a request may. */
export function holdsSecrets(opParams: Record<string, unknown> | undefined): boolean {
  const { auth } = Object(opParams?.['request']) as { auth?: unknown };
  return SECRET_FIELDS.some((field) => field in (Object(auth) as object));
}
