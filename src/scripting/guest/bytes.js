import { Bytes, charCodeAt, codePointAt, fromCharCode, fromCodePoint, Refused, tagOf } from './intrinsics.js';

const HEX = '0123456789abcdef';
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const REPLACEMENT = 0xfffd;

/** Text as UTF-8; bytes as they are. */
export function bytesOf(/** @type {any} */ data, /** @type {string} */ name) {
  if (typeof data === 'string') return utf8Encode(data);
  if (tagOf(data) === '[object Uint8Array]') return data;
  throw new Refused(`${name} must be a string or a Uint8Array`);
}

export function utf8Encode(/** @type {string} */ text) {
  const bytes = new Bytes(utf8Length(text));
  let to = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = charCodeAt(text, i);
    if (unit < 0x80) {
      bytes[to++] = unit;
      continue;
    }
    let point = codePointAt(text, i);
    if (point > 0xffff) i += 1;
    else if (point >= 0xd800 && point <= 0xdfff) point = REPLACEMENT;
    if (point < 0x800) {
      bytes[to++] = 0xc0 | (point >> 6);
    } else {
      if (point < 0x10000) {
        bytes[to++] = 0xe0 | (point >> 12);
      } else {
        bytes[to++] = 0xf0 | (point >> 18);
        bytes[to++] = 0x80 | ((point >> 12) & 63);
      }
      bytes[to++] = 0x80 | ((point >> 6) & 63);
    }
    bytes[to++] = 0x80 | (point & 63);
  }
  return bytes;
}

function utf8Length(/** @type {string} */ text) {
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = charCodeAt(text, i);
    if (unit < 0x80) length += 1;
    else if (unit < 0x800) length += 2;
    else if (codePointAt(text, i) > 0xffff) {
      length += 4;
      i += 1;
    } else length += 3;
  }
  return length;
}

/** Refuses what is not UTF-8, overlong forms and surrogates included. */
export function utf8Decode(/** @type {any} */ bytes) {
  if (tagOf(bytes) !== '[object Uint8Array]') throw new Refused('utf8Decode needs a Uint8Array');
  let text = '';
  for (let i = 0; i < bytes.length;) {
    const first = bytes[i++];
    if (first < 0x80) {
      text += fromCharCode(first);
      continue;
    }
    const more =
      first >= 0xf0 && first < 0xf5
        ? 3
        : first >= 0xe0 && first < 0xf0
          ? 2
          : first >= 0xc2 && first < 0xe0
            ? 1
            : 0;
    let point = more === 0 ? -1 : first & (0x3f >> more);
    for (let n = 0; n < more && point >= 0; n++) {
      const next = bytes[i++];
      point = next >= 0x80 && next < 0xc0 ? (point << 6) | (next & 63) : -1;
    }
    const least = more === 3 ? 0x10000 : more === 2 ? 0x800 : 0x80;
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
      throw new Refused('the bytes are not UTF-8');
    }
    text += fromCodePoint(point);
  }
  return text;
}

export function hexEncode(/** @type {Uint8Array} */ bytes) {
  let text = '';
  for (let i = 0; i < bytes.length; i++) text += HEX[bytes[i] >> 4] + HEX[bytes[i] & 15];
  return text;
}

export function hexDecode(/** @type {string} */ text) {
  const bytes = new Bytes(text.length / 2);
  for (let i = 0; i < text.length; i++) {
    const value = hexValue(charCodeAt(text, i));
    if (value < 0 || text.length % 2 === 1) throw new Refused('the text is not hexadecimal');
    bytes[i >> 1] |= i % 2 === 0 ? value << 4 : value;
  }
  return bytes;
}

function hexValue(/** @type {number} */ code) {
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

export function base64Encode(/** @type {Uint8Array} */ bytes, isUrl = false) {
  const alphabet = isUrl ? BASE64URL : BASE64;
  let text = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i;
    const word = (bytes[i] << 16) | ((left > 1 ? bytes[i + 1] : 0) << 8) | (left > 2 ? bytes[i + 2] : 0);
    text += alphabet[word >> 18] + alphabet[(word >> 12) & 63];
    if (left > 1) text += alphabet[(word >> 6) & 63];
    else if (!isUrl) text += '=';
    if (left > 2) text += alphabet[word & 63];
    else if (!isUrl) text += '=';
  }
  return text;
}

/** Both alphabets; with or without `=` at the end. */
export function base64Decode(/** @type {string} */ text) {
  let length = text.length;
  while (length > 0 && text.length - length < 2 && text[length - 1] === '=') length -= 1;
  if (length % 4 === 1) throw new Refused('the text is not base64');
  const bytes = new Bytes((length * 3) >> 2);
  let word = 0;
  let to = 0;
  for (let i = 0; i < length; i++) {
    const value = base64Value(charCodeAt(text, i));
    if (value < 0) throw new Refused('the text is not base64');
    word = (word << 6) | value;
    const bits = ((i % 4) + 1) * 6;
    if (i % 4 > 0) bytes[to++] = (word >> (bits % 8)) & 255;
    if (i % 4 === 3) word = 0;
  }
  return bytes;
}

function base64Value(/** @type {number} */ code) {
  if (code >= 65 && code <= 90) return code - 65;
  if (code >= 97 && code <= 122) return code - 71;
  if (code >= 48 && code <= 57) return code + 4;
  if (code === 43 || code === 45) return 62;
  return code === 47 || code === 95 ? 63 : -1;
}
