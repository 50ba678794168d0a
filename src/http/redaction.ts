import { unescape } from 'node:querystring';

/** What must not be shown: header and parameter names whose values are secret, and secret values wherever they are. */
export interface SecretNames {
  headers: readonly string[];
  parameters: readonly string[];
  values: readonly string[];
}

export const REDACTED = '***';

/** Secret whatever the source says. */
const ALWAYS_SECRET = [
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'x-amz-security-token',
];

/** Blots secrets out of what is logged or stored. */
export class Redactor {
  readonly #headers: ReadonlySet<string>;
  readonly #parameters: ReadonlySet<string>;
  readonly #values: RegExp | null;

  constructor(secrets: SecretNames) {
    this.#headers = new Set([...ALWAYS_SECRET, ...secrets.headers.map((name) => name.toLowerCase())]);
    this.#parameters = new Set(secrets.parameters);
    const forms = [...new Set(secrets.values.filter((value) => value !== '').flatMap(writtenForms))];
    forms.sort((a, b) => b.length - a.length);
    this.#values = forms.length === 0 ? null : new RegExp(forms.map(escaped).join('|'), 'g');
  }

  text(text: string): string {
    return this.#values ? text.replaceAll(this.#values, REDACTED) : text;
  }

  headers(headers: readonly (readonly [string, string])[]): [string, string][] {
    return headers.map(([name, value]) => [
      name,
      this.#headers.has(name.toLowerCase()) ? REDACTED : this.text(value),
    ]);
  }

  /** The same for the headers of an answer. */
  headerRecord(headers: Readonly<Record<string, string | string[]>>): Record<string, string | string[]> {
    return Object.fromEntries(
      Object.entries(headers).map(([name, value]) => {
        if (this.#headers.has(name.toLowerCase())) return [name, REDACTED];
        return [name, Array.isArray(value) ? value.map((one) => this.text(one)) : this.text(value)];
      }),
    );
  }

  /** Works on the text, so that a URL that cannot be parsed is redacted as well. */
  url(url: string): string {
    const [, beforeQuery = '', query, fragment = ''] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(url) ?? [];
    const shown = beforeQuery.replace(/^([a-z][a-z0-9+.-]*:)?([/\\]{2})[^/\\]*@/i, `$1$2${REDACTED}@`);
    return this.text(shown + (query === undefined ? '' : `?${this.#query(query.slice(1))}`) + fragment);
  }

  #query(query: string): string {
    return query
      .split('&')
      .map((pair) => {
        const equals = pair.indexOf('=');
        const name = equals === -1 ? pair : pair.slice(0, equals);
        return this.#parameters.has(parameterName(pair)) ? `${name}=${REDACTED}` : pair;
      })
      .join('&');
  }
}

/** The name of a parameter of a query, decoded as servers do. */
export function parameterName(pair: string): string {
  const equals = pair.indexOf('=');
  return unescape((equals < 0 ? pair : pair.slice(0, equals)).replaceAll('+', ' '));
}

/** A secret as it is, and as URLs, forms, JSON (within JSON, too) and Basic authorization write it. */
function writtenForms(secret: string): string[] {
  const value = secret.toWellFormed();
  return [
    secret,
    encodeURIComponent(value),
    new URLSearchParams({ '': value }).toString().slice(1),
    jsonEscaped(value),
    jsonEscaped(jsonEscaped(value)),
    jsonEscaped(jsonEscaped(jsonEscaped(value))),
    Buffer.from(value).toString('base64'),
  ];
}

function jsonEscaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
