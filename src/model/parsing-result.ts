import { z } from 'zod';
import { Json } from './json.ts';
import { Name, SourceName, SpaceName, TableName } from './names.ts';
import { InlineModel } from './table.ts';

const DAY_MS = 86_400_000;

/** Contract 2.5: a table-data object, without its `data`, which crosses on its own. */
export const TableData = z
  .strictObject({
    format: z
      .enum(['objects', 'table', 'JSON'])
      .default('table')
      .meta({ description: 'With "objects" the mapping is applied first' }),
    sourceName: SourceName.optional().meta({ description: 'Default: the source of the target' }),
    spaceName: SpaceName.optional().meta({
      description: 'Default: the space of the target, or with sourceName the default space of that source',
    }),
    tableName: TableName.optional().meta({ description: 'Default: the table of the target' }),
    tableNameSuffix: z
      .string()
      .min(1)
      .optional()
      .meta({ description: 'Appended to the table of the target, instead of tableName' }),
    modelName: Name.optional().meta({
      description: 'A model of the application; default: that of the target',
    }),
    model: InlineModel.optional().meta({ description: 'A model of its own, instead of modelName' }),
    mode: z.enum(['createThenAppend', 'append', 'merge']).default('append').meta({
      description:
        'Make the table anew in the first round, add to it, or update the records with the same keys',
    }),
    keys: z.array(z.string().min(1)).min(1).optional().meta({ description: 'Of the mode merge' }),
    tmpTable: z
      .union([z.boolean(), z.enum(['true', 'false'])])
      .default(false)
      .transform((value) => value === true || value === 'true')
      .meta({ description: 'A temporary table, which is gone when the job ends' }),
  })
  .refine(({ tableName, tableNameSuffix }) => tableName === undefined || tableNameSuffix === undefined, {
    error: 'tableName and tableNameSuffix exclude each other',
    path: ['tableNameSuffix'],
  })
  .refine(({ mode, keys }) => (mode === 'merge') === (keys !== undefined), {
    error: 'keys belong to the mode merge, and merge needs them',
    path: ['keys'],
  });
export type TableData = z.infer<typeof TableData>;

export const scopes = ['executionContext', 'application'] as const;

const Variable = z.union([z.string(), z.strictObject({ value: Json, scope: z.enum(scopes) })], {
  error: 'must be a string, or an object with value and scope ("executionContext" or "application")',
});

export const DoWhile = z.union([z.boolean(), z.strictObject({ url: z.string().min(1).optional() })], {
  error: 'must be true, false, or an object that may have a url',
});

/** Contract 2.5: what the Parsing script returns; all of it is optional. */
export const ParsingResult = z.strictObject({
  data: z
    .array(TableData)
    .default([])
    .meta({ description: 'Maps the response onto one or several tables: table-data objects' }),
  variables: z.record(Name, Variable).default({}).meta({
    description:
      'A string sets an application variable, an object a variable of its scope, to any JSON value',
  }),
  doWhile: DoWhile.default(false).meta({
    description: 'Whether the request is made again; an object may give the url of the next one',
  }),
  doWhileDelay: z
    .int()
    .min(0)
    .max(DAY_MS)
    .default(0)
    .meta({ description: 'How long to wait after the round', unit: 'milliseconds' }),
});
export type ParsingResult = z.infer<typeof ParsingResult>;
