import { z } from 'zod';

/** The part of JSON Schema that Zod writes. */
export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  /** The name of a part that has one. */
  title?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  default?: unknown;
  description?: string;
  unit?: string;
  script?: boolean;
}

/** Parts that have a section of their own. */
const LINKS: Record<string, string> = {
  Auth: '[auth](#auth)',
  HTTPRequestOptions: '[options](#requestoptions)',
  RateLimit: '[rateLimit](#ratelimit)',
  InlineModel: '[model](#model)',
  Model: '[model](#model)',
  HTTPSource: '[HTTPSource](#httpsource)',
  SavedRequest: '[HTTPRequest](#httprequest)',
  Scenario: '[scenario](#scenario)',
};

/** What a caller may give; parts with a name of their own are put in. */
export function schemaOf(type: z.ZodType): Schema {
  const root = z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' }) as Schema;
  return expand(root, root.$defs ?? {}, []);
}

function expand(schema: Schema, defs: Record<string, Schema>, inside: readonly string[]): Schema {
  const name = schema.$ref?.replace('#/$defs/', '');
  if (name !== undefined) {
    // Any JSON value is the only type that holds itself.
    if (name.startsWith('__schema') || inside.includes(name)) return { ...schema, type: 'any JSON value' };
    const { $ref: _, ...own } = schema;
    return { ...expand(defs[name] ?? {}, defs, [...inside, name]), ...own, title: name };
  }
  const list = (schemas: Schema[]) => schemas.map((each) => expand(each, defs, inside));
  const { anyOf, oneOf, items, properties, additionalProperties } = schema;
  return {
    ...schema,
    ...(anyOf && { anyOf: list(anyOf) }),
    ...(oneOf && { oneOf: list(oneOf) }),
    ...(items && { items: expand(items, defs, inside) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([key, value]) => [key, expand(value, defs, inside)]),
      ),
    }),
    ...(typeof additionalProperties === 'object' && {
      additionalProperties: expand(additionalProperties, defs, inside),
    }),
  };
}

/** A row for each property; of a property that is an object itself only its names, for it has a table of its own. */
export function propertyTable(schema: Schema, leaveOut: readonly string[] = []): string {
  const rows = Object.entries(schema.properties ?? {})
    .filter(([name]) => !leaveOut.includes(name))
    .map(([name, property]) => {
      const { description, unit } = property;
      if (description === undefined) throw new Error(`the property "${name}" has no description`);
      const isRequired = schema.required?.includes(name) ?? false;
      const meaning = unit === undefined ? description : `${description} (${unit})`;
      return [`\`${name}\``, typeText(property), isRequired ? 'required' : defaultText(property), meaning];
    });
  return markdownTable(['property', 'type', 'default', 'meaning'], rows);
}

export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function defaultText({ default: value }: Schema): string {
  if (value === undefined || (typeof value === 'object' && Object.keys(value ?? {}).length === 0)) return '';
  return `\`${JSON.stringify(value)}\``;
}

function typeText(schema: Schema): string {
  const link = schema.title && LINKS[schema.title];
  if (link) return link;
  if (schema.script) return 'script';
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(', ');
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives) return [...new Set(alternatives.map(typeText))].join(' or ');
  if (schema.items) return `array of ${plural(typeText(schema.items))}`;
  if (schema.properties) return `object {${Object.keys(schema.properties).join(', ')}}`;
  if (typeof schema.additionalProperties === 'object')
    return `object: name to ${typeText(schema.additionalProperties)}`;
  return `${[schema.type ?? 'any JSON value'].flat().join(' or ')}${rangeText(schema)}`;
}

function plural(type: string): string {
  return /^(?:string|integer|number|object)$/.test(type) ? `${type}s` : type.replace(/^object /, 'objects ');
}

function rangeText({ minimum, maximum, exclusiveMinimum }: Schema): string {
  const most = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER ? maximum : undefined;
  const least = minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER ? minimum : undefined;
  if (exclusiveMinimum !== undefined) return ` over ${exclusiveMinimum}`;
  if (least !== undefined && most !== undefined) return `, ${least} to ${most}`;
  return least === undefined ? '' : ` from ${least} on`;
}
