import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { Options, type SavedRequest } from '../../model/http-request.ts';
import type { Scenario } from '../../model/scenario.ts';
import { Schedule } from '../../model/schedule.ts';
import type { HttpSource } from '../../model/source.ts';
import type { System } from '../../system/system.ts';
import type { ShownSource } from '../../system/sources.ts';
import { jsonOption, type Command } from '../command.ts';
import { escapeReferences, ReferenceNames } from '../references.ts';

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
    const document = await call.withRecords((system) => documentOf(appId, system));
    call.print(
      call.switchedOn('json') ? JSON.stringify(document) : stringify(document, { lineWidth: 0 }).trimEnd(),
    );
  },
};

async function documentOf(appId: string, { applications, saved, schedules, variables }: System) {
  const { name } = await applications.get(appId);
  const limit = { limit: ALL };
  const names = new ReferenceNames();
  const requests = await saved.requests.list(appId, limit);
  return {
    application: appId,
    ...(name !== appId && { name: escapeReferences(name) }),
    sources: (await saved.sources.list(appId, limit)).map((source) => withReferences(source, names)),
    models: escapeReferences(await saved.models.list(appId, limit)),
    variables: escapeReferences(await variables.all(appId)),
    requests: requests.map((request) => escapeReferences(readable(request as SavedRequest))),
    scenarios: (await saved.scenarios.list(appId, limit)).map((each) =>
      escapeReferences(readableScenario(each)),
    ),
    schedules: (await schedules.list(appId, limit)).map((each) => escapeReferences(readableSchedule(each))),
  };
}

function withReferences({ source, secrets }: ShownSource, names: ReferenceNames): Record<string, unknown> {
  if (source.type === 'TableSource') {
    const references = secrets.map(({ path }) => [path, names.reference(source.name, path)]);
    return { ...(escapeReferences(source) as object), ...Object.fromEntries(references) };
  }
  const {
    name,
    type,
    baseUrl,
    properties,
    proxy,
    auth: open,
    ...rest
  } = escapeReferences(source) as HttpSource;
  const auth: Record<string, unknown> = { ...open };
  let proxyPassword: string | undefined;
  for (const { path } of secrets) {
    const [field = '', ...key] = path.replace(/^auth\./, '').split('.');
    const reference = names.reference(source.name, field, ...key);
    if (field === path) {
      proxyPassword = reference;
      continue;
    }
    if (key.length === 0) auth[field] = reference;
    else auth[field] = { ...(auth[field] as object | undefined), [key.join('.')]: reference };
  }
  return {
    name,
    type,
    ...(baseUrl !== undefined && { baseUrl }),
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(open.type !== 'none' && { auth }),
    ...(proxy !== undefined && { proxy }),
    ...(proxyPassword !== undefined && { proxyPassword }),
    ...rest,
  };
}

/** The name first, and of the options only what was chosen. */
function readable({ name, sourceTable, request, target }: SavedRequest): unknown {
  const { options, ...rest } = request;
  const defaults = new Map(
    Object.entries(Options.parse({})).map(([key, value]) => [key, JSON.stringify(value)]),
  );
  const chosen = Object.entries(options).filter(
    ([key, value]) => JSON.stringify(value) !== defaults.get(key),
  );
  return {
    name,
    ...(sourceTable && { sourceTable }),
    request: { ...rest, ...(chosen.length > 0 && { options: Object.fromEntries(chosen) }) },
    ...(target && { target }),
  };
}

function readableScenario({ name, parameters, steps, output }: Scenario): unknown {
  return {
    name,
    ...(parameters.length > 0 && { parameters }),
    steps: steps.map(({ onError, ...step }) => ({ ...step, ...(onError !== 'fail' && { onError }) })),
    ...(output !== undefined && { output }),
  };
}

/** Without what would be the same if it were left out. */
function readableSchedule(schedule: Schedule): unknown {
  const { name, cron } = schedule;
  const defaults = Schedule.parse({ name, cron, request: name });
  const chosen = Object.entries(schedule).filter(
    ([field, value]) => !isDeepStrictEqual(value, defaults[field as keyof Schedule]),
  );
  return {
    name,
    cron,
    ...Object.fromEntries(chosen),
    ...(schedule.request && { request: schedule.request }),
  };
}
