import { z } from 'zod';

/** Contract 2.1 and 8: the same in every response. */
export const ACCESS_TOKEN_SECONDS = 1800;

/** Contract 2.1. */
export const TokenResponse = z
  .strictObject({
    access_token: z.string().meta({ description: 'Bearer token for API calls.' }),
    refresh_token: z.string().meta({ description: 'Token used to obtain a new access token.' }),
    token_type: z.literal('Bearer'),
    expires_in: z
      .literal(ACCESS_TOKEN_SECONDS)
      .meta({ description: 'Lifetime of the access token in seconds.' }),
  })
  .meta({ id: 'TokenResponse' });
export type TokenResponse = z.infer<typeof TokenResponse>;

/** Contract 7: the error body of the token endpoint alone. */
export const TokenError = z
  .strictObject({ error: z.string(), error_description: z.string() })
  .meta({ id: 'TokenError' });

const clientFields = { client_id: z.string(), client_secret: z.string() };

/** Contract 4.1: the form fields by grant_type. Client credentials may also come by HTTP Basic. */
export const TokenRequest = z
  .discriminatedUnion('grant_type', [
    z.object({ grant_type: z.literal('client_credentials'), ...clientFields }),
    z.object({
      grant_type: z.literal('password'),
      ...clientFields,
      username: z.string(),
      password: z.string(),
    }),
    z.object({ grant_type: z.literal('refresh_token'), refresh_token: z.string() }),
  ])
  .meta({ id: 'TokenRequest' });

/** RFC 7009 and RFC 7662 take the same form. */
export const TokenReference = z
  .object({ token: z.string(), token_type_hint: z.string().optional(), ...clientFields })
  .meta({ id: 'TokenReference', description: 'Client credentials are needed, in the form or by HTTP Basic' });

/** RFC 7662, section 2.2. */
export const Introspection = z
  .strictObject({
    active: z.boolean(),
    client_id: z.string().optional(),
    username: z.string().optional(),
    token_type: z.enum(['Bearer', 'refresh_token']).optional(),
    exp: z.int().optional(),
    iat: z.int().optional(),
    sub: z.string().optional(),
  })
  .meta({ id: 'Introspection' });
export type Introspection = z.infer<typeof Introspection>;
