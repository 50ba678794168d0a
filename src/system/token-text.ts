import { hash, randomBytes } from 'node:crypto';

/**
 * A token is `<prefix>_<id of its pair>.<256 random bits>`. The id finds the record and sorts by time, so that new
 * records go to the end of every index: with random hashes as keys a commit took 1.7 times as long. Only the
 * SHA-256 of the whole text is kept.
 */
export type TokenKind = 'access' | 'refresh';

export interface ParsedToken {
  kind: TokenKind;
  pairId: string;
  hash: string;
}

const prefixes: Record<TokenKind, string> = { access: 'mra', refresh: 'mrr' };
const FORM = /^(mra|mrr)_([0-9a-z]{25})\.[\w-]{43}$/;
const RANDOM_BYTES = 32;
const POOL_BYTES = 8192;

export function newPairId(now: number): string {
  return now.toString(36).padStart(9, '0') + random(8).toString('hex');
}

export function newToken(kind: TokenKind, pairId: string): string {
  return `${prefixes[kind]}_${pairId}.${random(RANDOM_BYTES).toString('base64url')}`;
}

/** null: no token of this service ever looked so. */
export function parseToken(text: string): ParsedToken | null {
  const [, prefix, pairId] = FORM.exec(text) ?? [];
  if (pairId === undefined) return null;
  return { kind: prefix === prefixes.access ? 'access' : 'refresh', pairId, hash: hashOf(text) };
}

export function hashOf(token: string): string {
  return hash('sha256', token, 'base64url');
}

let pool = Buffer.alloc(0);

/** One call of the system for many tokens; no byte is given out twice. */
function random(bytes: number): Buffer {
  if (pool.length < bytes) pool = randomBytes(POOL_BYTES);
  const given = pool.subarray(0, bytes);
  pool = pool.subarray(bytes);
  return given;
}
