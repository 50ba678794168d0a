import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { link, open, readFile, rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * The master keys, newest first: the first one encrypts, all of them decrypt. In a setting or a file they are
 * base64 of 32 bytes each, separated by commas or white space.
 */
export class MasterKeys {
  readonly #keys: readonly MasterKey[];

  private constructor(keys: readonly MasterKey[]) {
    this.#keys = keys;
  }

  static parse(text: string, origin: string): MasterKeys {
    const words = text.split(/[\s,]+/).filter(Boolean);
    if (words.length === 0) throw new MasterKeyError(`${origin} holds no master key`);
    return new MasterKeys(words.map((word, index) => parseKey(word, `${origin}, key ${index + 1}`)));
  }

  static generate(): MasterKeys {
    return new MasterKeys([asKey(randomBytes(KEY_BYTES))]);
  }

  get current(): MasterKey {
    return this.#keys[0] as MasterKey;
  }

  get count(): number {
    return this.#keys.length;
  }

  /** These keys with a new one before them. */
  withNewKey(): MasterKeys {
    return new MasterKeys([asKey(randomBytes(KEY_BYTES)), ...this.#keys]);
  }

  withoutOldKeys(): MasterKeys {
    return new MasterKeys([this.current]);
  }

  has(keyId: string): boolean {
    return this.#keys.some(({ id }) => id === keyId);
  }

  find(keyId: string): MasterKey {
    const key = this.#keys.find((candidate) => candidate.id === keyId);
    if (key) return key;
    const known = this.#keys.map(({ id }) => id).join(', ');
    throw new MasterKeyError(`a stored secret needs the master key ${keyId}; known: ${known}`);
  }

  /** The form of a key file. */
  serialize(): string {
    return this.#keys.map(({ bytes }) => `${bytes.toString('base64')}\n`).join('');
  }
}

interface MasterKey {
  /** Names the key in an envelope and gives nothing of it away. */
  readonly id: string;
  readonly bytes: Buffer;
}

export class MasterKeyError extends Error {
  override readonly name = 'MasterKeyError';
}

const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 'v1';

function parseKey(word: string, origin: string): MasterKey {
  const bytes = Buffer.from(word, 'base64');
  if (bytes.length !== KEY_BYTES) {
    throw new MasterKeyError(
      `${origin}: must be ${KEY_BYTES} bytes in base64 (openssl rand -base64 ${KEY_BYTES})`,
    );
  }
  return asKey(bytes);
}

function asKey(bytes: Buffer): MasterKey {
  return {
    id: createHash('sha256').update('millrace key id\0').update(bytes).digest('hex').slice(0, 12),
    bytes,
  };
}

/**
 * Encrypts with AES-256-GCM. The envelope is `v1.<key id>.<iv, tag, ciphertext in base64url>`; `name` says what the
 * secret is of and is authenticated with it, so that an envelope cannot be moved to another record.
 */
export function seal(keys: MasterKeys, name: string, secret: string): string {
  const { id, bytes } = keys.current;
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', bytes, iv).setAAD(Buffer.from(`${VERSION}.${id}.${name}`));
  const ciphertext = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
  return `${VERSION}.${id}.${Buffer.concat([iv, cipher.getAuthTag(), ciphertext]).toString('base64url')}`;
}

export function unseal(keys: MasterKeys, name: string, envelope: string): string {
  const [version, keyId, payload] = envelope.split('.');
  if (version !== VERSION || !keyId || !payload) {
    throw new MasterKeyError(`the stored secret "${name}" is not in a form that this millrace knows`);
  }
  const bytes = Buffer.from(payload, 'base64url');
  const decipher = createDecipheriv('aes-256-gcm', keys.find(keyId).bytes, bytes.subarray(0, IV_BYTES))
    .setAAD(Buffer.from(`${VERSION}.${keyId}.${name}`))
    .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  try {
    return decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  } catch (cause) {
    throw new MasterKeyError(`the stored secret "${name}" was damaged or changed`, { cause });
  }
}

export function keyIdOf(envelope: string): string {
  return envelope.split('.')[1] ?? '';
}

/** Reads the key file, or creates it with a first key; readable by its owner alone. */
export async function readOrCreateKeyFile(file: string): Promise<MasterKeys> {
  const existing = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (existing !== null) return MasterKeys.parse(existing, file);
  const aside = await writeAside(file, MasterKeys.generate());
  try {
    await link(aside, file);
    await syncFolder(dirname(file));
  } catch (error) {
    // Another process has created it in between; its key counts.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await unlink(aside);
  }
  return readOrCreateKeyFile(file);
}

export async function replaceKeyFile(file: string, keys: MasterKeys): Promise<void> {
  await rename(await writeAside(file, keys), file);
  await syncFolder(dirname(file));
}

async function writeAside(file: string, keys: MasterKeys): Promise<string> {
  const aside = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  const handle = await open(aside, 'wx', 0o600);
  try {
    await handle.writeFile(keys.serialize());
    await handle.sync();
  } finally {
    await handle.close();
  }
  return aside;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
