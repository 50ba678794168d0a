import type { Auth, HttpSource, TableSource } from '../model/source.ts';

/** What decides where the secrets of a source go, or who sees them. */
type Placing = Pick<HttpSource, 'baseUrl' | 'allowedHosts' | 'proxy' | 'auth'>;

/**
 * Why the secrets in `auth` that were given for `before` must not serve `now`; null: they may. Whoever changes a source
 * could otherwise have somebody else's secret sent to a server of his own. Fewer places are no reason.
 */
export function whyNotForAuth(before: Placing, now: Placing): string | null {
  if (before.baseUrl !== undefined) {
    if (now.baseUrl === undefined) return 'baseUrl is gone, so that any host could get them';
    if (originOf(now.baseUrl) !== originOf(before.baseUrl)) return leadsTo('baseUrl', now.baseUrl);
  }
  const known = new Set(before.allowedHosts?.map((host) => host.toLowerCase()));
  const added = now.allowedHosts?.find((host) => !known.has(host.toLowerCase()));
  if (added !== undefined) return `allowedHosts now has ${JSON.stringify(added)}`;
  return whyNotInAuth(before.auth, now.auth) ?? whyNotForProxy(before, now);
}

/** The same for the password of the proxy. */
export function whyNotForProxy(before: Placing, now: Placing): string | null {
  if (now.proxy === undefined) return null;
  const isSame = before.proxy !== undefined && originOf(before.proxy) === originOf(now.proxy);
  return isSame ? null : leadsTo('proxy', now.proxy);
}

/** The same for the password of a database. */
export function whyNotForTables(
  before: Pick<TableSource, 'url'>,
  now: Pick<TableSource, 'url'>,
): string | null {
  const [old, next] = [new URL(before.url), new URL(now.url)];
  const isSame = old.host === next.host && old.username === next.username;
  return isSame ? null : `url now leads to ${next.username}@${next.host}`;
}

function whyNotInAuth(before: Auth, now: Auth): string | null {
  if (
    now.type === 'oauth2' &&
    before.type === 'oauth2' &&
    originOf(now.tokenUrl) !== originOf(before.tokenUrl)
  )
    return leadsTo('auth.tokenUrl', now.tokenUrl);
  // It sees them in the clear.
  if (now.type === 'customSignature' && before.type === 'customSignature' && now.script !== before.script)
    return 'auth.script is another one';
  return null;
}

function originOf(url: string): string {
  return new URL(url).origin;
}

function leadsTo(field: string, url: string): string {
  return `${field} now leads to ${originOf(url)}`;
}
