import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { drained, Refusal, type Exchange, type ReceivedRequest } from './exchange.ts';
import type { Routes } from './router.ts';

const BLOCK_BYTES = 64 * 1024;
const BLOCK = Buffer.alloc(BLOCK_BYTES);
for (let index = 0, value = 1; index < BLOCK_BYTES; index += 1) {
  value = (value * 48_271) % 2_147_483_647;
  BLOCK[index] = value & 255;
}
const checksums = new Map<number, Promise<string>>();

/** The bytes of /files/{size}; each block begins with its number, so that a lost or doubled block shows. */
export function* fileBytes(size: number): Generator<Buffer> {
  for (let at = 0, number = 0; at < size; at += BLOCK_BYTES, number += 1) {
    const block = Buffer.from(BLOCK);
    block.writeUInt32BE(number);
    yield size - at < BLOCK_BYTES ? block.subarray(0, size - at) : block;
  }
}

/** The SHA-256 of such a file, in hex. */
export function fileChecksum(size: number): Promise<string> {
  let checksum = checksums.get(size);
  if (!checksum) {
    checksum = computeChecksum(size);
    checksums.set(size, checksum);
  }
  return checksum;
}

async function computeChecksum(size: number): Promise<string> {
  const hash = createHash('sha256');
  let blocks = 0;
  for (const block of fileBytes(size)) {
    hash.update(block);
    blocks += 1;
    if (blocks % 64 === 0) await turn();
  }
  return hash.digest('hex');
}

export const transfers: Routes = {
  'GET /files/:size': sendFile,
  'POST /upload': describeUpload,
  'PATCH /upload': describeUpload,
  'PUT /upload': describeUpload,
};

/** `?chunked=true` sends no Content-Length; `?cut=` breaks the connection after so many bytes. */
async function sendFile(exchange: Exchange, sizeText = ''): Promise<void> {
  const { response, query } = exchange;
  const size = Number(sizeText);
  if (!/^\d+$/.test(sizeText) || size > 2 ** 40) throw new Refusal(400, 'bad_parameter', 'no size of a file');
  const cut = exchange.number('cut', size, { max: size });
  response.writeHead(200, {
    'content-type': query.get('type') ?? 'application/octet-stream',
    'content-disposition': `attachment; filename="file-${size}.bin"`,
    'x-checksum-sha256': await fileChecksum(size),
    ...(query.get('chunked') === 'true' ? {} : { 'content-length': size }),
  });
  let sent = 0;
  for (const block of fileBytes(size)) {
    if (response.destroyed) return;
    const part = block.subarray(0, cut - sent);
    sent += part.length;
    if (part.length > 0 && !response.write(part)) {
      await drained(response);
    }
    if (sent >= cut && cut < size) {
      response.write('', () => response.socket?.destroySoon());
      return;
    }
  }
  response.end();
}

function describeUpload(exchange: Exchange): void {
  const { request } = exchange;
  const parts = multipartParts(request)?.map(({ body, ...part }) => ({
    ...part,
    bytes: body.length,
    sha256: createHash('sha256').update(body).digest('hex'),
  }));
  exchange.json(200, {
    contentType: request.headers['content-type'] ?? null,
    bytes: request.bodyBytes,
    sha256: request.bodySha256,
    ...(parts ? { parts } : {}),
  });
}

export interface UploadPart {
  name: string | undefined;
  filename: string | undefined;
  /** Lower-case names. */
  headers: Record<string, string>;
  body: Buffer;
}

/** The parts of a multipart body; undefined: it is none. A body that breaks the format is refused with 400. */
export function multipartParts({ headers, body, bodyBytes }: ReceivedRequest): UploadPart[] | undefined {
  const type = headers['content-type'] ?? '';
  if (!type.toLowerCase().startsWith('multipart/')) return undefined;
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(type) ?? [];
  const bad = (message: string) => new Refusal(400, 'bad_multipart', message);
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw bad('the Content-Type has no boundary');
  if (body.length < bodyBytes) throw bad('the body is longer than was kept');
  const text = body.toString('latin1');
  const sections = `\r\n${text}`.split(`\r\n--${boundary}`);
  if (sections.length < 2 || sections[0] !== '') throw bad('the body does not begin with its boundary');
  if (sections.pop()?.replace(/\r\n$/, '') !== '--') throw bad('the closing boundary is missing');
  return sections.slice(1).map((section) => {
    const end = section.indexOf('\r\n\r\n');
    if (!section.startsWith('\r\n') || end < 0) throw bad('a part has no end of its headers');
    return part(section.slice(2, Math.max(2, end)), Buffer.from(section.slice(end + 4), 'latin1'));
  });
}

function part(head: string, body: Buffer): UploadPart {
  const lines = Buffer.from(head, 'latin1').toString('utf8').split('\r\n');
  const headers = Object.fromEntries(
    lines
      .filter((line) => line !== '')
      .map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
      }),
  ) as Record<string, string>;
  const disposition = headers['content-disposition'] ?? '';
  const parameter = (name: string) => new RegExp(`;\\s*${name}="([^"]*)"`, 'i').exec(disposition)?.[1];
  return { name: parameter('name'), filename: parameter('filename'), headers, body };
}
