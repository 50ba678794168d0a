import { bigEndian, padded, wordAt } from './md5-sha1.js';

const Words = Uint32Array;
const toBigint = BigInt;
const toNumber = Number;
const rotateRight = (/** @type {number} */ x, /** @type {number} */ n) => (x >>> n) | (x << (32 - n));

/** Made at the first use: 0.5 ms that most contexts never need. @type {{ k: Uint32Array, h: Uint32Array } | undefined} */
let constants;

/**
 * The first 64 bits of the fractions of the cube roots (k) and square roots (h) of the first primes, as pairs of
 * words. SHA-256 takes the first word of each pair.
 */
function sha2Constants() {
  const k = new Words(160);
  const h = new Words(16);
  for (let candidate = 2, count = 0; count < 80; candidate++) {
    if (!isPrime(candidate)) continue;
    putWords(k, count, root(toBigint(candidate) << 192n, 3n));
    if (count < 8) putWords(h, count, root(toBigint(candidate) << 128n, 2n));
    count += 1;
  }
  return { k, h };
}

function isPrime(/** @type {number} */ candidate) {
  for (let i = 2; i * i <= candidate; i++) if (candidate % i === 0) return false;
  return true;
}

function putWords(/** @type {Uint32Array} */ to, /** @type {number} */ index, /** @type {bigint} */ value) {
  to[index * 2] = toNumber((value >> 32n) & 0xffffffffn);
  to[index * 2 + 1] = toNumber(value & 0xffffffffn);
}

/** The whole part of a root, by Newton's method from above. */
function root(/** @type {bigint} */ value, /** @type {bigint} */ degree) {
  let guess = 1n << 72n;
  for (;;) {
    const next = ((degree - 1n) * guess + value / guess ** (degree - 1n)) / degree;
    if (next >= guess) return guess;
    guess = next;
  }
}

export function sha256(/** @type {Uint8Array} */ data) {
  const message = padded(data, 64);
  constants ??= sha2Constants();
  const { k, h } = constants;
  const state = new Words(8);
  for (let i = 0; i < 8; i++) state[i] = h[i * 2];
  const w = new Words(64);
  for (let at = 0; at < message.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = wordAt(message, at + i * 4);
    for (let i = 16; i < 64; i++) {
      const s0 = rotateRight(w[i - 15], 7) ^ rotateRight(w[i - 15], 18) ^ (w[i - 15] >>> 3);
      const s1 = rotateRight(w[i - 2], 17) ^ rotateRight(w[i - 2], 19) ^ (w[i - 2] >>> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    compress256(state, w, k);
  }
  return bigEndian(state, 8);
}

function compress256(
  /** @type {Uint32Array} */ state,
  /** @type {Uint32Array} */ w,
  /** @type {Uint32Array} */ k,
) {
  let a = state[0] | 0;
  let b = state[1] | 0;
  let c = state[2] | 0;
  let d = state[3] | 0;
  let e = state[4] | 0;
  let f = state[5] | 0;
  let g = state[6] | 0;
  let h = state[7] | 0;
  for (let i = 0; i < 64; i++) {
    const s1 = rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + k[i * 2] + w[i]) | 0;
    const s0 = rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

/** Each 64-bit word is a pair (high, low): eight times as fast as with BigInt. */
export function sha512(/** @type {Uint8Array} */ data) {
  const message = padded(data, 128);
  constants ??= sha2Constants();
  const { k, h } = constants;
  const state = new Words(h);
  const w = new Words(160);
  for (let at = 0; at < message.length; at += 128) {
    for (let i = 0; i < 32; i++) w[i] = wordAt(message, at + i * 4);
    for (let i = 32; i < 160; i += 2) schedule512(w, i);
    compress512(state, w, k);
  }
  return bigEndian(state, 16);
}

function schedule512(/** @type {Uint32Array} */ w, /** @type {number} */ i) {
  const h15 = w[i - 30];
  const l15 = w[i - 29];
  const h2 = w[i - 4];
  const l2 = w[i - 3];
  const s0h = ((h15 >>> 1) | (l15 << 31)) ^ ((h15 >>> 8) | (l15 << 24)) ^ (h15 >>> 7);
  const s0l = ((l15 >>> 1) | (h15 << 31)) ^ ((l15 >>> 8) | (h15 << 24)) ^ ((l15 >>> 7) | (h15 << 25));
  const s1h = ((h2 >>> 19) | (l2 << 13)) ^ ((l2 >>> 29) | (h2 << 3)) ^ (h2 >>> 6);
  const s1l = ((l2 >>> 19) | (h2 << 13)) ^ ((h2 >>> 29) | (l2 << 3)) ^ ((l2 >>> 6) | (h2 << 26));
  const low = w[i - 31] + (s0l >>> 0) + w[i - 13] + (s1l >>> 0);
  w[i + 1] = low;
  w[i] = w[i - 32] + s0h + w[i - 14] + s1h + carry(low);
}

const carry = (/** @type {number} */ sum) => (sum / 4294967296) | 0;

function compress512(
  /** @type {Uint32Array} */ state,
  /** @type {Uint32Array} */ w,
  /** @type {Uint32Array} */ k,
) {
  const v = new Words(state);
  for (let i = 0; i < 160; i += 2) {
    const eh = v[8];
    const el = v[9];
    const s1h = ((eh >>> 14) | (el << 18)) ^ ((eh >>> 18) | (el << 14)) ^ ((el >>> 9) | (eh << 23));
    const s1l = ((el >>> 14) | (eh << 18)) ^ ((el >>> 18) | (eh << 14)) ^ ((eh >>> 9) | (el << 23));
    const chh = (eh & v[10]) ^ (~eh & v[12]);
    const chl = (el & v[11]) ^ (~el & v[13]);
    const t1low = v[15] + (s1l >>> 0) + (chl >>> 0) + k[i + 1] + w[i + 1];
    const t1h = (v[14] + s1h + chh + k[i] + w[i] + carry(t1low)) | 0;
    const t1l = t1low >>> 0;
    const ah = v[0];
    const al = v[1];
    const s0h = ((ah >>> 28) | (al << 4)) ^ ((al >>> 2) | (ah << 30)) ^ ((al >>> 7) | (ah << 25));
    const s0l = ((al >>> 28) | (ah << 4)) ^ ((ah >>> 2) | (al << 30)) ^ ((ah >>> 7) | (al << 25));
    const majh = (ah & v[2]) ^ (ah & v[4]) ^ (v[2] & v[4]);
    const majl = (al & v[3]) ^ (al & v[5]) ^ (v[3] & v[5]);
    const t2low = (s0l >>> 0) + (majl >>> 0);
    for (let n = 15; n >= 2; n--) v[n] = v[n - 2];
    const newE = v[9] + t1l;
    v[8] = v[8] + t1h + carry(newE);
    v[9] = newE;
    const newA = t1l + t2low;
    v[1] = newA;
    v[0] = t1h + s0h + majh + carry(newA);
  }
  for (let n = 0; n < 16; n += 2) {
    const low = state[n + 1] + v[n + 1];
    state[n] = state[n] + v[n] + carry(low);
    state[n + 1] = low;
  }
}
