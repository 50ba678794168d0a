import { createReadStream, createWriteStream } from 'node:fs';
import { basename } from 'node:path/posix';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileAt } from '../../files/file-names.ts';
import { MAX_LIST_LIMIT, type FileStore, type ListEntry } from '../../files/file-store.ts';
import { sourceOfType } from '../../operations/data-places.ts';
import { jsonOption, printResult, table, type Command, type CommandCall, type Engine } from '../command.ts';

type WithEngine = <Result>(call: CommandCall, work: (engine: Engine) => Promise<Result>) => Promise<Result>;

const source = {
  application: { description: 'The appId', value: 'APP_ID', required: true },
  source: { description: 'Such as files', value: 'SOURCE', required: true },
};
const path = {
  description: 'The file in the source, such as exports/orders.csv',
  value: 'PATH',
  required: true,
};

/** `millrace file …`: what jobs have saved, and what they are to send. A service may be running. */
export function fileCommands(withEngine: WithEngine): Command[] {
  const withFiles = (call: CommandCall, work: (files: FileStore) => Promise<void>) =>
    withEngine(call, async ({ system, places }) => {
      const appId = given(call, 'application');
      await system.applications.get(appId);
      const source = given(call, 'source');
      await sourceOfType(places, appId, source, 'FileSource', 'source');
      await work(await places.files(appId, source));
    });
  return [
    {
      name: 'file list',
      summary: 'List the files and folders of a space: APP_ID SOURCE [SPACE]',
      positional: ['application', 'source', 'space'],
      options: {
        ...source,
        space: { description: 'A folder in the source; default: the source itself', value: 'SPACE' },
        ...jsonOption,
      },
      run: (call) =>
        withFiles(call, async (files) => {
          const entries = await allEntries(files, call.option('space') ?? '');
          printResult(call, entries, () => table([['SIZE', 'MODIFIED', 'NAME'], ...entries.map(line)]));
        }),
    },
    {
      name: 'file get',
      summary: 'Copy a file of an application to a file here: APP_ID SOURCE PATH',
      positional: ['application', 'source', 'path'],
      options: {
        ...source,
        path,
        to: { description: 'Default: a file of the same name in this folder', value: 'FILE' },
      },
      run: (call) =>
        withFiles(call, async (files) => {
          const file = await files.open(fileAt(given(call, 'path')));
          const to = call.option('to') ?? basename(given(call, 'path'));
          await pipeline(Readable.from(file.stream(), { objectMode: false }), createWriteStream(to));
        }),
    },
    {
      name: 'file put',
      summary:
        'Copy a file from here into an application, in the place of one of that name: APP_ID SOURCE PATH',
      positional: ['application', 'source', 'path'],
      options: { ...source, path, from: { description: 'The file here', value: 'FILE', required: true } },
      run: (call) =>
        withFiles(call, async (files) => {
          const writer = await files.create(fileAt(given(call, 'path')));
          try {
            for await (const chunk of createReadStream(given(call, 'from')))
              await writer.write(chunk as Buffer);
            await writer.commit();
          } finally {
            await writer.abort();
          }
        }),
    },
  ];
}

function given(call: CommandCall, option: string): string {
  return call.option(option) ?? '';
}

async function allEntries(files: FileStore, space: string): Promise<ListEntry[]> {
  const all: ListEntry[] = [];
  let after: string | null = null;
  do {
    const { entries, next } = await files.list({ space, after, limit: MAX_LIST_LIMIT });
    all.push(...entries);
    after = next;
  } while (after !== null);
  return all;
}

function line(entry: ListEntry): string[] {
  if (entry.kind === 'folder') return ['', '', `${entry.name}/`];
  return [String(entry.size), entry.modifiedAt.toISOString(), entry.name];
}
