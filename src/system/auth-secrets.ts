import { secretFields, type Auth } from '../model/source.ts';

/** The secrets of an Auth by field; `secrets` of a custom signature is an object. */
export type AuthSecrets = Record<string, unknown>;

/** Takes the secrets out: the rest may be stored and shown. */
export function splitSecrets(auth: Auth): { open: Auth; secrets: AuthSecrets } {
  const open: Record<string, unknown> = { ...auth };
  const secrets: AuthSecrets = {};
  for (const field of secretFields[auth.type]) {
    if (open[field] !== undefined) secrets[field] = open[field];
    delete open[field];
  }
  return { open: open as Auth, secrets };
}

export function joinSecrets(open: Auth, secrets: AuthSecrets): Auth {
  return Object.assign({}, open, secrets);
}

/** The secrets that this kind of authentication cannot do without, and that are not there. */
export function missingFields(auth: Auth): string[] {
  const needed: Record<Auth['type'], string[]> = {
    none: [],
    basic: ['password'],
    apiKey: ['value'],
    bearer: ['token'],
    oauth2: auth.type === 'oauth2' ? oauthFields[auth.grant] : [],
    sigV4: ['accessKey'],
    customSignature: [],
  };
  return needed[auth.type].filter((field) => (auth as Record<string, unknown>)[field] === undefined);
}

const oauthFields = {
  client_credentials: ['clientSecret'],
  password: ['username', 'password'],
  refresh_token: ['refreshToken'],
};

/** What tells secrets apart and gives none away: the last four characters of a long one. */
export function fingerprint(secret: string): string {
  return secret.length >= 12 ? `…${secret.slice(-4)}` : '…';
}
