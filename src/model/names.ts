import { z } from 'zod';

/** Names of what belongs to an application: sources, models, saved requests, scenarios, variables. */
export const Name = z
  .string()
  .min(1, 'at least one character')
  .max(200, 'at most 200 characters')
  .regex(/^[^\p{C}/]+$/u, 'no control character and no slash')
  .regex(/^\S(?:.*\S)?$/su, 'no white space at its ends')
  .regex(/^(?!__proto__$)/, 'not "__proto__", which JavaScript keeps for itself');

/** Names inside a source: data, never pasted into SQL unquoted. */
export const SourceName = Name.meta({ description: 'The name of a source of the application' });
export const SpaceName = z
  .string()
  .min(1)
  .max(512)
  .meta({ description: 'The space (schema, folder) in the source' });
/** The space of a file source may be its root. */
export const FileSpaceName = z
  .string()
  .max(512)
  .meta({ description: 'The folder in the source; "" is the source itself' });
export const TableName = z
  .string()
  .min(1)
  .max(512)
  .meta({ description: 'The name of the table, or of the file' });
