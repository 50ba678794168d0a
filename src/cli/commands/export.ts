import { stringify } from 'yaml';
import type { HttpSource } from '../../model/source.ts';
import type { ShownSource } from '../../system/sources.ts';
import { jsonOption, type Command } from '../command.ts';

const ALL = 100_000;

/** The counterpart of `apply`. A secret is never part of it: a reference to the environment stands in its place. */
export const exportApplication: Command = {
  name: 'export',
  summary: 'Print an application as YAML for "millrace apply"; secrets become references to the environment',
  positional: 'application',
  options: {
    application: { description: 'The appId', value: 'APP_ID', required: true },
    ...jsonOption,
  },
  async run(call) {
    const appId = call.option('application') as string;
    const document = await call.withRecords(async ({ applications, saved, variables }) => {
      const { name } = await applications.get(appId);
      const limit = { limit: ALL };
      return {
        application: appId,
        ...(name !== appId && { name }),
        sources: (await saved.sources.list(appId, limit)).map(withReferences),
        models: await saved.models.list(appId, limit),
        variables: await variables.all(appId),
        requests: await saved.requests.list(appId, limit),
      };
    });
    call.print(
      call.switchedOn('json') ? JSON.stringify(document) : stringify(document, { lineWidth: 0 }).trimEnd(),
    );
  },
};

function withReferences({ source, secrets }: ShownSource): HttpSource {
  const auth: Record<string, unknown> = { ...source.auth };
  for (const { path } of secrets) {
    const [, field = '', key] = path.split('.');
    const variable = [source.name, field, key].filter(Boolean).join('_');
    const reference = `\${${variable
      .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
      .replaceAll(/\W/g, '_')
      .toUpperCase()}}`;
    if (key === undefined) auth[field] = reference;
    else auth[field] = { ...(auth[field] as object | undefined), [key]: reference };
  }
  return { ...source, auth: auth as HttpSource['auth'] };
}
