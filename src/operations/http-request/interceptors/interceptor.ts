import { didYouMean } from '../../../model/did-you-mean.ts';
import { unknownProperty, type RequestBody } from '../body.ts';
import type { HeaderList } from '../header-list.ts';
import { isRecord, kindOf } from '../url.ts';

/** A request as it will be sent; `url` is one of `url.ts`. */
export interface PreparedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: HeaderList;
  readonly body: RequestBody;
}

/** `path` is the field at fault, such as `interceptors[0].params.region`. */
export class InterceptorError extends Error {
  override readonly name = 'InterceptorError';
  readonly kind: 'unknown_interceptor' | 'invalid_params' | 'request_not_ready';
  readonly path: string;

  constructor(kind: InterceptorError['kind'], path: string, message: string) {
    super(`${path}: ${message}`);
    this.kind = kind;
    this.path = path;
  }
}

/** One change of a request; it gives a new request and leaves the old one as it is. */
export type InterceptorStep = (request: PreparedRequest) => PreparedRequest | Promise<PreparedRequest>;

/** Contract 2.3: a kind of change that the Interceptors script can ask for by one of its names. */
export interface Interceptor {
  readonly names: readonly string[];
  /** Checks the params; `path` says where the interceptor object stands. */
  prepare(params: Readonly<Record<string, unknown>>, path: string): InterceptorStep;
}

export class InterceptorRegistry {
  readonly #interceptors: ReadonlyMap<string, Interceptor>;

  constructor(interceptors: readonly Interceptor[]) {
    this.#interceptors = new Map(
      interceptors.flatMap((interceptor) => interceptor.names.map((name) => [name, interceptor] as const)),
    );
  }

  /**
   * Runs what the Interceptors script returned, in its order. All of it is checked before the first one runs. `path` is the
   * name of the result in errors.
   */
  async run(
    request: PreparedRequest,
    scriptResult: unknown,
    path = 'interceptors',
  ): Promise<PreparedRequest> {
    let changed = request;
    for (const step of this.prepare(scriptResult, path)) changed = await step(changed);
    return changed;
  }

  prepare(scriptResult: unknown, path = 'interceptors'): InterceptorStep[] {
    if (scriptResult === null || scriptResult === undefined) return [];
    if (!Array.isArray(scriptResult)) {
      throw invalid(path, `must be an array of {name, params}, not ${kindOf(scriptResult)}`);
    }
    return scriptResult.map((item: unknown, index) => this.#step(item, `${path}[${index}]`));
  }

  #step(item: unknown, path: string): InterceptorStep {
    if (!isRecord(item)) throw invalid(path, `must be an object {name, params}, not ${kindOf(item)}`);
    refuseUnknown(item, ['name', 'params'], path);
    const { name, params = {} } = item;
    if (typeof name !== 'string') throw invalid(`${path}.name`, `must be a string, not ${kindOf(name)}`);
    const interceptor = this.#interceptors.get(name);
    if (!interceptor) {
      const known = [...this.#interceptors.keys()];
      throw new InterceptorError(
        'unknown_interceptor',
        `${path}.name`,
        `there is no interceptor "${name}".${didYouMean(name, known)} Known: ${known.join(', ')}`,
      );
    }
    if (!isRecord(params)) throw invalid(`${path}.params`, `must be an object, not ${kindOf(params)}`);
    return interceptor.prepare(params, path);
  }
}

/** An error that names the first property which is not among the known ones. */
export function refuseUnknown(
  object: Readonly<Record<string, unknown>>,
  known: readonly string[],
  path: string,
): void {
  const unknown = unknownProperty(object, known);
  if (unknown) throw invalid(`${path}.${unknown.name}`, unknown.message);
}

function invalid(path: string, message: string): InterceptorError {
  return new InterceptorError('invalid_params', path, message);
}
