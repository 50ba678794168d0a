import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { Principal, Role } from '../model/access.ts';
import { ServiceError } from '../model/errors.ts';

/**
 * The contract of one route: validation, types and OpenAPI are made from it. Everything under `/api/v1` needs a
 * token of the role that `access` names, unless that is `public`.
 */
export interface RouteContract<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With parameters in braces, as OpenAPI writes them; the last one, as {+name}, takes slashes, too. */
  path: `/${string}`;
  access: Role | 'public';
  /** The section of the reference. */
  tag: string;
  summary: string;
  params?: Params;
  query?: Query;
  body?: Body;
  /** Described here, and read by the handler itself. */
  headers?: z.ZodType;
  /** A body of `application/x-www-form-urlencoded`, which the handler reads itself. */
  form?: z.ZodType;
  /** A body of bytes, of any type and length, which the handler takes from `bytesOf(request)`. */
  bytes?: true;
  /** The answers by status: the whole body, or null for none. */
  answers: Record<number, { description: string; schema: z.ZodType | null; mediaType?: string }>;
}

export interface Call<Params, Query, Body> {
  params: Params;
  query: Query;
  body: Body;
  /** Throws where the route is public. */
  principal: Principal;
  request: FastifyRequest;
  reply: FastifyReply;
}

export interface Route {
  contract: RouteContract;
  handle(call: Call<unknown, unknown, unknown>): Promise<unknown>;
}

export function route<
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
>(
  contract: RouteContract<Params, Query, Body>,
  handle: (call: Call<z.output<Params>, z.output<Query>, z.output<Body>>) => Promise<unknown>,
): Route {
  return { contract, handle };
}

const REST = /\{\+(\w+)\}$/;

/** As the router of the server writes it. */
export function routerPath({ path }: RouteContract): string {
  return path.replace(REST, '*').replaceAll(/\{(\w+)\}/g, ':$1');
}

/** As OpenAPI writes it, which knows no parameter with slashes. */
export function describedPath({ path }: RouteContract): string {
  return path.replace(REST, '{$1}');
}

export function pathPattern({ path }: RouteContract): RegExp {
  const pattern = path.replaceAll('.', '\\.').replace(REST, '.+');
  return new RegExp(`^${pattern.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}

/** The parameters that the router has found, by their names in the contract. */
export function paramsOf({ path }: RouteContract, request: FastifyRequest): Record<string, string> {
  const params = request.params as Record<string, string>;
  // No database and no file system has a name with it; PostgreSQL would fail.
  if (Object.values(params).some((value) => value.includes('\0'))) {
    throw new ServiceError('invalid_request', 'the path holds the character U+0000');
  }
  const [, rest] = REST.exec(path) ?? [];
  if (rest === undefined) return params;
  const { '*': value = '', ...others } = params;
  return { ...others, [rest]: value };
}
