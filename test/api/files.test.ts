import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, test, type TestContext } from 'node:test';
import { startExternalApi } from '../support/external-api.ts';
import { startTestService, type TestService } from '../support/service.ts';

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- answers of any shape
  result: any;
}

interface Place {
  service: TestService;
  token: string;
  /** Calls below /api/v1/applications/shop/files, with the path as it is given. */
  files(method: string, path: string, body?: string | Buffer, type?: string): Promise<Answer>;
  folder: string;
}

async function start(t: TestContext, role: 'viewer' | 'operator' | 'editor' = 'editor'): Promise<Place> {
  const service = await startTestService(t, { settings: { bodyLimitBytes: 1024 * 1024 } });
  service.clock.run();
  await service.system.applications.create({ appId: 'shop' });
  const token = await service.tokenOf(role);
  return {
    service,
    token,
    folder: join(service.settings.data, 'applications/shop/files'),
    async files(method, path, body, type) {
      const headers = {
        authorization: `Bearer ${token}`,
        ...(type !== undefined && { 'content-type': type }),
      };
      const request = httpRequest(service.url, { method, path: filesPath + path, headers });
      request.end(body);
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      const bytes = Buffer.concat((await response.toArray()) as Buffer[]);
      const isJson = response.headers['content-type']?.startsWith('application/json');
      const { statusCode: status = 0, headers: answered } = response;
      const text = bytes.toString();
      return { status, headers: answered, bytes, text, result: isJson ? JSON.parse(text).result : undefined };
    },
  };
}

const filesPath = '/api/v1/applications/shop/files';
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

describe('API: files of an application', () => {
  test('uploaded, listed, downloaded, replaced, deleted', async (t) => {
    const { files } = await start(t);
    const bytes = randomBytes(300_000);
    const created = await files('PUT', '/files/exports/2025/orders.bin', bytes);
    assert.equal(created.status, 201);
    assert.deepEqual(created.result, {
      space: 'exports/2025',
      name: 'orders.bin',
      bytes: bytes.length,
      sha256: sha256(bytes),
    });
    const listed = (await files('GET', '/files?space=exports/2025')).result;
    const { modifiedAt } = listed.items[0];
    assert.ok(Math.abs(Date.parse(modifiedAt) - Date.now()) < 60_000);
    const entry = { kind: 'file', space: 'exports/2025', name: 'orders.bin', size: bytes.length, modifiedAt };
    assert.deepEqual(listed, { items: [entry], next: null });
    assert.deepEqual((await files('GET', '/files')).result.items, [
      { kind: 'folder', space: '', name: 'exports' },
    ]);

    const downloaded = await files('GET', '/files/exports%2F2025%2Forders.bin');
    assert.equal(downloaded.headers['content-length'], String(bytes.length));
    assert.deepEqual(downloaded.bytes, bytes);

    const replaced = await files('PUT', '/files/exports/2025/orders.bin', 'short');
    assert.deepEqual([replaced.status, replaced.result.bytes], [200, 5]);
    assert.equal((await files('GET', '/files/exports/2025/orders.bin')).text, 'short');

    assert.equal((await files('DELETE', '/files/exports/2025/orders.bin')).status, 200);
    for (const method of ['GET', 'DELETE']) {
      const gone = await files(method, '/files/exports/2025/orders.bin');
      assert.equal(gone.status, 404);
      assert.equal(gone.result.code, 'not_found');
    }
  });

  test('what a job saved is what is downloaded; the root of the source and odd names', async (t) => {
    const { files } = await start(t);
    for (const name of [
      'root.txt',
      '%2e%2e',
      'ä ö"\\'.replace('\\', '').concat('.csv'),
      '{+path}',
      "it's (1)*.txt",
    ]) {
      const path = `/files/${encodeURIComponent(name)}`;
      assert.equal((await files('PUT', path, name)).status, 201, name);
      assert.equal((await files('GET', path)).text, name);
    }
    assert.equal((await files('GET', '/files?space=')).result.items.length, 5);
  });

  test('saved by a job, to the root by its name "", too; a table cannot have that space', async (t) => {
    const { service, token, files } = await start(t);
    const api = await startExternalApi(t);
    const run = (opParams: unknown) =>
      service.call('POST', '/api/v1/executeJob', token, {
        appId: 'shop',
        operation: { opName: 'HTTPRequest', opParams },
      });
    const request = { url: `${api.url}/files/1000`, method: 'GET' };
    const target = { action: 'save to file', source: 'files', space: '', table: 'root.bin' };
    const saved = await run({ request, target });
    assert.equal(saved.status, 200, saved.text);
    assert.equal((await files('GET', '/files/root.bin')).bytes.length, 1000);
    const reference = { sourceName: 'files', spaceName: '', tableName: 'root.bin' };
    const sent = await run({
      request: {
        url: `${api.url}/upload`,
        method: 'POST',
        bodyType: 'JSON -> transmitSourceTable()',
        body: JSON.stringify(reference),
      },
    });
    assert.equal(sent.status, 200, sent.text);
    assert.equal(api.requestsTo('/upload')[0]?.body.length, 1000);
    const refused = await run({ request, target: { action: 'parse JSON', space: '', table: 't' } });
    assert.deepEqual(
      [refused.status, refused.body.result.path],
      [400, 'operation.opParams.target.space'],
      refused.text,
    );
  });

  test('a body of any type is taken as it is, even none and one that looks like a form', async (t) => {
    const { files } = await start(t);
    for (const type of [
      'application/json',
      'application/x-www-form-urlencoded',
      'text/plain',
      'x/y',
      undefined,
    ]) {
      const saved = await files('PUT', '/files/any', '{"a":', type);
      assert.ok(saved.status < 300, `${type}: ${saved.status}`);
      assert.equal((await files('GET', '/files/any')).text, '{"a":');
    }
    assert.equal((await files('PUT', '/files/empty')).status, 201);
    assert.equal((await files('GET', '/files/empty')).headers['content-length'], '0');
  });

  test('a download is never shown by a browser as a page of the service', async (t) => {
    const { files } = await start(t);
    await files('PUT', `/files/${encodeURIComponent('Zoë "1".html')}`, '<script>alert(1)</script>');
    const { headers } = await files('GET', `/files/${encodeURIComponent('Zoë "1".html')}`);
    assert.equal(headers['content-type'], 'application/octet-stream');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers['content-security-policy'], 'sandbox');
    assert.equal(
      headers['content-disposition'],
      `attachment; filename="Zo_ _1_.html"; filename*=UTF-8''Zo%C3%AB%20%221%22.html`,
    );
  });

  test('lists are read in keyset pages, by prefix, too', async (t) => {
    const { files } = await start(t);
    for (const name of ['a1', 'a2', 'a3', 'b1']) await files('PUT', `/files/s/${name}`, name);
    const first = (await files('GET', '/files?space=s&limit=2')).result;
    assert.deepEqual(
      [first.items.map(({ name }: { name: string }) => name), first.next],
      [['a1', 'a2'], 'a2'],
    );
    const second = (await files('GET', '/files?space=s&prefix=a&limit=2&after=a2')).result;
    assert.deepEqual([second.items.map(({ name }: { name: string }) => name), second.next], [['a3'], null]);
    for (const query of ['limit=0', 'limit=1001', 'space=/etc', 'space=..', 'sapce=x'])
      assert.equal((await files('GET', `/files?${query}`)).status, 400, query);
  });

  test('names cannot leave the folder', async (t) => {
    const { files } = await start(t);
    const escapes = [
      '..%2F..%2Flocal.sqlite',
      'a/%2e%2e/%2e%2e/x',
      '../../../../master.key',
      '%2Fetc%2Fpasswd',
      'a%5C..%5Cx',
      'a%00b',
      'a%2F',
      '.millrace-aside/x',
    ];
    for (const path of escapes) {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const refused = await files(method, `/files/${path}`, method === 'PUT' ? 'x' : undefined);
        assert.equal(refused.status, 400, `${method} ${path}`);
        assert.match(refused.result.message, /^the (?:name|space|path) /);
      }
    }
  });

  test('unknown sources and applications, and those of another type', async (t) => {
    const { service, files } = await start(t);
    for (const path of ['/local/x', '/fils/x', '/local']) {
      const refused = await files('GET', path);
      assert.deepEqual([refused.status, refused.result.code], [400, 'unknown_source'], path);
    }
    const token = await service.tokenOf('editor', { applications: ['other'] });
    const path = '/api/v1/applications/shop/files/files/x';
    assert.equal((await service.call('GET', path, token)).status, 403);
    assert.equal((await service.call('GET', path, null)).status, 401);
    assert.equal(
      (await service.call('GET', path.replace('shop', 'nowhere'), await service.tokenOf('viewer'))).status,
      404,
    );
    const wrong = await files('POST', '/files/a/b');
    assert.deepEqual([wrong.status, wrong.headers['allow']], [405, 'GET, PUT, DELETE']);
  });

  test('a viewer reads, an operator writes, an editor deletes', async (t) => {
    const viewer = await start(t, 'viewer');
    assert.equal((await viewer.files('GET', '/files')).status, 200);
    assert.equal((await viewer.files('PUT', '/files/x', 'x')).status, 403);
    const operator = await start(t, 'operator');
    assert.equal((await operator.files('PUT', '/files/x', 'x')).status, 201);
    assert.equal((await operator.files('DELETE', '/files/x')).status, 403);
  });

  test('an upload that breaks off leaves what was there before, and nothing aside', async (t) => {
    const { service, token, files, folder } = await start(t);
    await files('PUT', '/files/kept', 'before');
    const sending = httpRequest(`${service.url}${filesPath}/files/kept`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}`, 'content-length': 1_000_000 },
    });
    sending.on('error', () => {});
    sending.write(Buffer.alloc(200_000));
    const aside = () => readdir(join(folder, '.millrace-aside'));
    while ((await aside()).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    sending.destroy();
    while ((await aside()).length > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal((await files('GET', '/files/kept')).text, 'before');
  });

  test('a large file goes through in bounded memory, beyond the limit of other bodies', async (t) => {
    const { service, token } = await start(t);
    const chunk = randomBytes(1024 * 1024);
    const chunks = 64;
    assert.ok(chunks * chunk.length > service.settings.bodyLimitBytes);
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 5);
    const before = process.memoryUsage().rss;
    const call = (options: RequestInit = {}) =>
      fetch(`${service.url}${filesPath}/files/large`, {
        ...options,
        headers: { authorization: `Bearer ${token}` },
      });
    const sent = Readable.toWeb(Readable.from(Array.from({ length: chunks }, () => chunk)));
    const saved = await call({ method: 'PUT', body: sent as ReadableStream<Uint8Array>, duplex: 'half' });
    assert.equal(((await saved.json()) as { result: { bytes: number } }).result.bytes, chunks * chunk.length);
    const hash = createHash('sha256');
    const { body: received } = await call();
    let bytes = 0;
    for await (const part of received ?? []) {
      hash.update(part);
      bytes += part.length;
    }
    clearInterval(watch);
    assert.equal(bytes, chunks * chunk.length);
    const expected = createHash('sha256');
    for (let n = 0; n < chunks; n += 1) expected.update(chunk);
    assert.equal(hash.digest('hex'), expected.digest('hex'));
    // Sender and receiver are in this process, too.
    const grownMib = (most - before) / 1024 / 1024;
    assert.ok(grownMib < 100, `grew by ${grownMib} MiB for a file of ${chunks} MiB`);
  });
});
