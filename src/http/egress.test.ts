import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { egressRefusal } from './egress.ts';
import { addressBytes } from './ip-address.ts';
import * as support from './testing.ts';

const { failure, get, httpClient, httpServer, sendOptions } = support;

const NEVER = [
  '0.0.0.0', '0.1.2.3', '169.254.0.1', '169.254.169.254', '169.254.170.2', '100.100.100.200', '168.63.129.16',
  '192.0.0.192', '224.0.0.1', '239.255.255.250', '240.0.0.1', '255.255.255.255', '::', 'fe80::1', 'fe80::1%eth0',
  'febf::1', 'ff02::1', 'fd00:ec2::254', 'fd00:ec2:0:0:0:0:0:254', 'fd20:ce::254', '::ffff:169.254.169.254',
  '::ffff:a9fe:a9fe', '::169.254.169.254', '::ffff:0:169.254.169.254', '64:ff9b::169.254.169.254', '64:ff9b::a9fe:a9fe',
  '64:ff9b:1::1', '2002:a9fe:a9fe::1', '2001:0:a9fe:a9fe::1', '2001:0:808:808:0:0:5601:5601', '2a00::5efe:169.254.169.254',
  '2a00::200:5efe:a9fe:a9fe', '::ffff:0.0.0.0',
]; // prettier-ignore
const PRIVATE = [
  '127.0.0.1', '127.255.255.254', '10.0.0.1', '10.255.255.255', '172.16.0.1', '172.31.255.255', '192.168.0.1', '100.64.0.1',
  '100.127.255.255', '198.18.0.1', '::1', 'fc00::1', 'fdff::1', 'fec0::1', '::ffff:127.0.0.1', '::ffff:10.0.0.1',
  '64:ff9b::10.0.0.1', '2002:7f00:1::', '::127.0.0.1', '::ffff:7f00:1',
]; // prettier-ignore
const PUBLIC = [
  '1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '128.0.0.0',
  '169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '192.167.255.255', '192.169.0.0', '223.255.255.255',
  '2606:4700::1111', '2a00:1450:4001::200e', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2002:808:808::1', 'fe00::1', 'fbff::1',
]; // prettier-ignore

test('the table of addresses', () => {
  for (const address of NEVER) {
    for (const allowPrivate of [true, false])
      assert.match(egressRefusal(address, { allowPrivate }) ?? '', /never/, address);
  }
  for (const address of PRIVATE) {
    assert.equal(egressRefusal(address, { allowPrivate: true }), null, address);
    assert.match(egressRefusal(address, { allowPrivate: false }) ?? '', /not allowed here/, address);
  }
  for (const address of PUBLIC) assert.equal(egressRefusal(address, { allowPrivate: false }), null, address);
  for (const text of ['', 'localhost', '1.2.3', '300.1.1.1', ':::']) {
    assert.equal(egressRefusal(text, { allowPrivate: true }), 'no IP address', text);
  }
});

test('an IPv4 address in any dress is judged as it is itself', () => {
  const policies = fc.boolean().map((allowPrivate) => ({ allowPrivate }));
  const hex = (a: number, b: number) => ((a << 8) | b).toString(16);
  fc.assert(
    fc.property(fc.ipV4(), policies, (address, policy) => {
      const plain = egressRefusal(address, policy);
      const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
      const low = `${hex(a, b)}:${hex(c, d)}`;
      for (const dressed of [
        `::ffff:${address}`,
        `::ffff:${low}`,
        `64:ff9b::${low}`,
        `2002:${low}::5`,
        `::ffff:0:${low}`,
      ]) {
        assert.equal(egressRefusal(dressed, policy), plain, dressed);
      }
    }),
  );
});

test('every way to write an IPv6 address has the same bytes', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }), (groups) => {
      const long = groups.map((group) => group.toString(16).padStart(4, '0')).join(':');
      const short = new URL(`http://[${long}]/`).hostname.slice(1, -1);
      const expected = groups.flatMap((group) => [group >> 8, group & 255]);
      assert.deepEqual([...(addressBytes(long) ?? [])], expected);
      assert.deepEqual([...(addressBytes(short) ?? [])], expected);
    }),
  );
});

test('literal addresses in odd notations', async (t) => {
  const client = httpClient(t, { allowPrivate: false });
  const hosts = [
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.1',
    '0x7f.1',
    '017700000001',
    '[::1]',
    '[::ffff:7f00:1]',
  ];
  for (const host of [...hosts, '１２７.0.0.1', 'localhost', 'LOCALHOST.', 'a.localhost', '127.0.0.1.']) {
    await assert.rejects(
      client.send(get(`http://${host}:1/`), sendOptions()),
      failure('egress', /not allowed here/),
      host,
    );
  }
  for (const host of ['2852039166', '0xa9fea9fe', '0251.0376.0251.0376', '[::ffff:a9fe:a9fe]']) {
    await assert.rejects(
      client.send(get(`http://${host}/`), sendOptions()),
      failure('egress', /never allowed/),
      host,
    );
  }
  for (const url of ['ftp://example.com/', 'file:///etc/passwd', 'data:text/plain,x', 'unix:///run/x']) {
    await assert.rejects(
      client.send(get(url), sendOptions()),
      failure('egress', /only http: and https:/),
      url,
    );
  }
});

test('a name is judged by the addresses that it has at the moment of connecting', async (t) => {
  let hits = 0;
  const url = await httpServer(t, (_request, response) => {
    hits++;
    response.end('ok');
  });
  const { port } = new URL(url);
  let answers = [{ address: '127.0.0.1', family: 4 }];
  const lookup = async () => answers;
  const strict = httpClient(t, { allowPrivate: false }, { lookup });
  const request = get(`http://api.test:${port}/`);
  await assert.rejects(strict.send(request, sendOptions()), failure('egress', /api\.test \(127\.0\.0\.1\)/));
  answers = [{ address: '::ffff:169.254.169.254', family: 6 }];
  const open = httpClient(t, { allowPrivate: true }, { lookup });
  await assert.rejects(open.send(request, sendOptions()), failure('egress', /never allowed/));
  assert.equal(hits, 0);
  answers = [{ address: '169.254.1.1', family: 4 }, { address: '127.0.0.1', family: 4 }]; // prettier-ignore
  assert.equal((await open.send(request, sendOptions())).statusCode, 200, 'the allowed ones are used');
  assert.equal(hits, 1);
});

test('names that this system resolves to loopback', async (t) => {
  const client = httpClient(t, { allowPrivate: false });
  await assert.rejects(client.send(get('http://localhost:1/'), sendOptions()), failure('egress'));
  const missing = client.send(get('http://no-such-host.invalid/'), sendOptions());
  await assert.rejects(missing, failure('dns', /no-such-host\.invalid/));
});
