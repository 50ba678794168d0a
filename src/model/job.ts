import { z } from 'zod';

/** Contract 4.2: the body of `POST /api/v1/executeJob`. What `opParams` holds is the operation's own matter. */
export const ExecuteJob = z
  .strictObject({
    appId: z.string().min(1).meta({ description: 'The application that the job belongs to' }),
    isAsync: z.boolean().default(false).meta({ description: 'true: answer at once, with the id of the job' }),
    responseFormat: z
      .enum(['text', 'json'])
      .default('text')
      .meta({ description: 'text: the output as a string; json: as a JSON value' }),
    operation: z
      .strictObject({
        opName: z
          .string()
          .min(1)
          .meta({ description: 'The name of the operation', examples: ['RunScenario'] }),
        opParams: z
          .record(z.string(), z.unknown())
          .default({})
          .meta({ description: 'The parameters of the operation' }),
      })
      .meta({ description: 'What is to be run' }),
  })
  .meta({ id: 'ExecuteJob' });
export type ExecuteJob = z.infer<typeof ExecuteJob>;
