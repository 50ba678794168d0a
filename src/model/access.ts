import { z } from 'zod';

/** What a caller may do; each role includes the ones before it. */
const roles = ['viewer', 'operator', 'editor', 'administrator'] as const;
export const Role = z.enum(roles).meta({
  id: 'Role',
  description: 'viewer reads, operator runs, editor builds, administrator gives access',
});
export type Role = z.infer<typeof Role>;

export function roleIncludes(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed);
}

const grantTypes = ['client_credentials', 'password', 'refresh_token'] as const;
export const GrantType = z
  .enum(grantTypes)
  .meta({ id: 'GrantType', description: 'A way to obtain a token (contract 4.1)' });
export type GrantType = z.infer<typeof GrantType>;

/** Who calls the API: what a valid access token stands for. */
export interface Principal {
  clientId: string;
  /** Set when the token came from the password grant. */
  username: string | null;
  role: Role;
  /** The applications that the client is restricted to; null: no restriction. */
  applications: readonly string[] | null;
}

export const ApplicationId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'letters, digits, ".", "_" and "-", at most 100')
  .meta({ id: 'ApplicationId', description: 'Names an application', examples: ['orders'] });

const Timestamp = z.iso.datetime().meta({ description: 'UTC, ISO 8601' });

// ---- clients

const Grants = z.array(GrantType).min(1).meta({ description: 'The grants that the client may use' });
const ClientName = z.string().trim().min(1).max(200).meta({ description: 'For people; need not be unique' });
const Applications = z
  .array(ApplicationId)
  .max(1000)
  .nullable()
  .meta({ description: 'The applications that the client is restricted to; null: all of them' });

export const NewClient = z
  .strictObject({
    name: ClientName,
    role: Role.default('editor').meta({
      description:
        'What the client may do by itself; with a user (password grant) the role of the user counts',
    }),
    grants: Grants.default([...grantTypes]),
    applications: Applications.default(null),
  })
  .meta({ id: 'NewClient' });
export type NewClient = z.infer<typeof NewClient>;

export const ClientChange = z
  .strictObject({ name: ClientName, role: Role, grants: Grants, applications: Applications })
  .partial()
  .meta({ id: 'ClientChange' });
export type ClientChange = z.infer<typeof ClientChange>;

const ClientSecret = z
  .strictObject({
    id: z.string(),
    fingerprint: z.string().meta({ description: 'The last four characters, to tell secrets apart' }),
    createdAt: Timestamp,
    lastUsedAt: Timestamp.nullable().meta({ description: 'Exact to a minute' }),
  })
  .meta({ id: 'ClientSecret' });

export const Client = z
  .strictObject({
    client_id: z.string(),
    name: z.string(),
    role: Role,
    grants: z.array(GrantType),
    applications: z.array(z.string()).nullable(),
    secrets: z
      .array(ClientSecret)
      .meta({ description: 'At most two live ones, so that they can be rotated' }),
    createdAt: Timestamp,
  })
  .meta({ id: 'Client' });
export type Client = z.infer<typeof Client>;

export const IssuedClient = Client.extend({
  client_secret: z.string().meta({ description: 'Shown this once; only a hash of it is kept' }),
}).meta({ id: 'IssuedClient' });
export type IssuedClient = z.infer<typeof IssuedClient>;

// ---- users

const Username = z
  .string()
  .regex(
    /^[^\s\p{C}](?:[^\p{C}]{0,98}[^\s\p{C}])?$/u,
    'at most 100 characters, none of them a control character',
  )
  .meta({ id: 'Username', description: 'Compared exactly, upper and lower case apart' });
export const Password = z
  .string()
  .min(8, 'at least 8 characters')
  .max(1024, 'at most 1024 characters')
  .meta({ id: 'Password', description: '8 to 1024 characters; write-only' });

export const NewUser = z
  .strictObject({ username: Username, password: Password, role: Role })
  .meta({ id: 'NewUser' });
export type NewUser = z.infer<typeof NewUser>;

export const UserChange = z
  .strictObject({ role: Role, disabled: z.boolean() })
  .partial()
  .meta({ id: 'UserChange' });
export type UserChange = z.infer<typeof UserChange>;

export const User = z
  .strictObject({
    username: z.string(),
    role: Role,
    disabled: z.boolean(),
    createdAt: Timestamp,
  })
  .meta({ id: 'User' });
export type User = z.infer<typeof User>;

// ---- applications

export const NewApplication = z
  .strictObject({
    appId: ApplicationId,
    name: z.string().trim().min(1).max(200).optional().meta({ description: 'For people; default the appId' }),
  })
  .meta({ id: 'NewApplication' });
export type NewApplication = z.infer<typeof NewApplication>;

export const Application = z
  .strictObject({ appId: z.string(), name: z.string(), createdAt: Timestamp })
  .meta({ id: 'Application' });
export type Application = z.infer<typeof Application>;
