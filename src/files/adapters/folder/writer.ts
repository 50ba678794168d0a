import { createHash, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open, rename, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError, fromSystem, shown } from '../../file-error.ts';
import type { FileName, FileWriter, SavedFile } from '../../file-store.ts';
import { ifThere, syncFolder, type FolderPaths } from './paths.ts';

const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;

export async function createAside(paths: FolderPaths, file: FileName, onEnd: () => void): Promise<AsideFile> {
  const path = join(paths.aside, randomUUID());
  const handle = await open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600);
  return new AsideFile(paths, file, path, handle, onEnd);
}

export class AsideFile implements FileWriter {
  readonly path: string;
  readonly #paths: FolderPaths;
  readonly #file: FileName;
  readonly #handle: FileHandle;
  readonly #onEnd: () => void;
  readonly #hash = createHash('sha256');
  #bytes = 0;
  /** What is under way, so that abort waits for it. */
  #underWay: Promise<unknown> | undefined;
  #state: 'open' | 'ended' = 'open';

  constructor(paths: FolderPaths, file: FileName, path: string, handle: FileHandle, onEnd: () => void) {
    this.#paths = paths;
    this.#file = file;
    this.path = path;
    this.#handle = handle;
    this.#onEnd = onEnd;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async write(chunk: Uint8Array): Promise<void> {
    await this.#alone('writing', () => (chunk.byteLength === 0 ? Promise.resolve() : this.#writeAll(chunk)));
  }

  async commit(): Promise<SavedFile> {
    return this.#alone('saving', async () => {
      await this.#handle.sync();
      await this.#handle.close();
      const target = await this.#paths.target(this.#file, true);
      if (target === null) throw new FileError('unavailable', `${shown(this.#file)} has lost its folder`);
      await rename(this.path, target.path);
      this.#end();
      await syncFolder(target.folder);
      return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
    });
  }

  async abort(): Promise<void> {
    await this.#underWay?.catch(() => undefined); // its own caller sees how it ended
    if (this.#state === 'open') await this.#remove();
  }

  /** Hashed while the disk is busy. A disk may take a part of a chunk only. */
  async #writeAll(chunk: Uint8Array): Promise<void> {
    let rest = chunk;
    let writing = this.#handle.write(rest);
    this.#hash.update(chunk);
    for (;;) {
      const { bytesWritten } = await writing;
      rest = rest.subarray(bytesWritten);
      if (rest.byteLength === 0) break;
      writing = this.#handle.write(rest);
    }
    this.#bytes += chunk.byteLength;
  }

  async #alone<T>(doing: string, work: () => Promise<T>): Promise<T> {
    if (this.#state !== 'open') {
      throw new FileError('closed', `${shown(this.#file)} was committed or aborted already`);
    }
    if (this.#underWay)
      throw new FileError('closed', `the last write of ${shown(this.#file)} has not ended yet`);
    const underWay = work();
    this.#underWay = underWay;
    try {
      return await underWay;
    } catch (error) {
      if (this.#state === 'open') await this.#remove();
      throw fromSystem(error, doing, this.#file);
    } finally {
      this.#underWay = undefined;
    }
  }

  async #remove(): Promise<void> {
    this.#end();
    try {
      await this.#handle.close(); // a second close does nothing
    } finally {
      await ifThere(unlink(this.path));
    }
  }

  #end(): void {
    this.#state = 'ended';
    this.#onEnd();
  }
}
