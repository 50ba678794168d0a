import { ServiceError } from '../model/errors.ts';

/** A value that is nothing but a reference; `${…}` inside a script or a URL is theirs. */
const REFERENCE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/;
/** One `$` more in front makes it the text itself. */
const ESCAPED = /^\$(\$+\{[A-Za-z_][A-Za-z0-9_]*\})$/;
const TO_ESCAPE = /^\$+\{[A-Za-z_][A-Za-z0-9_]*\}$/;

/** What `${NAME}` in files stands for: what was given apart for this, else the environment. */
export class References {
  readonly #given: Readonly<Record<string, string>>;
  readonly #environment: NodeJS.ProcessEnv;

  constructor(environment: NodeJS.ProcessEnv, given: Readonly<Record<string, string>> = {}) {
    this.#environment = environment;
    this.#given = given;
  }

  /** The value with all references in it resolved. */
  resolve(value: unknown): unknown {
    return mapTexts(value, '', (text, path) => {
      const name = REFERENCE.exec(text)?.[1];
      return name === undefined ? text.replace(ESCAPED, '$1') : this.#find(name, path);
    });
  }

  #find(name: string, path: string): string {
    const found = Object.hasOwn(this.#given, name) ? this.#given[name] : this.#environment[name];
    if (found !== undefined) return found;
    throw new ServiceError('invalid_request', `${path}: the environment variable ${name} is not set`, {
      path,
    });
  }
}

export function isReference(text: string): boolean {
  return REFERENCE.test(text);
}

/** The counterpart of `resolve`: texts that look like a reference stay what they are. */
export function escapeReferences(value: unknown): unknown {
  return mapTexts(value, '', (text) => (TO_ESCAPE.test(text) ? `$${text}` : text));
}

function mapTexts(value: unknown, path: string, map: (text: string, path: string) => string): unknown {
  if (typeof value === 'string') return map(value, path);
  if (Array.isArray(value)) return value.map((item, index) => mapTexts(item, `${path}[${index}]`, map));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => {
    return [key, mapTexts(item, path === '' ? key : `${path}.${key}`, map)];
  });
  return Object.fromEntries(entries);
}

/** Names for references that are not taken yet: letters, digits and `_`, whatever the names they are made from. */
export class ReferenceNames {
  readonly #taken = new Set<string>();

  reference(...parts: readonly string[]): string {
    const name = parts
      .join('_')
      .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
      .replaceAll(/[^A-Za-z0-9_]/g, '_')
      .toUpperCase()
      .replace(/^(?=\d)/, '_');
    let free = name;
    for (let n = 2; this.#taken.has(free); n += 1) free = `${name}_${n}`;
    this.#taken.add(free);
    return `\${${free}}`;
  }
}
