import type { Auth } from '../../../model/source.ts';
import { parameterName } from '../../../http/redaction.ts';
import { HeaderError } from '../header-list.ts';
import {
  InterceptorError,
  type InterceptorRegistry,
  type PreparedRequest,
} from '../interceptors/interceptor.ts';
import { requestTarget, UrlError } from '../url.ts';
import { AuthorizationError, inactive, type Authorizer } from './authorizer.ts';

/** Runs a script that sees the request; `extraVariables` are in its `$ctx.variables` beside the others. */
export type RunScript = (
  property: string,
  text: string,
  request: PreparedRequest,
  extraVariables: Record<string, unknown>,
) => Promise<unknown>;

const SCRIPT = 'auth.script';

/** The script returns interceptors. What they set counts as credentials: it is a signature, or belongs to one. */
export function customSignature(
  { script, secrets = {} }: Extract<Auth, { type: 'customSignature' }>,
  interceptors: InterceptorRegistry,
  runScript: RunScript,
): Authorizer {
  let credentials: Authorizer['credentials'] = { headers: ['authorization'], parameters: [] };
  return {
    ...inactive,
    async sign(request) {
      if (request.headers.has('Authorization')) return request;
      const wanted = await runScript(SCRIPT, script, request, { ...secrets });
      const signed = await changed(request, wanted, interceptors);
      credentials = {
        headers: union(credentials.headers, newHeaders(request, signed)),
        parameters: union(credentials.parameters, newParameters(request, signed)),
      };
      return signed;
    },
    get credentials() {
      return credentials;
    },
    secrets: Object.values(secrets),
  };
}

async function changed(
  request: PreparedRequest,
  wanted: unknown,
  interceptors: InterceptorRegistry,
): Promise<PreparedRequest> {
  try {
    return await interceptors.run(request, wanted);
  } catch (error) {
    const isOurs =
      error instanceof InterceptorError || error instanceof HeaderError || error instanceof UrlError;
    if (!isOurs) throw error;
    // Without this the message would name the Interceptors script of the request.
    throw new AuthorizationError('signature', SCRIPT, `what it returned: ${error.message}`, { cause: error });
  }
}

/** A signed request has them too, but they tell nothing, and another origin needs some of them. */
const NO_CREDENTIALS = /^(?:host|date|user-agent|accept(?:-.*)?|content-type)$/i;

function newHeaders(before: PreparedRequest, after: PreparedRequest): string[] {
  return [...after.headers]
    .filter(({ name, value }) => !NO_CREDENTIALS.test(name) && !before.headers.getAll(name).includes(value))
    .map(({ name }) => name.toLowerCase());
}

function newParameters(before: PreparedRequest, after: PreparedRequest): string[] {
  const old = new Set(pairsOf(before.url));
  return pairsOf(after.url)
    .filter((pair) => !old.has(pair))
    .map(parameterName);
}

function pairsOf(url: string): string[] {
  const { path } = requestTarget(url);
  const question = path.indexOf('?');
  return question < 0
    ? []
    : path
        .slice(question + 1)
        .split('&')
        .filter(Boolean);
}

/** The same array when there is nothing new. */
function union(known: readonly string[], others: readonly string[]): readonly string[] {
  const missing = new Set(others.filter((name) => !known.includes(name)));
  return missing.size === 0 ? known : [...known, ...missing];
}
