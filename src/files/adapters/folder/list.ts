import type { Dirent } from 'node:fs';
import { opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError, fromSystem } from '../../file-error.ts';
import { checkFileName } from '../../file-names.ts';
import type { FileList, ListEntry, ListOptions } from '../../file-store.ts';
import { ifThere, type FolderPaths } from './paths.ts';

interface Found {
  name: string;
  isFolder: boolean;
}

/** What cannot be opened under its name is left out: links that lead out, pipes, names that are not allowed. */
export async function listFolder(
  paths: FolderPaths,
  options: ListOptions & { space: string },
): Promise<FileList> {
  const { space, limit } = options;
  const folder = await paths.folder(space);
  if (folder === null) return { entries: [], next: null };
  const found = await firstFound(paths, folder, { ...options, limit: limit + 1 });
  const entries: ListEntry[] = [];
  for (const { name, isFolder } of found.slice(0, limit)) {
    if (isFolder) entries.push({ kind: 'folder', space, name });
    else {
      const there = await ifThere(stat(join(folder, name)));
      if (there) entries.push({ kind: 'file', space, name, size: there.size, modifiedAt: there.mtime });
    }
  }
  return { entries, next: found.length > limit ? (found[limit - 1]?.name ?? null) : null };
}

/** The first of all that come after, without ever holding many more: a folder may have a million files. */
async function firstFound(
  paths: FolderPaths,
  folder: string,
  { space, prefix = '', after = null, limit: count }: ListOptions & { space: string },
): Promise<Found[]> {
  let found: Found[] = [];
  const beginning = prefix.normalize('NFC');
  const cut = () => {
    found.sort((a, b) => (a.name < b.name ? -1 : 1));
    found = found.slice(0, count);
  };
  for await (const entry of await opendir(folder)) {
    if (after !== null && entry.name <= after) continue;
    if (!entry.name.normalize('NFC').startsWith(beginning)) continue;
    const isFolder = await kindOf(paths, space, entry);
    if (isFolder === undefined) continue;
    found.push({ name: entry.name, isFolder });
    if (found.length >= 4 * count) cut();
  }
  cut();
  return found;
}

/** Whether it is a folder; undefined: neither a folder nor a file of the source. */
async function kindOf(paths: FolderPaths, space: string, entry: Dirent): Promise<boolean | undefined> {
  const { name } = entry;
  try {
    checkFileName({ space: '', name });
    if (entry.isFile()) return false;
    if (entry.isDirectory()) return true;
    if (!entry.isSymbolicLink()) return undefined;
    const path = await paths.existing({ space, name });
    return path !== null && (await stat(path)).isFile() ? false : undefined;
  } catch (error) {
    const fault = fromSystem(error, 'listing');
    if (!(fault instanceof FileError)) throw fault;
    // What a name of a file must not lead to is a folder here: a link to a folder inside.
    return fault.kind === 'not_a_file' ? true : undefined;
  }
}
