import { Refusal, type Exchange } from './exchange.ts';

/** `parts` are the parts of the path that stand under `:name` in the pattern. */
export type Handler = (exchange: Exchange, ...parts: string[]) => void | Promise<void>;

/** Lets the request pass to the rest of the path (true), or has answered it (false). */
export type Guard = (exchange: Exchange) => boolean | Promise<boolean>;

interface Route {
  method: string;
  pattern: RegExp;
  handler: Handler;
}

export interface Routes {
  /** 'GET /orders/:id', or '* /echo' for every method. */
  [methodAndPath: string]: Handler;
}

export class Router {
  readonly #exact = new Map<string, Handler>();
  readonly #routes: Route[] = [];
  readonly #guards = new Map<string, Guard>();

  add(routes: Routes): this {
    for (const [methodAndPath, handler] of Object.entries(routes)) {
      const [method = '', path = ''] = methodAndPath.split(' ');
      if (!path.includes(':')) this.#exact.set(methodAndPath, handler);
      else {
        const pattern = new RegExp(`^${path.replace(/:\w+/g, '([^/]+)')}$`);
        this.#routes.push({ method, pattern, handler });
      }
    }
    return this;
  }

  /** Everything under /name/ passes this guard first; the rest of the path is then looked up as usual. */
  guard(name: string, guard: Guard): this {
    this.#guards.set(name, guard);
    return this;
  }

  async run(exchange: Exchange): Promise<void> {
    const { path, request } = exchange;
    const exact = this.#exact.get(`${request.method} ${path}`) ?? this.#exact.get(`* ${path}`);
    if (exact) return exact(exchange);
    for (const { method, pattern, handler } of this.#routes) {
      if (method !== '*' && method !== request.method) continue;
      const found = pattern.exec(path);
      if (found) return handler(exchange, ...found.slice(1).map(decodeURIComponent));
    }
    const [, first = '', rest = ''] = /^\/([^/]+)(\/.*)?$/s.exec(path) ?? [];
    const guard = this.#guards.get(first);
    if (!guard) throw this.#notFound(path);
    exchange.prefix += `/${first}`;
    exchange.path = rest;
    if (!(await guard(exchange))) return;
    if (rest === '') exchange.json(200, { ok: true });
    else await this.run(exchange);
  }

  #notFound(path: string): Refusal {
    const methods = [...this.#exact.keys()]
      .filter((key) => key.endsWith(` ${path}`))
      .map((key) => key.split(' ')[0]);
    if (methods.length === 0) return new Refusal(404, 'not_found', `there is nothing at ${path}`);
    const allow = methods.join(', ');
    return new Refusal(405, 'method_not_allowed', `${path} takes ${allow}`, { allow });
  }
}
