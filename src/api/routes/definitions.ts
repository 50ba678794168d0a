import { z } from 'zod';
import { KeysetPage, KeysetQuery, keysetKey, Success, success } from '../../model/envelope.ts';
import { ServiceError } from '../../model/errors.ts';
import { SavedRequest } from '../../model/http-request.ts';
import { Json } from '../../model/json.ts';
import { Name } from '../../model/names.ts';
import { Scenario } from '../../model/scenario.ts';
import { builtInSources, Source } from '../../model/source.ts';
import { Model } from '../../model/table.ts';
import type { CheckScenario } from '../../operations/run-scenario/run-scenario.ts';
import type { ApplicationVariables } from '../../system/application-variables.ts';
import type { Applications } from '../../system/applications.ts';
import type { Change, KeysetAsk } from '../../system/definitions.ts';
import type { SavedDefinitions } from '../../system/saved-definitions.ts';
import { requireApplication } from '../bearer.ts';
import { keysetPage } from '../keyset-page.ts';
import { route, type Route } from '../route.ts';

/** What an application has of one kind, and how it is read and written. */
interface Collection<Body extends { name: string }, Shown> {
  /** In the path, such as `sources`. */
  plural: string;
  singular: string;
  tag: string;
  Body: z.ZodType<Body>;
  Shown: z.ZodType<Shown>;
  put(appId: string, body: Body): Promise<Change>;
  get(appId: string, name: string): Promise<Shown | null>;
  list(appId: string, ask: KeysetAsk): Promise<Shown[]>;
  delete(appId: string, name: string): Promise<boolean>;
  nameOf(shown: Shown): string;
}

const ShownSource = z
  .strictObject({
    source: z.unknown().meta({ description: 'Without its secrets' }),
    secrets: z.array(z.strictObject({ path: z.string(), fingerprint: z.string() })),
  })
  .meta({ id: 'ShownSource' });
const Variable = z.strictObject({ name: Name, value: Json }).meta({ id: 'Variable' });
const Changed = z.strictObject({ name: z.string(), change: z.enum(['created', 'changed', 'unchanged']) });

export interface DefinitionParts {
  applications: Applications;
  saved: SavedDefinitions;
  variables: ApplicationVariables;
  checkScenario: CheckScenario;
}

export function definitionRoutes({
  applications,
  saved,
  variables,
  checkScenario,
}: DefinitionParts): Route[] {
  return [
    ...collectionRoutes(applications, {
      plural: 'sources',
      singular: 'source',
      tag: 'Sources',
      Body: Source,
      Shown: ShownSource,
      put: (appId, source) => saved.sources.put(appId, source),
      get: (appId, name) => saved.sources.get(appId, name),
      list: (appId, ask) => saved.sources.list(appId, ask),
      delete: (appId, name) => saved.sources.delete(appId, name),
      nameOf: ({ source }) => (source as Source).name,
    }),
    ...collectionRoutes(applications, {
      plural: 'models',
      singular: 'model',
      tag: 'Models',
      Body: Model,
      Shown: Model,
      put: (appId, model) => saved.models.put(appId, model),
      get: (appId, name) => saved.models.get(appId, name),
      list: (appId, ask) => saved.models.list(appId, ask),
      delete: (appId, name) => saved.models.delete(appId, name),
      nameOf: ({ name }) => name,
    }),
    ...collectionRoutes(applications, {
      plural: 'requests',
      singular: 'saved request',
      tag: 'Saved requests',
      Body: SavedRequest,
      Shown: z.unknown() as z.ZodType<{ name: string }>,
      put: (appId, request) => saved.requests.put(appId, request),
      get: (appId, name) => saved.requests.get(appId, name),
      list: (appId, ask) => saved.requests.list(appId, ask),
      delete: (appId, name) => saved.requests.delete(appId, name),
      nameOf: ({ name }) => name,
    }),
    ...collectionRoutes(applications, {
      plural: 'scenarios',
      singular: 'scenario',
      tag: 'Scenarios',
      Body: Scenario,
      Shown: Scenario,
      put: async (appId, scenario) => {
        await checkScenario(appId, scenario);
        return saved.scenarios.put(appId, scenario);
      },
      get: (appId, name) => saved.scenarios.get(appId, name),
      list: (appId, ask) => saved.scenarios.list(appId, ask),
      delete: (appId, name) => saved.scenarios.delete(appId, name),
      nameOf: ({ name }) => name,
    }),
    ...collectionRoutes(applications, {
      plural: 'variables',
      singular: 'variable',
      tag: 'Variables',
      Body: Variable,
      Shown: Variable,
      put: async (appId, { name, value }) => {
        await variables.set(appId, { [name]: value });
        return 'changed';
      },
      get: (appId, name) => variables.get(appId, name),
      list: (appId, ask) => variables.list(appId, ask),
      delete: (appId, name) => variables.delete(appId, name),
      nameOf: ({ name }) => name,
    }),
    builtInsRoute(applications),
  ];
}

function builtInsRoute(applications: Applications): Route {
  const BuiltIn = z.strictObject({ name: z.string(), type: z.string(), defaultSpace: z.string() });
  return route(
    {
      method: 'GET',
      path: '/api/v1/applications/{appId}/builtInSources',
      access: 'viewer',
      tag: 'Sources',
      summary: 'List the sources that each application has from its beginning',
      params: z.strictObject({ appId: z.string() }),
      answers: { 200: { description: 'The sources', schema: Success(z.array(BuiltIn)) } },
    },
    async ({ params: { appId }, principal }) => {
      requireApplication(principal, appId);
      await applications.get(appId);
      return success(Object.entries(builtInSources).map(([name, source]) => ({ name, ...source })));
    },
  );
}

function collectionRoutes<Body extends { name: string }, Shown>(
  applications: Applications,
  collection: Collection<Body, Shown>,
): Route[] {
  const { plural, singular, tag, Body, Shown } = collection;
  const listPath = `/api/v1/applications/{appId}/${plural}` as const;
  const path = `${listPath}/{name}` as const;
  const appParams = z.strictObject({ appId: z.string() });
  const params = z.strictObject({ appId: z.string(), name: z.string() });
  const missing = (name: string) => new ServiceError('not_found', `there is no ${singular} "${name}"`);

  return [
    route(
      {
        method: 'GET',
        path: listPath,
        access: 'viewer',
        tag,
        summary: `List every ${singular} of an application`,
        params: appParams,
        query: KeysetQuery.extend({ after: keysetKey(Name) }),
        answers: { 200: { description: 'By name', schema: Success(KeysetPage(Shown)) } },
      },
      async ({ params: { appId }, query, principal }) => {
        requireApplication(principal, appId);
        await applications.get(appId);
        return success(await keysetPage(query, (ask) => collection.list(appId, ask), collection.nameOf));
      },
    ),
    route(
      {
        method: 'GET',
        path,
        access: 'viewer',
        tag,
        summary: `Read a ${singular}`,
        params,
        answers: { 200: { description: 'It', schema: Success(Shown) } },
      },
      async ({ params: { appId, name }, principal }) => {
        requireApplication(principal, appId);
        await applications.get(appId);
        const found = await collection.get(appId, name);
        if (found === null) throw missing(name);
        return success(found);
      },
    ),
    route(
      {
        method: 'PUT',
        path,
        access: 'editor',
        tag,
        summary: `Create or replace a ${singular}`,
        params,
        body: Body,
        answers: {
          200: { description: 'It was there before', schema: Success(Changed) },
          201: { description: 'It is new', schema: Success(Changed) },
        },
      },
      async ({ params: { appId, name }, body, principal, reply }) => {
        requireApplication(principal, appId);
        await applications.get(appId);
        if (body.name !== name) {
          throw new ServiceError('invalid_request', `name: must be "${name}", as in the path`, {
            path: 'name',
          });
        }
        const change = await collection.put(appId, body);
        reply.code(change === 'created' ? 201 : 200);
        return success({ name, change });
      },
    ),
    route(
      {
        method: 'DELETE',
        path,
        access: 'editor',
        tag,
        summary: `Delete a ${singular}`,
        params,
        answers: { 200: { description: 'It is gone', schema: Success(z.null()) } },
      },
      async ({ params: { appId, name }, principal }) => {
        requireApplication(principal, appId);
        await applications.get(appId);
        if (!(await collection.delete(appId, name))) throw missing(name);
        return success(null);
      },
    ),
  ];
}
