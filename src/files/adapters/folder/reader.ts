import { constants, type BigIntStats } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { codeOf, FileError, fromSystem, shown } from '../../file-error.ts';
import type { FileName, OpenFile } from '../../file-store.ts';
import { ifThere } from './paths.ts';

/** O_NONBLOCK: opening a named pipe would wait for its other end for ever. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_BYTES = 64 * 1024;

/** null: it does not exist. */
export async function openFile(path: string, file: FileName): Promise<OpenFile | null> {
  const handle = await ifThere(open(path, FLAGS));
  if (handle === null) return null;
  try {
    const opened = await handle.stat({ bigint: true });
    if (!opened.isFile()) throw new FileError('not_a_file', `${shown(file)} is no file`, { file });
    return { size: Number(opened.size), stream: () => read(path, file, opened) };
  } finally {
    await handle.close();
  }
}

async function* read(path: string, file: FileName, opened: BigIntStats): AsyncGenerator<Uint8Array> {
  try {
    const handle = await sameFile(path, file, opened);
    try {
      let left = Number(opened.size);
      while (left > 0) {
        // A buffer of its own for each chunk: the reader may keep it.
        const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafeSlow(Math.min(left, READ_BYTES)));
        if (bytesRead === 0) throw changed(file);
        left -= bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
      if (!isSame(opened, await handle.stat({ bigint: true }))) throw changed(file);
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fromSystem(error, 'reading', file);
  }
}

async function sameFile(path: string, file: FileName, opened: BigIntStats): Promise<FileHandle> {
  let handle;
  try {
    handle = await open(path, FLAGS);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw changed(file);
    throw error;
  }
  if (isSame(opened, await handle.stat({ bigint: true }))) return handle;
  await handle.close();
  throw changed(file);
}

function isSame(a: BigIntStats, b: BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.size === b.size && a.mtimeNs === b.mtimeNs;
}

function changed(file: FileName): FileError {
  return new FileError('changed', `${shown(file)} was replaced or changed while it was being read`, { file });
}
