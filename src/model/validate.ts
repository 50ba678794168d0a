import { z } from 'zod';
import { didYouMean } from './did-you-mean.ts';
import { ServiceError } from './errors.ts';

/** So many faults are told at once; whoever has more will call again anyway. */
const FAULTS_SHOWN = 5;

/** Parses a value that came from outside; what is wrong with it is told with the path of the field. */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  refuseLostNames(value);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const all = parsed.error.issues.flatMap((issue) => faultsOf(issue, schema, value));
  // A mistyped name is often why another one is missing.
  const faults = [...all.filter(({ isUnknown }) => isUnknown), ...all.filter(({ isUnknown }) => !isUnknown)];
  const shown = faults
    .slice(0, FAULTS_SHOWN)
    .map(({ path, message }) => (path ? `${path}: ${message}` : message));
  throw new ServiceError('invalid_request', shown.join('; '), { path: faults[0]?.path ?? '' });
}

interface Part {
  value: unknown;
  key: PropertyKey;
  within: Part | null;
}

/** JavaScript keeps this name for itself: without a word a schema, or a copy, leaves such a property out. */
function refuseLostNames(value: unknown): void {
  const open: Part[] = [{ value, key: '', within: null }];
  for (let part = open.pop(); part; part = open.pop()) {
    const { value: at } = part;
    if (typeof at !== 'object' || at === null) continue;
    if (Object.hasOwn(at, '__proto__')) {
      const path = pathText([...keysOf(part), '__proto__']);
      throw new ServiceError('invalid_request', `${path}: nothing can have this name`, { path });
    }
    for (const [key, inner] of Object.entries(at)) {
      if (typeof inner !== 'object' || inner === null) continue;
      open.push({ value: inner, key: Array.isArray(at) ? Number(key) : key, within: part });
    }
  }
}

function keysOf({ key, within }: Part): PropertyKey[] {
  return within ? [...keysOf(within), key] : [];
}

interface Fault {
  path: string;
  message: string;
  isUnknown: boolean;
}

function faultsOf(issue: z.core.$ZodIssue, schema: z.ZodType, value: unknown): Fault[] {
  // A union whose own schema says nothing of what it expects.
  if (issue.code === 'invalid_union' && issue.message === 'Invalid input')
    return faultsOfUnion(issue, schema, value);
  const path = pathText(issue.path);
  if (issue.code !== 'unrecognized_keys') return [{ path, message: issue.message, isUnknown: false }];
  const known = knownKeys(schema, issue.path, value);
  return issue.keys.map((key) => ({
    path: pathText([...issue.path, key]),
    message: `is not known here.${didYouMean(key, known)} Known: ${known.join(', ')}`,
    isUnknown: true,
  }));
}

/** What is wrong inside the one branch that the value was meant for; else what the branches expect. */
function faultsOfUnion(
  { path, errors }: z.core.$ZodIssueInvalidUnion,
  schema: z.ZodType,
  value: unknown,
): Fault[] {
  const [meant, ...others] = errors.filter((branch) => branch.every((issue) => expectedOf(issue) === null));
  if (meant && others.length === 0) {
    return meant.flatMap((issue) => faultsOf({ ...issue, path: [...path, ...issue.path] }, schema, value));
  }
  const expected = errors.flatMap((branch) => branch.map(expectedOf).filter((name) => name !== null));
  const message = `Invalid input: expected ${[...new Set(expected)].join(' or ')}`;
  return [{ path: pathText(path), message, isUnknown: false }];
}

/** The kind of value that a branch of a union is for; null: the fault is deeper, or of another sort. */
function expectedOf(issue: z.core.$ZodIssue): string | null {
  if (issue.path.length > 0) return null;
  if (issue.code === 'invalid_type') return issue.expected;
  return issue.code === 'invalid_value' ? issue.values.map(String).join(' or ') : null;
}

function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '');
}

interface JsonSchema {
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  const?: unknown;
}

function knownKeys(schema: z.ZodType, path: readonly PropertyKey[], value: unknown): string[] {
  const root = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
  let branches = branchesOf(root, root, value);
  let at = value;
  for (const part of path) {
    at = (at as Record<PropertyKey, unknown>)[part];
    branches = branches.flatMap(({ items, properties }) =>
      branchesOf(typeof part === 'number' ? items : properties?.[String(part)], root, at),
    );
  }
  return [...new Set(branches.flatMap(({ properties = {} }) => Object.keys(properties)))];
}

/** The schema itself, or those of its alternatives whose constants (`action`, `type`) the value has. */
function branchesOf(schema: JsonSchema | undefined, root: JsonSchema, value: unknown): JsonSchema[] {
  if (!schema) return [];
  if (schema.$ref) return branchesOf(root.$defs?.[schema.$ref.replace('#/$defs/', '')], root, value);
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives) return alternatives.flatMap((alternative) => branchesOf(alternative, root, value));
  const isMeant = Object.entries(schema.properties ?? {}).every(
    ([name, property]) => property.const === undefined || property.const === Object(value)[name],
  );
  return isMeant ? [schema] : [];
}
