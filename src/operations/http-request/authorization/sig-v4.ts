import type { Auth } from '../../../model/source.ts';
import type { HeaderList } from '../header-list.ts';
import type { PreparedRequest } from '../interceptors/interceptor.ts';
import { hashOf, signWithCloudSigV4 } from '../interceptors/sign-with-cloud-sig-v4.ts';
import { inactive, needed, type Authorizer } from './authorizer.ts';

/** What the interceptor expects to be there is added where it is missing; then the interceptor signs. */
export function sigV4(auth: Extract<Auth, { type: 'sigV4' }>, now: () => number): Authorizer {
  const { region, serviceName, accessKeyId } = auth;
  const accessKey = needed(auth.accessKey, 'auth.accessKey', auth.type);
  const step = signWithCloudSigV4.prepare({ region, serviceName, accessKeyId, accessKey }, 'auth');
  return {
    ...inactive,
    async sign(request) {
      if (request.headers.has('Authorization')) return request;
      return step(await withSignedHeaders(request, serviceName, now()));
    },
    credentials: { headers: ['Authorization', 'X-Amz-Security-Token'], parameters: [] },
    secrets: [accessKey],
  };
}

async function withSignedHeaders(
  request: PreparedRequest,
  serviceName: string,
  now: number,
): Promise<PreparedRequest> {
  const headers = request.headers.clone();
  if (!headers.has('Host')) headers.set('Host', new URL(request.url).host, 'source');
  if (!hasDate(headers)) headers.set('X-Amz-Date', basicFormat(now), 'source');
  // Amazon's object stores refuse requests without it.
  if (/^s3(?:$|express$|-)/.test(serviceName) && !headers.has('X-Amz-Content-Sha256')) {
    headers.set('X-Amz-Content-Sha256', await hashOf(request.body), 'source');
  }
  return { ...request, headers };
}

/** The date of any cloud counts, but not some other header that happens to be called x-…-date. */
function hasDate(headers: HeaderList): boolean {
  return [...headers].some(({ name, value }) => {
    if (/^x-(?:amz|goog)-date$/i.test(name)) return true;
    return /^x-[a-z0-9]+-date$/i.test(name) && /^\d{8}T\d{6}Z$/.test(value);
  });
}

/** `20260131T235959Z` */
function basicFormat(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}
