import { z } from 'zod';
import { ApplicationId } from './access.ts';
import { SavedRequest } from './http-request.ts';
import { Json } from './json.ts';
import { Name } from './names.ts';
import { Scenario } from './scenario.ts';
import { Schedule } from './schedule.ts';
import { Source } from './source.ts';
import { Model } from './table.ts';

const differentNames = (items: readonly { name: string }[]) =>
  new Set(items.map(({ name }) => name)).size === items.length;
const once = { error: 'two of them have the same name' };

/** An application as a file describes it. What a file does not mention stays as it is. */
export const ApplicationDocument = z
  .strictObject({
    application: ApplicationId.meta({ description: 'The appId' }),
    name: z.string().trim().min(1).max(200).optional().meta({ description: 'For people' }),
    sources: z
      .array(Source)
      .refine(differentNames, once)
      .default([])
      .meta({ description: 'Secrets are references to the environment: ${NAME}' }),
    models: z
      .array(Model)
      .refine(differentNames, once)
      .default([])
      .meta({ description: 'The columns of records, by a name' }),
    variables: z
      .record(Name, Json)
      .default({})
      .meta({ description: 'Application variables: name to any JSON value' }),
    requests: z
      .array(SavedRequest)
      .refine(differentNames, once)
      .default([])
      .meta({ description: 'HTTPRequests, each with a name' }),
    scenarios: z
      .array(Scenario)
      .refine(differentNames, once)
      .default([])
      .meta({ description: 'Steps that are run one after the other' }),
    schedules: z
      .array(Schedule)
      .refine(differentNames, once)
      .default([])
      .meta({ description: 'What is run at which times' }),
  })
  .meta({ id: 'ApplicationDocument', description: 'A file for "millrace apply"' });
export type ApplicationDocument = z.infer<typeof ApplicationDocument>;
