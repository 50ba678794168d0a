import { z } from 'zod';
import { Client, ClientChange, IssuedClient, NewClient } from '../../model/access.ts';
import { KeysetPage, KeysetQuery, Success, success } from '../../model/envelope.ts';
import type { Clients } from '../../system/clients.ts';
import { keysetPage } from '../keyset-page.ts';
import { route, type Route } from '../route.ts';

const tag = 'Clients';
const access = 'administrator';
const path = '/api/v1/clients';
const params = z.strictObject({ clientId: z.string().meta({ description: 'The client_id' }) });
const secretParams = params.extend({ secretId: z.string() });
const nothing = z.null();

export function clientRoutes({ clients }: { clients: Clients }): Route[] {
  return [
    route(
      {
        method: 'GET',
        path,
        access,
        tag,
        summary: 'List the clients',
        query: KeysetQuery,
        answers: { 200: { description: 'The clients by client_id', schema: Success(KeysetPage(Client)) } },
      },
      async ({ query }) =>
        success(
          await keysetPage(
            query,
            (ask) => clients.list(ask),
            ({ client_id }) => client_id,
          ),
        ),
    ),
    route(
      {
        method: 'POST',
        path,
        access,
        tag,
        summary: 'Create a client',
        body: NewClient,
        answers: {
          201: { description: 'The client, and its secret this once', schema: Success(IssuedClient) },
        },
      },
      async ({ body, reply }) => {
        const client = await clients.create(body);
        reply.code(201).header('location', `${path}/${client.client_id}`);
        return success(client);
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{clientId}`,
        access,
        tag,
        summary: 'Read a client',
        params,
        answers: { 200: { description: 'The client', schema: Success(Client) } },
      },
      async ({ params: { clientId } }) => success(await clients.get(clientId)),
    ),
    route(
      {
        method: 'PATCH',
        path: `${path}/{clientId}`,
        access,
        tag,
        summary: 'Change name, role, grants or applications of a client',
        params,
        body: ClientChange,
        answers: { 200: { description: 'The client', schema: Success(Client) } },
      },
      async ({ params: { clientId }, body }) => success(await clients.change(clientId, body)),
    ),
    route(
      {
        method: 'DELETE',
        path: `${path}/{clientId}`,
        access,
        tag,
        summary: 'Revoke a client and all its tokens',
        params,
        answers: { 200: { description: 'It is revoked', schema: Success(nothing) } },
      },
      async ({ params: { clientId } }) => {
        await clients.revoke(clientId);
        return success(null);
      },
    ),
    route(
      {
        method: 'POST',
        path: `${path}/{clientId}/secrets`,
        access,
        tag,
        summary: 'Add a secret; of the older ones the newest stays valid',
        params,
        answers: { 201: { description: 'The client with the new secret', schema: Success(IssuedClient) } },
      },
      async ({ params: { clientId }, reply }) => {
        const client = await clients.rotateSecret(clientId);
        reply.code(201);
        return success(client);
      },
    ),
    route(
      {
        method: 'DELETE',
        path: `${path}/{clientId}/secrets/{secretId}`,
        access,
        tag,
        summary: 'Revoke one secret of a client',
        params: secretParams,
        answers: { 200: { description: 'It is revoked', schema: Success(nothing) } },
      },
      async ({ params: { clientId, secretId } }) => {
        await clients.revokeSecret(clientId, secretId);
        return success(null);
      },
    ),
  ];
}
