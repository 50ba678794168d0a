import { z } from 'zod';
import { didYouMean } from './did-you-mean.ts';
import { ServiceError } from './errors.ts';

/** So many faults are told at once; whoever has more will call again anyway. */
const FAULTS_SHOWN = 5;

/** Parses a value that came from outside; what is wrong with it is told with the path of the field. */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.flatMap((issue) => faultsOf(issue, schema));
  const shown = faults
    .slice(0, FAULTS_SHOWN)
    .map(({ path, message }) => (path ? `${path}: ${message}` : message));
  throw new ServiceError('invalid_request', shown.join('; '), { path: faults[0]?.path ?? '' });
}

interface Fault {
  path: string;
  message: string;
}

function faultsOf(issue: z.core.$ZodIssue, schema: z.ZodType): Fault[] {
  const path = pathText(issue.path);
  if (issue.code !== 'unrecognized_keys') return [{ path, message: issue.message }];
  const known = knownKeys(schema, issue.path);
  return issue.keys.map((key) => ({
    path: pathText([...issue.path, key]),
    message: `is not known here.${didYouMean(key, known)} Known: ${known.join(', ')}`,
  }));
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
}

function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const root = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
  const resolve = (at: JsonSchema = {}) =>
    at.$ref ? (root.$defs?.[at.$ref.replace('#/$defs/', '')] ?? {}) : at;
  const end = path.reduce<JsonSchema>((at, part) => {
    return resolve(typeof part === 'number' ? at.items : at.properties?.[String(part)]);
  }, resolve(root));
  return Object.keys(end.properties ?? {});
}
