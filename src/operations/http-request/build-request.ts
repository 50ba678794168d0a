import type { HttpRequest } from '../../model/http-request.ts';
import { ServiceError } from '../../model/errors.ts';
import type { Authorizer } from './authorization.ts';
import { buildBody, type BodyContent, type TransmitSource } from './body.ts';
import { HeaderList } from './header-list.ts';
import { hashOf } from './loop-guard.ts';
import type { InterceptorRegistry, PreparedRequest } from './interceptors/interceptor.ts';
import type { RequestScripts, ScriptContext } from './request-scripts.ts';
import { requestUrl, withParameters } from './url.ts';

export interface BuiltRequest {
  request: PreparedRequest;
  /** Parameters of the URL in whose place the script's came. */
  overriddenParameters: string[];
}

export interface BuildParts {
  scripts: RequestScripts;
  interceptors: InterceptorRegistry;
  authorizer: Authorizer;
  transmit: TransmitSource;
  /** Whether the source trusts the host: a `doWhile.url` may lead anywhere. */
  mayHaveCredentials: (url: string) => boolean;
}

/** What the header Idempotency-Key is made of, beside the body; null: there is none. */
export type IdempotencyOf = readonly string[] | null;

const IDEMPOTENCY_KEY = 'Idempotency-Key';

/** The URL that the loop of a record begins with. */
export async function configuredUrl(
  { url }: HttpRequest['request'],
  baseUrl: string | undefined,
  scripts: RequestScripts,
  context: ScriptContext,
): Promise<string> {
  const value = typeof url === 'string' ? url : await scripts.value('request.url', url.script, context);
  if (typeof value !== 'string') {
    throw new ServiceError('invalid_configuration', 'request.url: the script must return a string', {
      path: 'request.url',
    });
  }
  return requestUrl(value, baseUrl);
}

/**
 * One request, in the contract's order of precedence: URL parameters < Parameters script < interceptors, and source
 * authorization < Headers script < interceptors.
 */
export async function buildRequest(
  config: HttpRequest['request'],
  url: string,
  context: ScriptContext,
  { scripts, interceptors, authorizer, transmit, mayHaveCredentials }: BuildParts,
  idempotencyOf: IdempotencyOf,
): Promise<BuiltRequest> {
  const parameters =
    config.parameters && (await scripts.value('request.parameters', config.parameters, context));
  const withScript = withParameters(url, objectOrNothing(parameters), 'request.parameters');

  const written = new HeaderList();
  const headerValues = config.headers && (await scripts.value('request.headers', config.headers, context));
  written.setFromObject(objectOrNothing(headerValues), 'script', 'request.headers');

  const content = await bodyContent(config, scripts, context);
  const { body, headers } = await buildBody(config.bodyType, content, written, transmit);
  if (idempotencyOf && !headers.has(IDEMPOTENCY_KEY)) {
    headers.set(IDEMPOTENCY_KEY, hashOf(...idempotencyOf, plainBody(body)), 'option');
  }
  const plain = { method: config.method, url: withScript.url, headers, body };
  const authorized = mayHaveCredentials(plain.url) ? await authorizer.apply(plain) : plain;
  if (!config.interceptors) return { request: authorized, overriddenParameters: withScript.overridden };
  const wanted = await scripts.value('request.interceptors', config.interceptors, context, authorized);
  return {
    request: await interceptors.run(authorized, wanted ?? [], 'request.interceptors'),
    overriddenParameters: withScript.overridden,
  };
}

/** A body that is streamed is not known before it is sent. */
function plainBody(body: PreparedRequest['body']): string | Uint8Array {
  return typeof body === 'string' || body instanceof Uint8Array ? body : '';
}

async function bodyContent(
  { body }: HttpRequest['request'],
  scripts: RequestScripts,
  context: ScriptContext,
): Promise<BodyContent | undefined> {
  if (body === undefined) return undefined;
  if (typeof body === 'string') return { text: body };
  return { value: await scripts.value('request.body', body.script, context) };
}

/** A script that returns nothing adds nothing. */
function objectOrNothing(value: unknown): unknown {
  return value ?? {};
}
