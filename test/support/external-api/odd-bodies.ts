import {
  brotliCompressSync,
  constants,
  crc32,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';
import { drained, Refusal, type Exchange } from './exchange.ts';
import type { Routes } from './router.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const SAMPLE = JSON.stringify({
  items: Array.from({ length: 200 }, (_, index) => ({ id: index + 1, text: `text ${index} äöü` })),
});

/** More digits than a double holds, beside numbers that it does hold. */
export const BIG_NUMBERS =
  '{"items":[{"id":9007199254740993,"balance":12345678901234567.89,"ratio":0.1234567890123456789012,"plain":12.5},' +
  '{"id":-9223372036854775808,"balance":0.10,"ratio":1e-7,"plain":9007199254740991},' +
  '{"id":123456789012345678901234567890,"balance":-0.000000000000000000001,"ratio":1E400,"plain":0}]}';

const compressors: Record<string, (bytes: Buffer) => Uint8Array> = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};

/** Answers whose bodies are coded, encoded or broken in ways that clients must cope with. */
export const oddBodies: Routes = {
  'GET /gzip': (exchange) => {
    const coding = exchange.query.get('encoding') ?? 'gzip';
    const compress = compressors[coding];
    if (!compress)
      throw new Refusal(
        400,
        'bad_parameter',
        `encoding must be one of ${Object.keys(compressors).join(', ')}`,
      );
    exchange.send(200, compress(Buffer.from(SAMPLE)), { ...JSON_TYPE, 'content-encoding': coding });
  },
  'GET /half-gzip': (exchange) => {
    const whole = gzipSync(SAMPLE);
    const half = whole.subarray(0, whole.length >> 1);
    exchange.send(200, half, { ...JSON_TYPE, 'content-encoding': 'gzip' });
  },
  'GET /gzip-bomb': gzipBomb,
  'GET /latin1': (exchange) => {
    const text = '{"items":[{"id":1,"name":"Åse Müller","city":"Köln","note":"50 €"}]}';
    if (exchange.query.get('charset') === 'windows-1252') {
      const bytes = Buffer.from(text.replace('€', '\x80'), 'latin1');
      exchange.send(200, bytes, { 'content-type': 'application/json; charset=windows-1252' });
      return;
    }
    const bytes = Buffer.from(text.replace('€', 'EUR'), 'latin1');
    exchange.send(200, bytes, { 'content-type': 'application/json; charset=iso-8859-1' });
  },
  'GET /bom': (exchange) => exchange.send(200, '\uFEFF{"items":[{"id":1,"name":"Åse"}]}', JSON_TYPE),
  'GET /empty': (exchange) => exchange.send(200, '', JSON_TYPE),
  'GET /no-content': (exchange) => exchange.send(204, ''),
  'GET /malformed-json': (exchange) =>
    exchange.send(200, '{"items": [{"id": 1},\n {"id": 2,}\n]}', JSON_TYPE),
  'GET /big-numbers': (exchange) => exchange.send(200, BIG_NUMBERS, JSON_TYPE),
};

const BOMB_BLOCK = Buffer.alloc(4 * 1024 * 1024, 'a');

/** `?bytes=` (default 1 GiB) of JSON string in a thousandth of that: one valid gzip member, made as it is sent. */
async function gzipBomb(exchange: Exchange): Promise<void> {
  const blocks = Math.ceil(exchange.number('bytes', 1024 ** 3, { max: 2 ** 31 }) / BOMB_BLOCK.length);
  const { response } = exchange;
  response.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' });
  response.write(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]));
  const ends = [Buffer.from('["'), Buffer.from('"]')] as const;
  response.write(deflateBlock(ends[0]));
  let sum = crc32(ends[0]);
  const deflated = deflateBlock(BOMB_BLOCK);
  for (let block = 0; block < blocks && !response.destroyed; block += 1) {
    sum = crc32(BOMB_BLOCK, sum);
    if (!response.write(deflated)) await drained(response);
  }
  response.write(deflateBlock(ends[1]));
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(crc32(ends[1], sum), 0);
  trailer.writeUInt32LE((blocks * BOMB_BLOCK.length + 4) % 2 ** 32, 4);
  response.end(Buffer.concat([Buffer.from([3, 0]), trailer]));
}

/** Ends on a byte and is not the last block, so that such blocks can stand one after the other. */
function deflateBlock(bytes: Buffer): Buffer {
  return deflateRawSync(bytes, { finishFlush: constants.Z_FULL_FLUSH });
}
