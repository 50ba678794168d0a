import { lstat, mkdir, open, realpath, stat } from 'node:fs/promises';
import { basename, join, sep } from 'node:path';
import { codeOf, FileError, quoted, shown } from '../../file-error.ts';
import { checkSpace } from '../../file-names.ts';
import type { FileName } from '../../file-store.ts';

interface Target {
  folder: string;
  /** In the folder; a link there is not followed. */
  path: string;
  exists: boolean;
}

/**
 * From names to paths of the machine. Links may stand in the folder, but every path is resolved and must end up
 * inside: the names themselves cannot leave it, so only a link could.
 */
export class FolderPaths {
  readonly root: string;
  readonly aside: string;

  constructor(root: string, aside: string) {
    this.root = root;
    this.aside = aside;
  }

  /** The folder of a space, without links; null: it does not exist. */
  async folder(space: string, make = false): Promise<string | null> {
    let folder = this.root;
    for (const part of checkSpace(space)) {
      let path = await this.#find(folder, part);
      if (path === null && !make) return null;
      path ??= await makeFolder(folder, part);
      const resolved = await ifThere(realpath(path));
      if (resolved === null)
        throw new FileError('outside', `the space ${quoted(space)} is a link to nowhere`);
      this.#checkInside(resolved, `the space ${quoted(space)}`, 'space');
      if (!(await stat(resolved)).isDirectory()) {
        const message = `the space ${quoted(space)} is no folder: ${quoted(part)} is a file`;
        throw new FileError('not_a_folder', message, { field: 'space' });
      }
      folder = resolved;
    }
    return folder;
  }

  /** The path of a file that exists, without links; null: it does not. */
  async existing(file: FileName): Promise<string | null> {
    const target = await this.target(file);
    return target?.exists ? ifThere(realpath(target.path)) : null;
  }

  /** Where a file stands or would stand; null: its space does not exist. A link that leads out is an error. */
  async target(file: FileName, makeFolders = false): Promise<Target | null> {
    const folder = await this.folder(file.space, makeFolders);
    if (folder === null) return null;
    const path = await this.#find(folder, file.name);
    if (path === null) return { folder, path: join(folder, file.name.normalize('NFC')), exists: false };
    const resolved = await ifThere(realpath(path));
    if (resolved !== null) {
      this.#checkInside(resolved, shown(file), 'name');
      checkCase(resolved, file);
      if ((await ifThere(stat(resolved)))?.isDirectory()) {
        throw new FileError('not_a_file', `${shown(file)} is a folder`, { field: 'name', file });
      }
    }
    return { folder, path, exists: true };
  }

  /** Exactly this name, else its composed form; null: neither is there. */
  async #find(folder: string, name: string): Promise<string | null> {
    for (const form of new Set([name, name.normalize('NFC')])) {
      const path = join(folder, form);
      if (await ifThere(lstat(path))) return path;
    }
    return null;
  }

  #checkInside(path: string, what: string, field: 'space' | 'name'): void {
    const isAside = path === this.aside || path.startsWith(this.aside + sep);
    const rooted = this.root.endsWith(sep) ? this.root : this.root + sep;
    if (!isAside && (path === this.root || path.startsWith(rooted))) return;
    throw new FileError('outside', `${what} is a symbolic link that leads out of the source`, { field });
  }
}

/** Where a file system folds case, a file would otherwise replace one of another name. */
function checkCase(resolved: string, file: FileName): void {
  const [there, asked] = [basename(resolved).normalize('NFC'), file.name.normalize('NFC')];
  if (there === asked || there.toLowerCase() !== asked.toLowerCase()) return;
  const message = `the name ${quoted(file.name)} differs only in case from ${quoted(there)}, which is the same file here`;
  throw new FileError('name', message, { field: 'name', file });
}

async function makeFolder(parent: string, part: string): Promise<string> {
  const path = join(parent, part.normalize('NFC'));
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    // Another writer was faster.
    if (codeOf(error) !== 'EEXIST') throw error;
  }
  await syncFolder(parent);
  return path;
}

/** A new name in a folder is there after a crash only when the folder was synced too. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** null: what it is about is not there. */
export async function ifThere<T>(result: Promise<T>): Promise<T | null> {
  try {
    return await result;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}
