import { Bytes, floor, setBytes } from './intrinsics.js';

const Words = Uint32Array;
const { sin, abs } = Math;

/** The message with its padding: 0x80, zeros, the length in bits. */
export function padded(
  /** @type {Uint8Array} */ data,
  /** @type {number} */ blockBytes,
  isLittleEndian = false,
) {
  const lengthBytes = blockBytes / 8;
  const blocks = floor((data.length + lengthBytes) / blockBytes) + 1;
  const message = new Bytes(blocks * blockBytes);
  setBytes(message, data);
  message[data.length] = 0x80;
  let bits = data.length * 8;
  for (let i = 0; i < 8; i++) {
    message[isLittleEndian ? message.length - 8 + i : message.length - 1 - i] = bits % 256;
    bits = floor(bits / 256);
  }
  return message;
}

export function bigEndian(/** @type {Uint32Array} */ words, /** @type {number} */ count) {
  const bytes = new Bytes(count * 4);
  for (let i = 0; i < bytes.length; i++) bytes[i] = words[i >> 2] >>> (24 - (i % 4) * 8);
  return bytes;
}

export function wordAt(/** @type {Uint8Array} */ bytes, /** @type {number} */ at) {
  return (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
}

const rotateLeft = (/** @type {number} */ x, /** @type {number} */ n) => (x << n) | (x >>> (32 - n));

const MD5_SHIFTS = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
const MD5_SINES = new Words(64);
for (let i = 0; i < 64; i++) MD5_SINES[i] = abs(sin(i + 1)) * 2 ** 32;

export function md5(/** @type {Uint8Array} */ data) {
  const message = padded(data, 64, true);
  let a0 = 0x67452301;
  let b0 = 0xefcdab89 | 0;
  let c0 = 0x98badcfe | 0;
  let d0 = 0x10325476;
  const block = new Words(16);
  for (let at = 0; at < message.length; at += 64) {
    for (let i = 0; i < 16; i++) {
      const from = at + i * 4;
      block[i] =
        message[from] | (message[from + 1] << 8) | (message[from + 2] << 16) | (message[from + 3] << 24);
    }
    let a = a0;
    let b = b0;
    let c = c0;
    let d = d0;
    for (let i = 0; i < 64; i++) {
      const round = i >> 4;
      const mixed =
        round === 0
          ? (b & c) | (~b & d)
          : round === 1
            ? (d & b) | (~d & c)
            : round === 2
              ? b ^ c ^ d
              : c ^ (b | ~d);
      const word = block[round === 0 ? i : (round === 1 ? 5 * i + 1 : round === 2 ? 3 * i + 5 : 7 * i) & 15];
      const sum = (a + mixed + MD5_SINES[i] + word) | 0;
      a = d;
      d = c;
      c = b;
      b = (b + rotateLeft(sum, MD5_SHIFTS[round * 4 + (i & 3)])) | 0;
    }
    a0 = (a0 + a) | 0;
    b0 = (b0 + b) | 0;
    c0 = (c0 + c) | 0;
    d0 = (d0 + d) | 0;
  }
  const digest = new Bytes(16);
  const state = new Words(4);
  state[0] = a0;
  state[1] = b0;
  state[2] = c0;
  state[3] = d0;
  for (let i = 0; i < 16; i++) digest[i] = state[i >> 2] >>> ((i % 4) * 8);
  return digest;
}

export function sha1(/** @type {Uint8Array} */ data) {
  const message = padded(data, 64);
  const state = new Words([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0]);
  const w = new Words(80);
  for (let at = 0; at < message.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = wordAt(message, at + i * 4);
    for (let i = 16; i < 80; i++) w[i] = rotateLeft(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    let a = state[0];
    let b = state[1];
    let c = state[2];
    let d = state[3];
    let e = state[4];
    for (let i = 0; i < 80; i++) {
      const mixed =
        i < 20
          ? ((b & c) | (~b & d)) + 0x5a827999
          : i < 40
            ? (b ^ c ^ d) + 0x6ed9eba1
            : i < 60
              ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
              : (b ^ c ^ d) + 0xca62c1d6;
      const next = (rotateLeft(a, 5) + mixed + e + w[i]) | 0;
      e = d;
      d = c;
      c = rotateLeft(b, 30);
      b = a;
      a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
  }
  return bigEndian(state, 5);
}
