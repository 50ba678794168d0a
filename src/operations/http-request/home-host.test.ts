import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HomeHost } from './home-host.ts';

const trusted = (home: HomeHost, ...urls: string[]) => urls.map((url) => home.trusts(new URL(url)));

test('the origin of the first request is home, and no other', () => {
  const withheld: string[] = [];
  const home = new HomeHost(null, (origin) => withheld.push(origin));
  assert.deepEqual(
    trusted(
      home,
      'https://a.test/x',
      'https://a.test:443/y',
      'https://a.test:444/',
      'https://b.test/',
      'http://a.test/',
    ),
    [true, true, false, false, false],
  );
  assert.deepEqual(trusted(home, 'https://b.test/again'), [false]);
  assert.deepEqual(withheld, ['https://a.test:444', 'https://b.test', 'http://a.test'], 'each once');
});

test('where the source has a base URL, that is home', () => {
  const home = new HomeHost({ baseUrl: 'https://a.test/v1' }, () => {});
  assert.deepEqual(trusted(home, 'https://b.test/', 'https://a.test/'), [false, true]);
});

test('allowed hosts, with or without a port, in any case; but nothing meant for TLS in clear', () => {
  const home = new HomeHost({ allowedHosts: ['B.test', 'c.test:8443', 'a.test'] }, () => {});
  assert.deepEqual(
    trusted(
      home,
      'https://a.test/',
      'https://b.test:1/',
      'https://c.test:8443/',
      'https://c.test/',
      'https://x.b.test/',
    ),
    [true, true, true, false, false],
  );
  assert.deepEqual(trusted(home, 'http://b.test/', 'http://a.test/'), [false, false]);
  const plain = new HomeHost({ allowedHosts: ['b.test'] }, () => {});
  assert.deepEqual(trusted(plain, 'http://a.test/', 'http://b.test/', 'https://b.test/'), [true, true, true]);
});
