import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGzip, constants } from 'node:zlib';
import { pipeline, Readable } from 'node:stream';
import { get, httpClient, httpServer, post, sendOptions } from './testing.ts';

const CHUNK = Buffer.alloc(256 * 1024, 'row,row\n');
const CHUNKS = 2000;

function* chunks(count: number) {
  for (let n = 0; n < count; n++) yield CHUNK;
}

/** How much the process grew at most while this ran. */
async function growth(run: () => Promise<void>): Promise<number> {
  const before = process.memoryUsage.rss();
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss());
  }, 10);
  try {
    await run();
  } finally {
    clearInterval(timer);
  }
  return most - before;
}

test('500 MB come in and go out in the same little memory', async (t) => {
  const url = await httpServer(t, (request, response) => {
    if (request.method === 'GET') {
      Readable.from(chunks(CHUNKS)).pipe(response);
      return;
    }
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    request.on('end', () => response.end(String(bytes)));
  });
  const client = httpClient(t);
  const expected = CHUNK.length * CHUNKS;
  const grown = await growth(async () => {
    const response = await client.send(get(url), sendOptions());
    let bytes = 0;
    for await (const chunk of response.body) bytes += chunk.byteLength;
    assert.equal(bytes, expected);
    async function* body() {
      yield* chunks(CHUNKS);
    }
    const sent = await client.send(post(url, body), sendOptions());
    for await (const chunk of sent.body) assert.equal(Buffer.from(chunk).toString(), String(expected));
  });
  // About 100 MB of it is garbage not yet collected, of the server as well; eight times the volume grew 138 MB.
  assert.ok(grown < 250e6, `${grown} bytes`);
});

test('a slow reader holds the server back, also behind a decoder', async (t) => {
  let produced = 0;
  function* counted() {
    for (const chunk of chunks(1000)) {
      produced += chunk.length;
      yield chunk;
    }
  }
  const url = await httpServer(t, (request, response) => {
    const encoded = request.url === '/gzip';
    if (encoded) response.setHeader('Content-Encoding', 'gzip');
    const source = Readable.from(counted());
    const gzip = createGzip({ level: constants.Z_NO_COMPRESSION });
    if (encoded) pipeline(source, gzip, response, () => source.destroy());
    else pipeline(source, response, () => source.destroy());
  });
  const client = httpClient(t);
  for (const path of ['/plain', '/gzip']) {
    produced = 0;
    const response = await client.send(get(url + path), sendOptions());
    for await (const chunk of response.body) {
      assert.ok(chunk.byteLength > 0);
      await new Promise((resolve) => setTimeout(resolve, 200));
      break;
    }
    assert.ok(produced < 40e6, `${path}: ${produced} bytes were taken from the server`);
  }
});
