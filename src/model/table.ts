import { z } from 'zod';
import { Name } from './names.ts';

export const columnTypes = [
  'string',
  'integer',
  'bigint',
  'decimal',
  'double',
  'boolean',
  'date',
  'timestamp',
  'json',
  'binary',
] as const;
export const ColumnType = z
  .enum(columnTypes)
  .meta({ id: 'ColumnType', description: 'What a column of a table holds' });

/** Contract 2.5: a model as a parsing result or a target gives it inline. */
export const InlineModel = z
  .strictObject({
    columns: z
      .array(
        z.strictObject({
          name: z.string().min(1).meta({ description: 'Of the column, and of the property of the records' }),
          type: ColumnType,
          position: z.int().meta({ description: 'The columns are in the order of their positions' }),
        }),
      )
      .min(1),
  })
  .refine(({ columns }) => new Set(columns.map(({ name }) => name)).size === columns.length, {
    error: 'the names of the columns must differ',
    path: ['columns'],
  })
  .meta({ id: 'InlineModel' });
export type InlineModel = z.infer<typeof InlineModel>;

export const Model = z
  .strictObject({ name: Name, ...InlineModel.shape })
  .meta({ id: 'Model', description: 'The columns of a kind of records' });
export type Model = z.infer<typeof Model>;

export interface Column {
  name: string;
  type: z.infer<typeof ColumnType>;
}

export function columnsOf({ columns }: InlineModel): Column[] {
  return columns.toSorted((a, b) => a.position - b.position).map(({ name, type }) => ({ name, type }));
}
