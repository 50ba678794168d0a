import { z } from 'zod';
import { Failure } from '../model/envelope.ts';
import { TokenError } from '../model/token.ts';
import { describedPath, type Route, type RouteContract } from './route.ts';

type Json = Record<string, unknown>;

/** OpenAPI 3.1, made from the same contracts that validate. */
export function openApi(routes: readonly Route[], version: string): Json {
  const components: Json = {};
  const paths: Record<string, Json> = {};
  for (const { contract } of routes) {
    const path = (paths[describedPath(contract)] ??= {});
    path[contract.method.toLowerCase()] = operation(contract, components);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'millrace', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        token: {
          type: 'oauth2',
          flows: {
            clientCredentials: {
              tokenUrl: '/api/v1/oauth2/token',
              refreshUrl: '/api/v1/oauth2/token',
              scopes: {},
            },
            password: { tokenUrl: '/api/v1/oauth2/token', refreshUrl: '/api/v1/oauth2/token', scopes: {} },
          },
        },
      },
    },
  };
}

function operation(contract: RouteContract, components: Json): Json {
  const { params, query, headers } = contract;
  const content = requestContent(contract, components);
  const parameters = [
    ...(params ? asParameters(params, 'path', components) : []),
    ...(query ? asParameters(query, 'query', components) : []),
    ...(headers ? asParameters(headers, 'header', components) : []),
  ];
  return {
    operationId: operationId(contract),
    summary: contract.summary,
    tags: [contract.tag],
    ...(contract.access === 'public'
      ? { security: [] }
      : { description: roleText(contract), security: [{ token: [] }] }),
    ...(parameters.length > 0 && { parameters }),
    ...(content && { requestBody: { required: true, content } }),
    responses: responses(contract, components),
  };
}

function requestContent({ body, form, bytes }: RouteContract, components: Json): Json | undefined {
  if (bytes) return { '*/*': { schema: {} } };
  if (body) return { 'application/json': { schema: asJsonSchema(body, 'input', components) } };
  return form && { 'application/x-www-form-urlencoded': { schema: asJsonSchema(form, 'input', components) } };
}

function roleText({ access }: RouteContract): string {
  return `Needs the role ${access}.`;
}

function responses(contract: RouteContract, components: Json): Json {
  const answers = Object.entries(contract.answers).map(([status, { description, schema, mediaType }]) => [
    status,
    {
      description,
      ...(schema && {
        content: {
          [mediaType ?? 'application/json']: { schema: asJsonSchema(schema, 'output', components) },
        },
      }),
    },
  ]);
  const error = contract.form ? TokenError : Failure;
  const failure = { 'application/json': { schema: asJsonSchema(error, 'output', components) } };
  return { ...Object.fromEntries(answers), default: { description: 'An error', content: failure } };
}

function asParameters(schema: z.ZodType, place: 'path' | 'query' | 'header', components: Json): Json[] {
  const { properties = {}, required = [] } = asJsonSchema(schema, 'input', components) as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    ...(description !== undefined && { description }),
    schema: rest,
  }));
}

/** Schemas that have a name become components; references are turned to them. */
function asJsonSchema(schema: z.ZodType, io: 'input' | 'output', components: Json): Json {
  const { $schema: _, $defs, ...plain } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json;
  const turned = (value: unknown) =>
    JSON.parse(JSON.stringify(value).replaceAll('"#/$defs/', '"#/components/schemas/')) as Json;
  for (const [name, definition] of Object.entries(($defs ?? {}) as Json)) {
    const { id: _id, ...component } = turned(definition);
    components[name] = component;
  }
  const { id, ...own } = turned(plain);
  if (typeof id !== 'string') return own;
  components[id] = own;
  return { $ref: `#/components/schemas/${id}` };
}

function operationId({ method, path }: RouteContract): string {
  const words = path
    .replace('/api/v1/', '')
    .split(/[^A-Za-z0-9]+/)
    .filter(Boolean);
  return [method.toLowerCase(), ...words.map((word) => word[0]?.toUpperCase() + word.slice(1))].join('');
}
