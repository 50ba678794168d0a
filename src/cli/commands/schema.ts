import { z } from 'zod';
import { ApplicationDocument } from '../../model/application-document.ts';
import type { Command } from '../command.ts';

/** For editors: they complete and check the files of `apply` by it. */
export const schema: Command = {
  name: 'schema',
  summary: 'Print the JSON Schema of the files of "millrace apply", for editors',
  options: {},
  async run(call) {
    call.print(JSON.stringify(applicationSchema(), null, 2));
  },
};

export function applicationSchema(): Record<string, unknown> {
  const { $schema, ...rest } = z.toJSONSchema(ApplicationDocument, {
    io: 'input',
    override: ({ jsonSchema }) => {
      // Notes for the service itself; strict validators refuse words that they do not know.
      for (const word of ['unit', 'secret', 'script']) delete (jsonSchema as Record<string, unknown>)[word];
    },
  });
  return { $schema, title: 'millrace application', ...rest };
}
