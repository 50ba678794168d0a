import { NewUser, Password } from '../../model/access.ts';
import { jsonOption, printResult, table, UsageError, type Command, type CommandCall } from '../command.ts';
import { readPassword } from '../password-input.ts';

const username = { username: { description: 'The name of the user', value: 'NAME', required: true } };
const ALL = 1_000_000;

const create: Command = {
  name: 'user create',
  summary: 'Create a user; the password is read from standard input',
  positional: 'username',
  options: {
    ...username,
    role: { description: 'viewer, operator, editor or administrator', value: 'ROLE', required: true },
    ...jsonOption,
  },
  async run(call) {
    const name = call.option('username') as string;
    // First what was given as options: nobody wants to type a password in vain.
    const options = NewUser.omit({ password: true }).safeParse({ username: name, role: call.option('role') });
    if (!options.success) throw wrongOption(options.error.issues[0]);
    const password = await askPassword(call, name);
    const user = await call.withRecords(({ users }) => users.create({ ...options.data, password }));
    printResult(call, user, () => [`created ${user.username} (${user.role})`]);
  },
};

const list: Command = {
  name: 'user list',
  summary: 'List the users',
  options: jsonOption,
  async run(call) {
    const users = await call.withRecords((system) => system.users.list({ limit: ALL }));
    printResult(call, users, () =>
      table([
        ['USERNAME', 'ROLE', 'STATE', 'CREATED'],
        ...users.map((user) => [
          user.username,
          user.role,
          user.disabled ? 'disabled' : 'active',
          user.createdAt,
        ]),
      ]),
    );
  },
};

const setPassword: Command = {
  name: 'user set-password',
  summary: "Set a user's password, read from standard input; the user's tokens end",
  positional: 'username',
  options: { ...username, ...jsonOption },
  async run(call) {
    const name = call.option('username') as string;
    const password = await askPassword(call, name);
    await call.withRecords(({ users }) => users.setPassword(name, password));
    printResult(call, { username: name, passwordSet: true }, () => [`the password of ${name} is set`]);
  },
};

const disable: Command = {
  name: 'user disable',
  summary: 'Disable a user: neither password nor tokens are valid any more',
  positional: 'username',
  options: { ...username, ...jsonOption },
  async run(call) {
    const name = call.option('username') as string;
    const user = await call.withRecords(({ users }) => users.change(name, { disabled: true }));
    printResult(call, user, () => [`disabled ${user.username}`]);
  },
};

export const userCommands = [create, list, setPassword, disable];

async function askPassword(call: CommandCall, name: string): Promise<string> {
  const parsed = Password.safeParse(await readPassword(`Password for ${name}: `, call.tell));
  if (!parsed.success) throw new UsageError(`the password must have ${parsed.error.issues[0]?.message}`);
  return parsed.data;
}

function wrongOption(issue: { path: PropertyKey[]; message: string } | undefined): UsageError {
  return new UsageError(`--${String(issue?.path[0])}: ${issue?.message}`);
}
