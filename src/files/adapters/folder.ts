import { mkdir, opendir, realpath, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError, fromSystem, shown } from '../file-error.ts';
import { ASIDE, checkFileName, checkSpace } from '../file-names.ts';
import {
  MAX_LIST_LIMIT,
  type FileInfo,
  type FileList,
  type FileName,
  type FileStore,
  type FileWriter,
  type ListOptions,
  type OpenFile,
} from '../file-store.ts';
import { listFolder } from './folder/list.ts';
import { FolderPaths, ifThere, syncFolder } from './folder/paths.ts';
import { openFile } from './folder/reader.ts';
import { createAside, type AsideFile } from './folder/writer.ts';

/** A folder of this machine as a file source. It is made where it is missing. */
export async function openFolder(path: string): Promise<FileStore> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    const root = await realpath(path);
    const aside = join(root, ASIDE);
    await mkdir(aside, { recursive: true, mode: 0o700 });
    if ((await realpath(aside)) !== aside) throw new FileError('outside', `${ASIDE} is a symbolic link`);
    await syncFolder(root);
    return new FolderStore(new FolderPaths(root, aside));
  } catch (error) {
    throw fromSystem(error, 'opening');
  }
}

class FolderStore implements FileStore {
  readonly #paths: FolderPaths;
  /** The files aside that this process is writing; a sweep lets them be, however slow they are. */
  readonly #writing = new Set<string>();

  constructor(paths: FolderPaths) {
    this.#paths = paths;
  }

  async create(file: FileName): Promise<FileWriter> {
    checkFileName(file);
    try {
      // For errors before anything is written; the folders are made by commit.
      await this.#paths.target(file);
      const writer: AsideFile = await createAside(this.#paths, file, () => this.#writing.delete(writer.path));
      this.#writing.add(writer.path);
      return writer;
    } catch (error) {
      throw fromSystem(error, 'creating', file);
    }
  }

  async open(file: FileName): Promise<OpenFile> {
    checkFileName(file);
    try {
      const path = await this.#paths.existing(file);
      const opened = path === null ? null : await openFile(path, file);
      if (opened === null) throw new FileError('not_found', `${shown(file)} does not exist`, { file });
      return opened;
    } catch (error) {
      throw fromSystem(error, 'opening', file);
    }
  }

  async stat(file: FileName): Promise<FileInfo | null> {
    checkFileName(file);
    try {
      const path = await this.#paths.existing(file);
      const found = path === null ? null : await ifThere(stat(path));
      if (found === null) return null;
      if (!found.isFile()) throw new FileError('not_a_file', `${shown(file)} is no file`, { file });
      return { ...file, size: found.size, modifiedAt: found.mtime };
    } catch (error) {
      throw fromSystem(error, 'looking up', file);
    }
  }

  async list(options: ListOptions): Promise<FileList> {
    const { space = '', limit } = options;
    checkSpace(space);
    if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIST_LIMIT) {
      const message = `limit must be a whole number from 1 to ${MAX_LIST_LIMIT}, not ${limit}`;
      throw new FileError('option', message, { field: 'limit' });
    }
    try {
      return await listFolder(this.#paths, { ...options, space });
    } catch (error) {
      throw fromSystem(error, 'listing');
    }
  }

  async delete(file: FileName): Promise<boolean> {
    checkFileName(file);
    try {
      const target = await this.#paths.target(file);
      if (target === null || !target.exists) return false;
      if ((await ifThere(unlink(target.path).then(() => true))) === null) return false;
      await syncFolder(target.folder);
      return true;
    } catch (error) {
      throw fromSystem(error, 'deleting', file);
    }
  }

  async sweep(olderThanMs: number): Promise<number> {
    if (!(olderThanMs >= 0)) {
      const message = `olderThanMs must be a number of at least 0, not ${olderThanMs}`;
      throw new FileError('option', message, { field: 'olderThanMs' });
    }
    const latest = Date.now() - olderThanMs;
    let removed = 0;
    try {
      for await (const { name } of await opendir(this.#paths.aside)) {
        const path = join(this.#paths.aside, name);
        if (this.#writing.has(path)) continue;
        const found = await ifThere(stat(path));
        if (found === null || found.mtimeMs > latest) continue;
        if ((await ifThere(unlink(path).then(() => true))) !== null) removed += 1;
      }
      return removed;
    } catch (error) {
      throw fromSystem(error, 'sweeping');
    }
  }
}
