import { createHmac, createSecretKey, randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';

export interface SecretHashingSettings {
  argon2MemoryKib: number;
  argon2Passes: number;
  /** How many hashes are computed at once. */
  argon2Concurrency: number;
  /** How long a secret that was right is remembered, as a keyed hash; 0: not at all. */
  verifiedSecretSeconds: number;
}

/** A caller beyond these is turned away instead of waiting for minutes. */
const WAITING = { normal: 256, suspect: 64 } as const;
const REMEMBERED = 10_000;

/** `suspect`: after many failures; such callers wait until nobody else does. */
export type Lane = keyof typeof WAITING;

export class HashingOverloaded extends Error {
  override readonly name = 'HashingOverloaded';
}

/**
 * argon2id for client secrets and passwords. The work is done on libuv's threads, a bounded number at once. A
 * secret that was right is remembered for a short time under a key that only this process has, so that a client
 * which asks for many tokens pays for argon2 once.
 */
export class SecretHashing {
  readonly #settings: SecretHashingSettings;
  readonly #now: () => number;
  readonly #waiting: Record<Lane, (() => void)[]> = { normal: [], suspect: [] };
  #running = 0;
  /** A KeyObject: with a plain buffer each HMAC would prepare the key anew. */
  readonly #memoryKey = createSecretKey(randomBytes(32));
  readonly #remembered = new Map<string, number>();
  /** The same secret of the same client is verified once for all who wait for it. */
  readonly #underWay = new Map<string, Promise<boolean>>();
  #decoy: Promise<string> | undefined;

  constructor(settings: SecretHashingSettings, now: () => number = Date.now) {
    this.#settings = settings;
    this.#now = now;
  }

  hash(secret: string): Promise<string> {
    return this.#inTurn(() =>
      hash(secret, {
        algorithm: ARGON2ID,
        memoryCost: this.#settings.argon2MemoryKib,
        timeCost: this.#settings.argon2Passes,
        parallelism: 1,
      }),
    );
  }

  /** Whether the secret was found right a short time ago: cheap, and true only for the very same hash. */
  remembers(secret: string, argon2: string): boolean {
    const until = this.#remembered.get(this.#memoryOf(secret, argon2));
    return until !== undefined && until > this.#now();
  }

  async verify(secret: string, argon2: string, lane: Lane): Promise<boolean> {
    const memory = this.#memoryOf(secret, argon2);
    const underWay = this.#underWay.get(memory);
    if (underWay) return underWay;
    const verification = this.#inTurn(() => verify(argon2, secret), lane);
    this.#underWay.set(memory, verification);
    try {
      const right = await verification;
      if (right) this.#remember(memory);
      return right;
    } finally {
      this.#underWay.delete(memory);
    }
  }

  /** Takes as long as verifying does, so that the time of an answer does not tell whether a name exists. */
  async verifyNothing(secret: string, lane: Lane): Promise<false> {
    this.#decoy ??= this.hash(randomBytes(16).toString('hex'));
    const decoy = await this.#decoy;
    await this.#inTurn(() => verify(decoy, secret), lane);
    return false;
  }

  async #inTurn<Result>(work: () => Promise<Result>, lane: Lane = 'normal'): Promise<Result> {
    if (this.#running >= this.#settings.argon2Concurrency) {
      const waiting = this.#waiting[lane];
      if (waiting.length >= WAITING[lane])
        throw new HashingOverloaded('too many secrets wait to be verified');
      await new Promise<void>((turn) => waiting.push(turn));
    } else {
      this.#running += 1;
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.normal.shift() ?? this.#waiting.suspect.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }

  #memoryOf(secret: string, argon2: string): string {
    return createHmac('sha256', this.#memoryKey).update(argon2).update('\0').update(secret).digest('base64');
  }

  #remember(memory: string): void {
    if (this.#settings.verifiedSecretSeconds === 0) return;
    this.#remembered.delete(memory);
    if (this.#remembered.size >= REMEMBERED) {
      this.#remembered.delete(this.#remembered.keys().next().value as string);
    }
    this.#remembered.set(memory, this.#now() + this.#settings.verifiedSecretSeconds * 1000);
  }
}

/** `Algorithm.Argon2id` of the package: a const enum, which type stripping cannot read. */
const ARGON2ID = 2;
