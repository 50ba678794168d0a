/**
 * Where bodies are saved to, and files are sent from. Every kind of file source has one adapter of this interface,
 * and all of them pass the suite in conformance.ts.
 *
 * Glossary
 *   space     a folder inside the source; '' is its root, and '/' stands between a folder and one inside it.
 *   name      a file in its space. What both may be: file-names.ts. Nothing outside of the source has a name.
 *   aside     where a file is until its writer commits: no reader and no list sees it there.
 *   commit    the file takes its name in one step, and is there after a crash. A file of that name is replaced.
 *   leftover  what a writer that crashed has left aside, until `sweep`.
 *
 * Case and Unicode: a name is found exactly as it is given, else in its composed form (NFC), and a new file gets the
 * composed form. Names that differ in case are different files, or, where the place cannot tell them apart, an error.
 */
export interface FileName {
  space: string;
  name: string;
}

export interface FileInfo extends FileName {
  /** In bytes. */
  size: number;
  modifiedAt: Date;
}

/** A folder stands in the list beside the files of its space. */
export type ListEntry = ({ kind: 'file' } & FileInfo) | { kind: 'folder'; space: string; name: string };

export interface FileList {
  /** By name, in the order of their UTF-16 code units. */
  entries: ListEntry[];
  /** The name to list on after; null: these were the last. */
  next: string | null;
}

export interface ListOptions {
  /** Default: the root. */
  space?: string;
  /** Only names that begin so. */
  prefix?: string;
  after?: string | null;
  /** 1 to MAX_LIST_LIMIT. */
  limit: number;
}

export interface SavedFile {
  bytes: number;
  /** In hex. */
  sha256: string;
}

/** A file aside. One write at a time; a write that failed has aborted the file. */
export interface FileWriter {
  /** Resolves when the place has taken the bytes, so that a fast sender waits for a slow disk. */
  write(chunk: Uint8Array): Promise<void>;
  /** Written so far. */
  readonly bytes: number;
  /** When it rejects, nothing is left aside; the name is as it was, unless only the last sync of its folder failed. */
  commit(): Promise<SavedFile>;
  /** Removes what was written. After a commit or another abort it does nothing. */
  abort(): Promise<void>;
}

export interface OpenFile {
  /** In bytes. */
  readonly size: number;
  /** From the beginning, each time. A file that was replaced or changed since it was opened is a FileError `changed`. */
  stream(): AsyncIterable<Uint8Array>;
}

export interface FileStore {
  create(file: FileName): Promise<FileWriter>;
  /** Holds nothing open. */
  open(file: FileName): Promise<OpenFile>;
  /** null: there is no such file. */
  stat(file: FileName): Promise<FileInfo | null>;
  /** A space that does not exist is empty. */
  list(options: ListOptions): Promise<FileList>;
  /** false: there was no such file. */
  delete(file: FileName): Promise<boolean>;
  /** Removes leftovers that nobody has written to for so long; the number removed. */
  sweep(olderThanMs: number): Promise<number>;
}

export const MAX_LIST_LIMIT = 1000;
