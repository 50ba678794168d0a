import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { Principal, Role } from '../model/access.ts';

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
  /** With parameters in braces, as OpenAPI writes them. */
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
