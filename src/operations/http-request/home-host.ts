import type { HttpSource } from '../../model/source.ts';

/** Credentials belong to the host of the first request, and to those that the source allows besides. */
export class HomeHost {
  readonly #allowed: ReadonlySet<string>;
  readonly #onWithheld: (origin: string) => void;
  readonly #withheld = new Set<string>();
  #home: string | undefined;

  /** `onWithheld` is called once for each origin that gets no credentials. */
  constructor(
    source: Pick<HttpSource, 'baseUrl' | 'allowedHosts'> | null,
    onWithheld: (origin: string) => void,
  ) {
    this.#allowed = new Set(source?.allowedHosts?.map((host) => host.toLowerCase()));
    this.#home = source?.baseUrl && new URL(source.baseUrl).origin;
    this.#onWithheld = onWithheld;
  }

  trusts(url: URL): boolean {
    this.#home ??= url.origin;
    if (url.origin === this.#home) return true;
    // What was meant for TLS never goes in clear.
    const downgraded = this.#home.startsWith('https:') && url.protocol === 'http:';
    if (!downgraded && (this.#allowed.has(url.hostname) || this.#allowed.has(url.host))) return true;
    if (!this.#withheld.has(url.origin)) this.#onWithheld(url.origin);
    this.#withheld.add(url.origin);
    return false;
  }
}

export function withheldFrom(origin: string): string {
  return (
    `${origin} gets no credentials: they belong to the host of the source's baseUrl, or else of the first request; ` +
    'allowedHosts of the source can name others'
  );
}
