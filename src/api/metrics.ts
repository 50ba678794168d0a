import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';
import type { GrantType } from '../model/access.ts';

/** What Prometheus reads; a registry for each service, so that several can live in one process. */
export class Metrics {
  readonly registry = new Registry();

  readonly #requests = new Histogram({
    name: 'millrace_http_request_seconds',
    help: 'Time of the answers, by route and status',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 600],
    registers: [this.registry],
  });
  readonly #tokens = new Counter({
    name: 'millrace_tokens_issued_total',
    help: 'Token pairs issued, by grant',
    labelNames: ['grant'],
    registers: [this.registry],
  });
  readonly #tokenErrors = new Counter({
    name: 'millrace_token_errors_total',
    help: 'Answers of the token endpoint that were no token, by error',
    labelNames: ['error'],
    registers: [this.registry],
  });

  constructor() {
    collectDefaultMetrics({ register: this.registry, prefix: 'millrace_' });
  }

  answered(labels: { method: string; route: string; status: number }, seconds: number): void {
    this.#requests.observe({ ...labels, status: String(labels.status) }, seconds);
  }

  tokenIssued(grant: GrantType): void {
    this.#tokens.inc({ grant });
  }

  tokenRefused(error: string): void {
    this.#tokenErrors.inc({ error });
  }
}
