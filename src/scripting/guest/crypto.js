import {
  base64Decode,
  base64Encode,
  bytesOf,
  hexDecode,
  hexEncode,
  utf8Decode,
  utf8Encode,
} from './bytes.js';
import { Bytes, freeze, isSafeInteger, min, Refused, setBytes, slice, subarray } from './intrinsics.js';
import { md5, sha1 } from './md5-sha1.js';
import { sha256, sha512 } from './sha2.js';

const MOST_RANDOM_BYTES = 65_536;

function algorithmOf(/** @type {any} */ name) {
  switch (name) {
    case 'md5':
      return { digest: md5, blockBytes: 64 };
    case 'sha1':
      return { digest: sha1, blockBytes: 64 };
    case 'sha256':
      return { digest: sha256, blockBytes: 64 };
    case 'sha512':
      return { digest: sha512, blockBytes: 128 };
    default:
      throw new Refused('the algorithm must be one of md5, sha1, sha256, sha512');
  }
}

function encoded(/** @type {Uint8Array} */ bytes, /** @type {any} */ encoding) {
  switch (encoding) {
    case 'hex':
      return hexEncode(bytes);
    case 'base64':
      return base64Encode(bytes);
    case 'base64url':
      return base64Encode(bytes, true);
    case 'bytes':
      return bytes;
    default:
      throw new Refused('the encoding must be one of hex, base64, base64url, bytes');
  }
}

function textOf(/** @type {any} */ text) {
  if (typeof text !== 'string') throw new Refused('the text to decode must be a string');
  return text;
}

function hmac(
  /** @type {any} */ algorithm,
  /** @type {any} */ key,
  /** @type {any} */ data,
  encoding = 'hex',
) {
  const { digest, blockBytes } = algorithmOf(algorithm);
  let secret = bytesOf(key, 'the key');
  if (secret.length > blockBytes) secret = digest(secret);
  const message = bytesOf(data, 'the data');
  const inner = new Bytes(blockBytes + message.length);
  setBytes(inner, secret);
  setBytes(inner, message, blockBytes);
  for (let i = 0; i < blockBytes; i++) inner[i] ^= 0x36;
  const innerDigest = digest(inner);
  const outer = new Bytes(blockBytes + innerDigest.length);
  setBytes(outer, secret);
  setBytes(outer, innerDigest, blockBytes);
  for (let i = 0; i < blockBytes; i++) outer[i] ^= 0x5c;
  return encoded(digest(outer), encoding);
}

/** Random bytes: SHA-256 over the call's seed, which comes from the operating system, and a counter. */
const pool = { seed: new Bytes(40), counter: 0 };

/** Each call gets 32 fresh bytes, as hexadecimal text. */
export function seedRandom(/** @type {string} */ hex) {
  setBytes(pool.seed, hexDecode(hex));
  pool.counter = 0;
}

function randomBytes(/** @type {any} */ count) {
  if (!isSafeInteger(count) || count < 0 || count > MOST_RANDOM_BYTES) {
    throw new Refused(`the number of random bytes must be from 0 to ${MOST_RANDOM_BYTES}`);
  }
  const bytes = new Bytes(count);
  for (let at = 0; at < count; at += 32) {
    const counter = pool.counter++;
    for (let i = 0; i < 6; i++) pool.seed[32 + i] = counter / 256 ** i;
    setBytes(bytes, subarray(sha256(pool.seed), 0, min(32, count - at)), at);
  }
  return bytes;
}

function uuid() {
  const bytes = randomBytes(16);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = hexEncode(bytes);
  return `${slice(hex, 0, 8)}-${slice(hex, 8, 12)}-${slice(hex, 12, 16)}-${slice(hex, 16, 20)}-${slice(hex, 20)}`;
}

/** The global `crypto` of scripts. */
export const crypto = freeze({
  hash: (/** @type {any} */ algorithm, /** @type {any} */ data, encoding = 'hex') =>
    encoded(algorithmOf(algorithm).digest(bytesOf(data, 'the data')), encoding),
  hmac,
  randomBytes: (/** @type {any} */ count, encoding = 'bytes') => encoded(randomBytes(count), encoding),
  uuid,
  utf8Encode: (/** @type {any} */ text) => utf8Encode(textOf(text)),
  utf8Decode,
  hexEncode: (/** @type {any} */ data) => hexEncode(bytesOf(data, 'the data')),
  hexDecode: (/** @type {any} */ text) => hexDecode(textOf(text)),
  base64Encode: (/** @type {any} */ data) => base64Encode(bytesOf(data, 'the data')),
  base64UrlEncode: (/** @type {any} */ data) => base64Encode(bytesOf(data, 'the data'), true),
  base64Decode: (/** @type {any} */ text) => base64Decode(textOf(text)),
});
