import { Readable } from 'node:stream';
import { z } from 'zod';
import { KeysetPage, KeysetQuery, Success, success } from '../../model/envelope.ts';
import { ServiceError } from '../../model/errors.ts';
import { FileError } from '../../files/file-error.ts';
import { fileAt } from '../../files/file-names.ts';
import type { FileStore, ListEntry } from '../../files/file-store.ts';
import { sourceOfType, type DataPlaces } from '../../operations/data-places.ts';
import type { Applications } from '../../system/applications.ts';
import { requireApplication } from '../bearer.ts';
import { bytesOf } from '../byte-body.ts';
import { route, type Call, type Route } from '../route.ts';

const tag = 'Files';
const listPath = '/api/v1/applications/{appId}/files/{source}';
const path = `${listPath}/{+path}` as const;
const sourceParams = z.strictObject({
  appId: z.string(),
  source: z.string().meta({ description: '"files"' }),
});
const params = sourceParams.extend({
  path: z.string().meta({
    description: 'The name of the file behind its space, such as exports/2025/orders.csv; or with %2F for /',
  }),
});

const inSource = { space: z.string(), name: z.string() };
const Entry = z
  .discriminatedUnion('kind', [
    z.strictObject({
      kind: z.literal('file'),
      ...inSource,
      size: z.int().meta({ description: 'In bytes' }),
      modifiedAt: z.iso.datetime(),
    }),
    z.strictObject({ kind: z.literal('folder'), ...inSource }),
  ])
  .meta({ id: 'FileEntry' });
const Saved = Success(z.strictObject({ ...inSource, bytes: z.int(), sha256: z.string() }));

export function fileRoutes({
  applications,
  places,
}: {
  applications: Applications;
  places: DataPlaces;
}): Route[] {
  async function storeOf(
    { appId, source }: z.output<typeof sourceParams>,
    { principal }: Pick<Call<unknown, unknown, unknown>, 'principal'>,
  ): Promise<FileStore> {
    requireApplication(principal, appId);
    await applications.get(appId);
    await sourceOfType(places, appId, source, 'FileSource', 'source');
    return places.files(appId, source);
  }

  return [
    route(
      {
        method: 'GET',
        path: listPath,
        access: 'viewer',
        tag,
        summary: 'List the files and folders of a space',
        params: sourceParams,
        query: KeysetQuery.extend({
          space: z.string().default('').meta({ description: 'A folder; default: the source itself' }),
          prefix: z.string().default('').meta({ description: 'Only names that begin so' }),
        }),
        answers: { 200: { description: 'By name', schema: Success(KeysetPage(Entry)) } },
      },
      async (call) => {
        const store = await storeOf(call.params, call);
        const { after = null, ...query } = call.query;
        const { entries, next } = await told(() => store.list({ ...query, after }));
        return success({ items: entries.map(shownEntry), next });
      },
    ),
    route(
      {
        method: 'GET',
        path,
        access: 'viewer',
        tag,
        summary: 'Download a file',
        params,
        answers: {
          200: { description: 'Its bytes', schema: z.string(), mediaType: 'application/octet-stream' },
        },
      },
      async (call) => {
        const store = await storeOf(call.params, call);
        const file = fileAt(call.params.path);
        const { size, stream } = await told(() => store.open(file));
        call.reply.type('application/octet-stream').headers({
          'content-length': size,
          // Whoever saved it, a browser must not take it for a page of the service.
          'content-disposition': attachment(file.name),
          'content-security-policy': 'sandbox',
          'x-content-type-options': 'nosniff',
        });
        return Readable.from(stream(), { objectMode: false });
      },
    ),
    route(
      {
        method: 'PUT',
        path,
        access: 'operator',
        tag,
        summary: 'Upload a file in the place of one of that name, in one step when all of it has come',
        params,
        bytes: true,
        answers: {
          200: { description: 'It has replaced another', schema: Saved },
          201: { description: 'It is new', schema: Saved },
        },
      },
      async (call) => {
        const store = await storeOf(call.params, call);
        const file = fileAt(call.params.path);
        return told(async () => {
          const isNew = (await store.stat(file)) === null;
          const writer = await store.create(file);
          try {
            for await (const chunk of bytesOf(call.request)) await writer.write(chunk);
            const saved = await writer.commit();
            call.reply.code(isNew ? 201 : 200);
            return success({ ...file, ...saved });
          } finally {
            await writer.abort();
          }
        });
      },
    ),
    route(
      {
        method: 'DELETE',
        path,
        access: 'editor',
        tag,
        summary: 'Delete a file',
        params,
        answers: { 200: { description: 'It is gone', schema: Success(z.null()) } },
      },
      async (call) => {
        const store = await storeOf(call.params, call);
        const file = fileAt(call.params.path);
        if (!(await told(() => store.delete(file)))) {
          throw new ServiceError('not_found', `there is no file ${JSON.stringify(call.params.path)}`);
        }
        return success(null);
      },
    ),
  ];
}

function shownEntry(entry: ListEntry): z.output<typeof Entry> {
  return entry.kind === 'file' ? { ...entry, modifiedAt: entry.modifiedAt.toISOString() } : entry;
}

const faultsOfTheCall: Partial<Record<FileError['kind'], 'invalid_request' | 'not_found'>> = {
  name: 'invalid_request',
  outside: 'invalid_request',
  not_a_file: 'invalid_request',
  not_a_folder: 'invalid_request',
  option: 'invalid_request',
  not_found: 'not_found',
};

async function told<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    throw new ServiceError(faultsOfTheCall[error.kind] ?? 'file_error', error.message, { cause: error });
  }
}

/** RFC 6266: the name as it is, and for old readers what ASCII has of it. */
function attachment(name: string): string {
  const ascii = name.normalize('NFC').replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, (sign) => {
    return `%${sign.charCodeAt(0).toString(16).toUpperCase()}`;
  });
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}
