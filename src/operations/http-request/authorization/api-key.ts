import type { Auth } from '../../../model/source.ts';
import type { PreparedRequest } from '../interceptors/interceptor.ts';
import { withParameters } from '../url.ts';
import {
  AuthorizationError,
  checkHeader,
  headerAuthorizer,
  inactive,
  needed,
  type Authorizer,
} from './authorizer.ts';

/** RFC 6265: the name is a token; a semicolon would begin another cookie. */
const COOKIE_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export function apiKey(auth: Extract<Auth, { type: 'apiKey' }>): Authorizer {
  const { name } = auth;
  const value = needed(auth.value, 'auth.value', auth.type);
  switch (auth.in) {
    case 'header':
      return headerAuthorizer(name, value, [value]);
    case 'query':
      return {
        ...inactive,
        apply: async (request) => withParameter(request, name, value),
        credentials: { headers: [], parameters: [name] },
        secrets: [value],
      };
    case 'cookie':
      checkCookie(name, value);
      return {
        ...inactive,
        apply: async (request) => withCookie(request, name, value),
        credentials: { headers: ['Cookie'], parameters: [] },
        secrets: [value],
      };
    default:
      return auth.in satisfies never;
  }
}

function withParameter(request: PreparedRequest, name: string, value: string): PreparedRequest {
  const { url, overridden } = withParameters(request.url, { [name]: value }, 'auth');
  return overridden.length > 0 ? request : { ...request, url };
}

function checkCookie(name: string, value: string): void {
  if (!COOKIE_NAME.test(name)) {
    throw new AuthorizationError('invalid_auth', 'auth.name', `${JSON.stringify(name)} is no cookie name`);
  }
  checkHeader('Cookie', `${name}=${value}`);
  if (value.includes(';')) {
    throw new AuthorizationError(
      'invalid_auth',
      'auth.value',
      'holds a semicolon, which no cookie can carry',
    );
  }
}

/** RFC 6265 allows one Cookie header only, so all cookies go into one. */
function withCookie(request: PreparedRequest, name: string, value: string): PreparedRequest {
  const cookies = request.headers
    .getAll('Cookie')
    .flatMap((header) => header.split(/;\s*/))
    .filter(Boolean);
  if (cookies.some((cookie) => cookie.split('=', 1)[0]?.trim() === name)) return request;
  const headers = request.headers.clone();
  const setBy = headers.setBy('Cookie') ?? 'source';
  headers.set('Cookie', [...cookies, `${name}=${value}`].join('; '), setBy);
  return { ...request, headers };
}
