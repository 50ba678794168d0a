import { NewClient, type Client, type IssuedClient } from '../../model/access.ts';
import { jsonOption, printResult, table, UsageError, type Command, type CommandCall } from '../command.ts';

const clientId = { 'client-id': { description: 'The client_id', value: 'ID', required: true } };
const ALL = 1_000_000;

const create: Command = {
  name: 'client create',
  summary: 'Create a client and print its secret, this once',
  options: {
    name: { description: 'A name for people', value: 'NAME', required: true },
    role: { description: 'viewer, operator, editor (the default) or administrator', value: 'ROLE' },
    grants: { description: 'Its grants, separated by commas; all three by default', value: 'LIST' },
    applications: { description: 'The applications it is restricted to, separated by commas', value: 'LIST' },
    ...jsonOption,
  },
  async run(call) {
    const parsed = NewClient.safeParse({
      name: call.option('name'),
      role: call.option('role'),
      grants: commaList(call.option('grants')),
      applications: commaList(call.option('applications')),
    });
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      throw new UsageError(`--${String(issue?.path[0])}: ${issue?.message}`);
    }
    const client = await call.withRecords(({ clients }) => clients.create(parsed.data));
    printIssued(call, client);
  },
};

const list: Command = {
  name: 'client list',
  summary: 'List the clients',
  options: jsonOption,
  async run(call) {
    const clients = await call.withRecords((system) => system.clients.list({ limit: ALL }));
    printResult(call, clients, () =>
      table([
        ['CLIENT_ID', 'NAME', 'ROLE', 'GRANTS', 'APPLICATIONS', 'SECRETS', 'LAST USED'],
        ...clients.map(clientRow),
      ]),
    );
  },
};

const rotateSecret: Command = {
  name: 'client rotate-secret',
  summary: 'Give a client a new secret; the newest of its others stays valid until the next rotation',
  positional: 'client-id',
  options: { ...clientId, ...jsonOption },
  async run(call) {
    const client = await call.withRecords(({ clients }) =>
      clients.rotateSecret(call.option('client-id') as string),
    );
    printIssued(call, client);
  },
};

const revoke: Command = {
  name: 'client revoke',
  summary: 'Revoke a client and all its tokens',
  positional: 'client-id',
  options: { ...clientId, ...jsonOption },
  async run(call) {
    const id = call.option('client-id') as string;
    await call.withRecords(({ clients }) => clients.revoke(id));
    printResult(call, { client_id: id, revoked: true }, () => [`revoked ${id}`]);
  },
};

export const clientCommands = [create, list, rotateSecret, revoke];

function printIssued(call: CommandCall, client: IssuedClient): void {
  printResult(call, client, () => [
    `client_id      ${client.client_id}`,
    `client_secret  ${client.client_secret}`,
  ]);
  if (!call.switchedOn('json')) call.tell('The secret is shown this once: store it now.');
}

function clientRow({ client_id, name, role, grants, applications, secrets }: Client): string[] {
  const lastUse = secrets
    .map(({ lastUsedAt }) => lastUsedAt ?? '')
    .toSorted()
    .at(-1);
  return [
    client_id,
    name,
    role,
    grants.join(','),
    applications?.join(',') ?? 'all',
    secrets.map(({ fingerprint }) => `…${fingerprint}`).join(' '),
    lastUse || 'never',
  ];
}

function commaList(text: string | undefined): string[] | undefined {
  return text
    ?.split(',')
    .map((item) => item.trim())
    .filter(Boolean);
}
