import { z } from 'zod';
import { didYouMean } from './did-you-mean.ts';
import { FileSpaceName, Name, SourceName, SpaceName, TableName } from './names.ts';
import { OnUnknown } from './outbox.ts';
import { Auth, INPUT_SOURCE, RateLimit, secretFields } from './source.ts';
import { InlineModel } from './table.ts';

const Script = (description: string) => z.string().min(1).meta({ description, script: true });
const ScriptObject = z.strictObject({ script: Script('Its result is the value') });

/** The contract's options are strings that hold seconds; numbers are taken, too. */
const Seconds = (description: string) =>
  z
    .union([z.string(), z.number()])
    .refine((value) => (typeof value === 'number' || /^\d+(?:\.\d+)?$/.test(value)) && Number(value) > 0, {
      error: 'must be a number of seconds greater than 0, such as "600"',
    })
    .transform(Number)
    .meta({ description, unit: 'seconds' });

/** Contract 2.3: the four methods; a setting can add others. */
export const contractMethods = ['GET', 'POST', 'DELETE', 'PATCH'] as const;

/** Contract 2.3: the six names, to the letter. */
export const bodyTypes = [
  'string',
  'JSON -> stringify()',
  'JSON -> form-data',
  'JSON -> x-www-form-urlencoded',
  'JSON -> octet-stream',
  'JSON -> transmitSourceTable()',
] as const;

const OCTET_STREAM_ADVICE =
  '"JSON -> octet-stream" is no longer supported. Use "JSON -> transmitSourceTable()"; when switching, add the ' +
  'header Content-Type with value application/octet-stream explicitly if needed';

const supportedBodyTypes = bodyTypes.filter((type) => type !== 'JSON -> octet-stream');

function unknownBodyType({ input }: { input?: unknown }): string {
  const near = typeof input === 'string' ? didYouMean(input, supportedBodyTypes) : '';
  return `is no body type.${near} Known: ${supportedBodyTypes.join(', ')}`;
}

export const BodyType = z
  .enum(bodyTypes, { error: unknownBodyType })
  .refine((type) => type !== 'JSON -> octet-stream', { error: OCTET_STREAM_ADVICE })
  .meta({ description: 'How the body is made; "JSON -> octet-stream" is no longer supported' });

export const SourceTable = z
  .strictObject({
    source: SourceName,
    space: SpaceName.optional().meta({ description: 'Default: the default space of the source' }),
    table: TableName.optional().meta({ description: 'Needed, unless the source is "input"' }),
    batching: z.boolean().default(false).meta({ description: 'Many records in one request' }),
    batchSize: z.int().min(1).max(100_000).default(1000).meta({ description: 'Records in one request' }),
  })
  .refine(({ source, table }) => (source === INPUT_SOURCE) === (table === undefined), {
    error: 'is needed; only the source "input", the data of a scenario, is a single table without a name',
    path: ['table'],
  })
  .meta({ description: 'One request is made for each of its records, or batches' });
export type SourceTable = z.infer<typeof SourceTable>;

export const Options = z
  .strictObject({
    connectTimeout: Seconds('Until the connection stands').prefault('600'),
    readTimeout: Seconds('The longest silence while waiting for the response').prefault('600'),
    writeTimeout: Seconds('The longest time without progress while sending').prefault('600'),
    totalTimeout: Seconds('For all tries of a request together').optional(),
    maxResponseBytes: z
      .int()
      .min(1)
      .max(256 * 1024 * 1024)
      .optional()
      .meta({
        description: 'The largest response of parse JSON after decompression; default 64 MiB',
        unit: 'bytes',
      }),
    retry: z
      .union([z.literal(false), z.strictObject({ tries: z.int().min(1).max(20) })])
      .default({ tries: 5 })
      .meta({ description: 'How often a request is tried in all; false: once' }),
    concurrency: z.int().min(1).max(256).default(1).meta({
      description:
        'How many source records, or batches, are worked on at once, each with an execution context of its own',
    }),
    rateLimit: RateLimit.optional().meta({ description: 'Of each job, beside that of the source' }),
    redirects: z.int().min(0).max(50).default(10).meta({ description: 'How many are followed' }),
    onHttpError: z.enum(['fail', 'script']).optional().meta({
      description: 'Whether a status other than 2xx fails the job, or is the Parsing script’s matter',
    }),
    idempotencyKey: z.boolean().default(false).meta({
      description:
        'The header Idempotency-Key on requests that change something: the same again when a request is sent again',
    }),
    onUnknown: OnUnknown.optional().meta({
      description:
        'What becomes of a source record of which it is not known whether it was taken, because no answer came: the ' +
        'job fails and says so, the record is sent again, or it is passed over. Default: fail; of PUT and DELETE, resend',
    }),
    onRejectedBatch: z
      .enum(['fail', 'bisect'])
      .default('fail')
      .meta({
        description:
          'With batching, when the system refuses a batch with 400, 409, 413 or 422: the job fails, or the records at ' +
          'fault are found and put into the reject table, and all others are sent',
      }),
    rejectTable: TableName.optional().meta({
      description: 'In the source "local"; default: the name of the source table with "_rejected" after it',
    }),
    onRepeat: z
      .enum(['fail', 'continue'])
      .default('fail')
      .meta({ description: 'What to do when paging goes in a circle' }),
  })
  .meta({ id: 'HTTPRequestOptions', description: 'Timeouts, retries, limits' });

export const HttpRequestPart = z.strictObject({
  source: SourceName.optional().meta({ description: 'An HTTPSource' }),
  auth: Auth.optional().meta({ description: 'Authentication given explicitly, instead of a source' }),
  url: z.union([z.string().min(1), ScriptObject]).meta({ description: 'May contain query parameters' }),
  method: z.string().min(1).meta({ description: 'GET, POST, DELETE or PATCH' }),
  parameters: Script('Returns an object of request parameter names and values').optional(),
  headers: Script('Returns an object of header names and values').optional(),
  bodyType: BodyType.optional(),
  body: z
    .union([z.string(), ScriptObject])
    .optional()
    .meta({ description: 'A text that matches the body type, or a script: its result is serialized' }),
  interceptors: Script('Returns an array of interceptor objects').optional(),
  options: Options.prefault({}).meta({ description: 'Timeouts, retries, limits' }),
});

export const Target = z.discriminatedUnion('action', [
  z.strictObject({
    action: z.literal('save to file'),
    source: SourceName.optional().meta({ description: 'A FileSource; default "files"' }),
    space: FileSpaceName.optional().meta({ description: 'A folder in it; default: the source itself' }),
    table: TableName.meta({ description: 'The name of the file' }),
  }),
  z.strictObject({
    action: z.literal('parse JSON'),
    source: SourceName.optional().meta({ description: 'A TableSource; default "local"' }),
    space: SpaceName.optional().meta({ description: 'Default: the default space of the source' }),
    table: TableName.optional().meta({ description: 'For table-data objects that name none' }),
    model: z
      .union([Name, InlineModel])
      .optional()
      .meta({ description: 'The name of a model, or its columns' }),
    parsingScript: Script('Maps the response onto tables').optional(),
    mapping: Script('For the format "objects"').optional(),
  }),
]);

/** Decisions section 3: `opParams` of the operation HTTPRequest. */
export const HttpRequest = z
  .strictObject({
    sourceTable: SourceTable.optional(),
    request: HttpRequestPart.refine(({ source, auth }) => source === undefined || auth === undefined, {
      error: 'source and auth exclude each other',
      path: ['auth'],
    }).meta({ description: 'What is sent' }),
    target: Target.optional().meta({
      description: 'What becomes of the response; none: only its status counts',
    }),
  })
  .refine(
    ({ sourceTable, request: { options } }) =>
      options.onRejectedBatch !== 'bisect' || sourceTable?.batching === true,
    {
      error: '"bisect" needs sourceTable.batching: only a batch can be sent in parts',
      path: ['request', 'options', 'onRejectedBatch'],
    },
  )
  .meta({ id: 'HTTPRequest' });
export type HttpRequest = z.infer<typeof HttpRequest>;

/** A request under a name of its own. Its secrets belong into an HTTPSource, where they are encrypted. */
export const SavedRequest = HttpRequest.safeExtend({ name: Name })
  .refine(({ request: { auth } }) => !auth || secretFields[auth.type].every((field) => !(field in auth)), {
    error:
      'secrets are not kept in a saved request: put them into an HTTPSource, and name that as request.source',
    path: ['request', 'auth'],
  })
  .meta({ id: 'SavedRequest' });
export type SavedRequest = z.infer<typeof SavedRequest>;
