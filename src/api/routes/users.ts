import { z } from 'zod';
import { NewUser, Password, User, UserChange } from '../../model/access.ts';
import { KeysetPage, KeysetQuery, Success, success } from '../../model/envelope.ts';
import type { Users } from '../../system/users.ts';
import { keysetPage } from '../keyset-page.ts';
import { route, type Route } from '../route.ts';

const tag = 'Users';
const access = 'administrator';
const path = '/api/v1/users';
const params = z.strictObject({ username: z.string() });

export function userRoutes({ users }: { users: Users }): Route[] {
  return [
    route(
      {
        method: 'GET',
        path,
        access,
        tag,
        summary: 'List the users',
        query: KeysetQuery,
        answers: { 200: { description: 'The users by name', schema: Success(KeysetPage(User)) } },
      },
      async ({ query }) =>
        success(
          await keysetPage(
            query,
            (ask) => users.list(ask),
            ({ username }) => username,
          ),
        ),
    ),
    route(
      {
        method: 'POST',
        path,
        access,
        tag,
        summary: 'Create a user',
        body: NewUser,
        answers: { 201: { description: 'The user', schema: Success(User) } },
      },
      async ({ body, reply }) => {
        const user = await users.create(body);
        reply.code(201).header('location', `${path}/${encodeURIComponent(user.username)}`);
        return success(user);
      },
    ),
    route(
      {
        method: 'GET',
        path: `${path}/{username}`,
        access,
        tag,
        summary: 'Read a user',
        params,
        answers: { 200: { description: 'The user', schema: Success(User) } },
      },
      async ({ params: { username } }) => success(await users.get(username)),
    ),
    route(
      {
        method: 'PATCH',
        path: `${path}/{username}`,
        access,
        tag,
        summary: 'Change the role of a user, disable or enable it',
        params,
        body: UserChange,
        answers: { 200: { description: 'The user', schema: Success(User) } },
      },
      async ({ params: { username }, body }) => success(await users.change(username, body)),
    ),
    route(
      {
        method: 'PUT',
        path: `${path}/{username}/password`,
        access,
        tag,
        summary: 'Set the password of a user; its tokens end',
        params,
        body: z.strictObject({ password: Password }),
        answers: { 200: { description: 'It is set', schema: Success(z.null()) } },
      },
      async ({ params: { username }, body: { password } }) => {
        await users.setPassword(username, password);
        return success(null);
      },
    ),
  ];
}
