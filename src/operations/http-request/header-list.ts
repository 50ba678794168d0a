import { isRecord, kindOf } from './url.ts';

/** A header that cannot be sent. `path` is the field at fault, such as `headers.Accept`. */
export class HeaderError extends Error {
  override readonly name = 'HeaderError';
  readonly kind = 'invalid_header';
  readonly path: string;

  constructor(path: string, message: string) {
    super(`${path}: ${message}`);
    this.path = path;
  }
}

/** Who set a header. */
export type HeaderOrigin = 'source' | 'script' | 'body type' | 'option' | 'interceptor';

export interface Header {
  readonly name: string;
  readonly value: string;
  readonly setBy: HeaderOrigin;
}

export interface OverriddenHeader {
  readonly name: string;
  /** Who had set it before. */
  readonly setBy: HeaderOrigin;
}

/** Headers in the order of sending. Names are compared without case; a repeated header has several entries. */
export class HeaderList {
  #headers: Header[] = [];

  [Symbol.iterator](): IterableIterator<Header> {
    return this.#headers.values();
  }

  /** The value; several are joined by `, ` as RFC 9110 has it. */
  get(name: string): string | undefined {
    const values = this.getAll(name);
    return values.length > 0 ? values.join(', ') : undefined;
  }

  getAll(name: string): string[] {
    return this.#headers.filter(isNamed(name)).map(({ value }) => value);
  }

  has(name: string): boolean {
    return this.#headers.some(isNamed(name));
  }

  /** Who set the header; undefined when it is not there. */
  setBy(name: string): HeaderOrigin | undefined {
    return this.#headers.find(isNamed(name))?.setBy;
  }

  /** Takes the place of all headers of that name; several values repeat the header, none removes it. */
  set(name: string, value: string | readonly string[], setBy: HeaderOrigin, path = 'headers'): void {
    if (!TOKEN.test(name)) throw new HeaderError(path, `${JSON.stringify(name)} is no header name`);
    const values = typeof value === 'string' ? [value] : value;
    for (const text of values) checkValue(text, `${path}.${name}`);
    const others = this.#headers.filter((header) => !isNamed(name)(header));
    const first = this.#headers.findIndex(isNamed(name));
    others.splice(
      first < 0 ? others.length : first,
      0,
      ...values.map((text) => ({ name, value: text, setBy })),
    );
    this.#headers = others;
  }

  /**
   * Sets the headers of an object that a script returned. Values are strings, numbers, booleans; an array
   * repeats the header (an empty one removes it); null and undefined leave it out. Gives what was overridden.
   */
  setFromObject(headers: unknown, setBy: HeaderOrigin, path = 'headers'): OverriddenHeader[] {
    if (headers === null || headers === undefined) return [];
    if (!isRecord(headers)) {
      throw new HeaderError(path, `must be an object of header names and values, not ${kindOf(headers)}`);
    }
    const seen = new Map<string, string>();
    const overridden: OverriddenHeader[] = [];
    for (const [name, value] of Object.entries(headers)) {
      if (value === null || value === undefined) continue;
      const twin = seen.get(name.toLowerCase());
      if (twin !== undefined) {
        throw new HeaderError(
          `${path}.${name}`,
          `is the same header as "${twin}"; an array of values repeats a header`,
        );
      }
      seen.set(name.toLowerCase(), name);
      const before = this.setBy(name);
      this.set(name, headerTexts(value, `${path}.${name}`), setBy, path);
      if (before !== undefined) overridden.push({ name, setBy: before });
    }
    return overridden;
  }

  delete(name: string): void {
    this.#headers = this.#headers.filter((header) => header.name.toLowerCase() !== name.toLowerCase());
  }

  clone(): HeaderList {
    const copy = new HeaderList();
    copy.#headers = [...this.#headers];
    return copy;
  }

  /** `[name, value, name, value, …]`, as `node:http` and undici take them. */
  toFlatArray(): string[] {
    return this.#headers.flatMap(({ name, value }) => [name, value]);
  }
}

/** RFC 9110, section 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function isNamed(name: string): (header: Header) => boolean {
  const lowerCase = name.toLowerCase();
  return (header) => header.name.toLowerCase() === lowerCase;
}

function checkValue(value: string, path: string): void {
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0008\u000a-\u001f\u007f]/.test(value)) {
    throw new HeaderError(path, 'holds a line break, NUL or another control character');
  }
  if (/[\u0100-\uffff]/.test(value)) {
    throw new HeaderError(
      path,
      'holds a character beyond U+00FF, which HTTP cannot carry; encode it, as with encodeURIComponent',
    );
  }
}

function headerTexts(value: unknown, path: string): string[] {
  if (Array.isArray(value)) return value.map((item: unknown, index) => headerText(item, `${path}[${index}]`));
  return [headerText(value, path)];
}

function headerText(value: unknown, path: string): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)))
    return String(value);
  throw new HeaderError(
    path,
    `must be a string, a finite number, a boolean or an array of these, not ${kindOf(value)}`,
  );
}
