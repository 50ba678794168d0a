import { bodyTypes } from '../../model/http-request.ts';
import { randomBytes } from 'node:crypto';
import { didYouMean } from '../../model/did-you-mean.ts';
import type { HeaderList } from './header-list.ts';
import { isRawNumber, parseExact } from '../../tables/exact-json.ts';
import { jsonFaultAt } from './json-fault.ts';
import { TableEncodingError } from './table-encoding.ts';
import { encodeRfc3986, isRecord, kindOf } from './url.ts';

/** A body that cannot be built. `path` is the field at fault, such as `request.body.upload.file.tableName`. */
export class BodyError extends Error {
  override readonly name = 'BodyError';
  readonly kind: 'invalid_body_type' | 'invalid_json' | 'invalid_body';
  readonly path: string;

  constructor(kind: BodyError['kind'], path: string, message: string, options?: ErrorOptions) {
    super(`${path}: ${message}`, options);
    this.kind = kind;
    this.path = path;
  }
}

/** Can be opened several times: for signing, and for sending again. */
export interface BodyStream {
  open(): AsyncIterable<Uint8Array>;
  /** In bytes, where it is known beforehand. */
  readonly length?: number;
}

export type RequestBody = string | Uint8Array | BodyStream | null;

/** A table as a body names it; without `spaceName` the default space of the source. */
export interface TableReference {
  readonly sourceName: string;
  readonly spaceName?: string;
  readonly tableName: string;
}

/** Where the content of tables comes from. `open` finds the table, or fails and names the field by its `path`. */
export interface TransmitSource {
  open(
    table: TableReference,
    contentType: string,
    path: string,
  ): Promise<{ stream: () => AsyncIterable<Uint8Array>; length?: number }>;
}

const OCTET_STREAM: (typeof bodyTypes)[number] = 'JSON -> octet-stream';

/** The text of the configuration, or what the Body script returned. */
export type BodyContent = { readonly text: string } | { readonly value: unknown };

const DEFAULT_TABLE_CONTENT_TYPE = 'text/plain';

/**
 * Builds the body and gives the headers with the Content-Type of the body type, unless one is set already. A
 * `multipart/…` that is set already gives its boundary to the body, or gets the one of the body.
 */
export async function buildBody(
  bodyType: string | undefined,
  content: BodyContent | undefined,
  headers: HeaderList,
  tables: TransmitSource,
): Promise<{ body: RequestBody; headers: HeaderList }> {
  const type = bodyType ?? (content && 'value' in content ? 'JSON -> stringify()' : 'string');
  if (!bodyTypes.some((known) => known === type) || type === OCTET_STREAM) throw unknownBodyType(type);
  if (content === undefined) return { body: null, headers };
  if ('value' in content && content.value === undefined) {
    throw invalid('request.body', 'the script returned undefined; it must return the content of the body');
  }
  switch (type) {
    case 'string':
      return { body: plainText(content), headers: withContentType(headers, 'text/plain;charset=UTF-8') };
    case 'JSON -> stringify()':
      if ('text' in content) parseBody(content.text);
      return { body: plainText(content), headers: withContentType(headers, 'application/json') };
    case 'JSON -> x-www-form-urlencoded':
      return {
        body: urlEncoded(objectOf(content)),
        headers: withContentType(headers, 'application/x-www-form-urlencoded'),
      };
    case 'JSON -> form-data': {
      const { contentType, boundary } = multipartType(headers.get('content-type'));
      const body = await multipart(objectOf(content), boundary, tables);
      const changed = headers.clone();
      changed.set('Content-Type', contentType, headers.setBy('content-type') ?? 'body type');
      return { body, headers: changed };
    }
    case 'JSON -> transmitSourceTable()':
      return { body: await sourceTable(objectOf(content), tables), headers };
    default:
      throw unknownBodyType(type);
  }
}

function unknownBodyType(bodyType: string): BodyError {
  const all = bodyTypes.filter((type) => type !== OCTET_STREAM);
  const message =
    bodyType === OCTET_STREAM
      ? `"${OCTET_STREAM}" is no longer supported. Use "JSON -> transmitSourceTable()", and add the header ` +
        'Content-Type with the value application/octet-stream explicitly if needed'
      : `there is no body type "${bodyType}".${didYouMean(bodyType, all)} Known: ${all.join(', ')}`;
  return new BodyError('invalid_body_type', 'request.bodyType', message);
}

function withContentType(headers: HeaderList, contentType: string): HeaderList {
  if (headers.has('content-type')) return headers;
  const changed = headers.clone();
  changed.set('Content-Type', contentType, 'body type');
  return changed;
}

/** Contract 2.3: a script's result is serialized with JSON.stringify, whatever the body type. */
function plainText(content: BodyContent): string {
  return 'text' in content ? utf8(content.text, 'request.body') : JSON.stringify(content.value);
}

function objectOf(content: BodyContent): Record<string, unknown> {
  const value = 'text' in content ? parseBody(content.text) : content.value;
  if (isRecord(value) && !isRawNumber(value)) return value;
  throw invalid('request.body', `must be an object for this body type, not ${kindOf(value)}`);
}

function parseBody(text: string): unknown {
  try {
    return parseExact(text);
  } catch (cause) {
    const offset = jsonFaultAt(text);
    const lines = text.slice(0, offset).split('\n');
    const place = `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`;
    const found = offset < text.length ? `unexpected ${JSON.stringify(text[offset])}` : 'it ends too early';
    throw new BodyError('invalid_json', 'request.body', `is no JSON: ${place}, ${found}`, { cause });
  }
}

// ---- forms

/** A string as it is, null empty, numbers and booleans as text, objects and arrays as JSON text. */
function fieldText(value: unknown, path: string): string {
  if (value === null || value === undefined) return '';
  return utf8(typeof value === 'string' ? value : JSON.stringify(value), path);
}

function utf8(text: string, path: string): string {
  if (text.isWellFormed()) return text;
  throw invalid(path, 'holds half of a surrogate pair, which UTF-8 cannot carry');
}

/** An array repeats the name. */
function urlEncoded(fields: Record<string, unknown>): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) => {
      const path = `request.body.${name}`;
      const encodedName = encodeRfc3986(utf8(name, 'request.body'));
      return (Array.isArray(value) ? value : [value]).map(
        (item: unknown) => `${encodedName}=${encodeRfc3986(fieldText(item, path))}`,
      );
    })
    .join('&');
}

function multipartType(given: string | undefined): { contentType: string; boundary: string } {
  const random = `----millrace-${randomBytes(18).toString('base64url')}`;
  if (given === undefined)
    return { contentType: `multipart/form-data; boundary=${random}`, boundary: random };
  if (!/^multipart\//i.test(given)) return { contentType: given, boundary: random };
  const [, quoted, bare] = /;\s*boundary=(?:"([^"]*)"|([^\s;"]*))/i.exec(given) ?? [];
  const boundary = quoted ?? bare;
  if (boundary === undefined) return { contentType: `${given}; boundary=${random}`, boundary: random };
  if (!/^[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]$/.test(boundary)) {
    throw invalid('request.headers.Content-Type', `"${boundary}" is no multipart boundary (RFC 2046)`);
  }
  return { contentType: given, boundary };
}

type Part = Uint8Array | { stream: () => AsyncIterable<Uint8Array>; length?: number };

async function multipart(
  fields: Record<string, unknown>,
  boundary: string,
  tables: TransmitSource,
): Promise<RequestBody> {
  const parts: Part[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const disposition = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(utf8(name, 'request.body'))}"`;
    if (isFilePart(value)) {
      const { filename, contentType, table } = filePart(value, `request.body.${name}`);
      const head = `${disposition}; filename="${escaped(filename)}"\r\nContent-Type: ${contentType}\r\n\r\n`;
      parts.push(
        Buffer.from(head),
        await opened(tables, table, contentType, `request.body.${name}`, '.file'),
        Buffer.from('\r\n'),
      );
    } else {
      parts.push(Buffer.from(`${disposition}\r\n\r\n${fieldText(value, `request.body.${name}`)}\r\n`));
    }
  }
  parts.push(Buffer.from(`--${boundary}--\r\n`));
  if (parts.every((part) => part instanceof Uint8Array)) return Buffer.concat(parts);
  const lengths = parts.map((part) => part.length);
  const length = lengths.every((bytes) => bytes !== undefined)
    ? lengths.reduce((a, b) => a + b, 0)
    : undefined;
  return {
    async *open() {
      for (const part of parts) {
        if (part instanceof Uint8Array) yield part;
        else yield* part.stream();
      }
    },
    ...(length === undefined ? {} : { length }),
  };
}

/** As browsers do it (HTML, "multipart/form-data encoding algorithm"). */
function escaped(text: string): string {
  return text.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22');
}

// ---- tables

/** Also one with a typing error in `file`, which is then named instead of being sent as JSON text. */
function isFilePart(value: unknown): value is Record<string, unknown> {
  if (!isRecord(value)) return false;
  const holdsTable = Object.values(value).some((item) => isRecord(item) && 'tableName' in item);
  return isRecord(value.file) || ('filename' in value && holdsTable);
}

function filePart(value: Record<string, unknown>, path: string) {
  checkProperties(value, ['filename', 'Content-Type', 'file'], path);
  return {
    filename: utf8(text(value, 'filename', path), `${path}.filename`),
    contentType: contentTypeOf(value, path),
    table: tableReference(value.file, `${path}.file`),
  };
}

async function sourceTable(value: Record<string, unknown>, tables: TransmitSource): Promise<BodyStream> {
  const { 'Content-Type': _, ...table } = value;
  const reference = tableReference(table, 'request.body', ['Content-Type']);
  const contentType = contentTypeOf(value, 'request.body');
  const { stream, length } = await opened(tables, reference, contentType, 'request.body');
  return { open: stream, ...(length === undefined ? {} : { length }) };
}

/** `below`: where in the value at `path` the table is named; its Content-Type stands in the value itself. */
async function opened(
  tables: TransmitSource,
  table: TableReference,
  contentType: string,
  path: string,
  below = '',
): ReturnType<TransmitSource['open']> {
  try {
    return await tables.open(table, contentType, path + below);
  } catch (error) {
    if (!(error instanceof TableEncodingError)) throw error;
    throw new BodyError('invalid_body', `${path}.Content-Type`, error.message, { cause: error });
  }
}

function tableReference(value: unknown, path: string, alsoKnown: readonly string[] = []): TableReference {
  if (!isRecord(value)) {
    throw invalid(path, `must be an object {sourceName, spaceName, tableName}, not ${kindOf(value)}`);
  }
  checkProperties(value, ['sourceName', 'spaceName', 'tableName', ...alsoKnown], path);
  return {
    sourceName: text(value, 'sourceName', path),
    // The root of a file source is "".
    ...(value.spaceName !== undefined && {
      spaceName: value.spaceName === '' ? '' : text(value, 'spaceName', path),
    }),
    tableName: text(value, 'tableName', path),
  };
}

function contentTypeOf(value: Record<string, unknown>, path: string): string {
  if (value['Content-Type'] === undefined) return DEFAULT_TABLE_CONTENT_TYPE;
  const contentType = text(value, 'Content-Type', path);
  if (/^[!#$%&'*+.^_`|~\w-]+\/[!#$%&'*+.^_`|~\w-]+[ \t]*(?:;[\t\u0020-\u007e]*)?$/.test(contentType))
    return contentType;
  throw invalid(`${path}.Content-Type`, `${JSON.stringify(contentType)} is no media type`);
}

function text(object: Record<string, unknown>, name: string, path: string): string {
  const value = object[name];
  if (typeof value === 'string' && value !== '') return value;
  const found =
    value === undefined ? 'is missing' : `must be a string that is not empty, not ${kindOf(value)}`;
  throw invalid(`${path}.${name}`, found);
}

function invalid(path: string, message: string): BodyError {
  return new BodyError('invalid_body', path, message);
}

function checkProperties(object: Record<string, unknown>, known: readonly string[], path: string): void {
  const unknown = unknownProperty(object, known);
  if (unknown) throw invalid(`${path}.${unknown.name}`, unknown.message);
}

/** The first property that is not among the known ones, and what to say of it. */
export function unknownProperty(
  object: Readonly<Record<string, unknown>>,
  known: readonly string[],
): { name: string; message: string } | undefined {
  const name = Object.keys(object).find((key) => !known.includes(key));
  if (name === undefined) return undefined;
  return { name, message: `is not known.${didYouMean(name, known)} Known: ${known.join(', ')}` };
}
