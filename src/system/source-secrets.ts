import { proxyUser, type HttpSource, type Source, type TableSource } from '../model/source.ts';
import { joinSecrets, missingFields, splitSecrets, type AuthSecrets } from './auth-secrets.ts';
import { whyNotForAuth, whyNotForProxy, whyNotForTables } from './secret-places.ts';

/** What is secret in a source of one type, by field. */
export interface SourceSecrets<Kind extends Source> {
  split(source: Kind): { open: Kind; secrets: AuthSecrets };
  join(open: Kind, secrets: AuthSecrets): Kind;
  /** The path of a secret that it cannot do without, and that is not there. */
  missing(source: Kind): string | undefined;
  /** Whether the field still means what it did. */
  isKept(field: string, before: Kind, now: Kind): boolean;
  /** Why a secret that was given for `before` must not serve `now`; null: it may. */
  whyNot(field: string, before: Kind, now: Kind): string | null;
  pathOf(field: string): string;
}

const PROXY_PASSWORD = 'proxyPassword';

const ofHttp: SourceSecrets<HttpSource> = {
  split({ [PROXY_PASSWORD]: proxyPassword, ...shown }) {
    const { open, secrets } = splitSecrets(shown.auth);
    return {
      open: { ...shown, auth: open },
      secrets: { ...secrets, ...(proxyPassword !== undefined && { [PROXY_PASSWORD]: proxyPassword }) },
    };
  },
  join(open, { [PROXY_PASSWORD]: proxyPassword, ...secrets }) {
    return {
      ...open,
      auth: joinSecrets(open.auth, secrets),
      ...(typeof proxyPassword === 'string' && { proxyPassword }),
    };
  },
  missing({ auth }) {
    const [field] = missingFields(auth);
    return field && `auth.${field}`;
  },
  isKept: (field, before, now) =>
    field === PROXY_PASSWORD ? proxyUser(now.proxy) !== '' : now.auth.type === before.auth.type,
  whyNot: (field, before, now) =>
    field === PROXY_PASSWORD ? whyNotForProxy(before, now) : whyNotForAuth(before, now),
  pathOf: (field) => (field === PROXY_PASSWORD ? field : `auth.${field}`),
};

const ofTables: SourceSecrets<TableSource> = {
  split: ({ password, ...open }) => ({ open, secrets: password === undefined ? {} : { password } }),
  join: (open, { password }) => ({ ...open, ...(typeof password === 'string' && { password }) }),
  missing: () => undefined,
  isKept: () => true,
  whyNot: (_field, before, now) => whyNotForTables(before, now),
  pathOf: (field) => field,
};

/** The kind of a source decides which of the two it is. */
export function secretsOf<Kind extends Source>({ type }: Kind): SourceSecrets<Kind> {
  return (type === 'TableSource' ? ofTables : ofHttp) as unknown as SourceSecrets<Kind>;
}
