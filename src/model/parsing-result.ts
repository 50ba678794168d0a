import { z } from 'zod';
import { Json } from './json.ts';
import { Name, SourceName, SpaceName, TableName } from './names.ts';
import { InlineModel } from './table.ts';

const DAY_MS = 86_400_000;

/** Contract 2.5: a table-data object, without its `data`, which crosses on its own. */
export const TableData = z
  .strictObject({
    format: z.enum(['objects', 'table', 'JSON']).default('table'),
    sourceName: SourceName.optional(),
    spaceName: SpaceName.optional(),
    tableName: TableName.optional(),
    tableNameSuffix: z.string().min(1).optional(),
    modelName: Name.optional(),
    model: InlineModel.optional(),
    mode: z.enum(['createThenAppend', 'append', 'merge']).default('append'),
    keys: z.array(z.string().min(1)).min(1).optional().meta({ description: 'Of the mode merge' }),
    tmpTable: z
      .union([z.boolean(), z.enum(['true', 'false'])])
      .default(false)
      .transform((value) => value === true || value === 'true'),
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
  data: z.array(TableData).default([]),
  variables: z.record(z.string().min(1), Variable).default({}),
  doWhile: DoWhile.default(false),
  doWhileDelay: z.int().min(0).max(DAY_MS).default(0).meta({ unit: 'milliseconds' }),
});
export type ParsingResult = z.infer<typeof ParsingResult>;
