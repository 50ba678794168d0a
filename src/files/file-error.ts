import type { FileName } from './file-store.ts';

/** Whether the same call may succeed later. */
const transientKinds = {
  /** The space or the name is not allowed. */
  name: false,
  not_found: false,
  /** A symbolic link leads out of the source. */
  outside: false,
  not_a_file: false,
  not_a_folder: false,
  /** The file was replaced or changed while it was read. */
  changed: true,
  /** The writer has ended, or its last write has not. */
  closed: false,
  /** An option of the call is out of its range. */
  option: false,
  full: true,
  too_large: false,
  denied: false,
  unavailable: true,
} as const;

export type FileErrorKind = keyof typeof transientKinds;

interface FileErrorDetails {
  /** The field at fault. */
  field?: 'space' | 'name' | 'limit' | 'olderThanMs';
  file?: FileName;
  cause?: unknown;
}

export class FileError extends Error {
  override readonly name = 'FileError';
  readonly kind: FileErrorKind;
  readonly transient: boolean;
  readonly field: FileErrorDetails['field'];
  readonly file: FileName | undefined;

  constructor(kind: FileErrorKind, message: string, { field, file, cause }: FileErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.transient = transientKinds[kind];
    this.field = field;
    this.file = file;
  }
}

const kindsOfSystemErrors: Record<string, [FileErrorKind, string]> = {
  ENOSPC: ['full', 'the disk is full'],
  EDQUOT: ['full', 'the quota of the disk is used up'],
  EFBIG: ['too_large', 'the file is larger than the file system or the limits of the process allow'],
  EACCES: ['denied', 'the permissions of the folder do not allow it'],
  EPERM: ['denied', 'the permissions of the folder do not allow it'],
  EROFS: ['denied', 'the file system is read-only'],
  ENAMETOOLONG: ['name', 'the file system does not take such a long name'],
  ENOTDIR: ['not_a_folder', 'a part of the space is no folder'],
  EISDIR: ['not_a_file', 'there is a folder of this name'],
  ENOTEMPTY: ['not_a_file', 'there is a folder of this name'],
  ELOOP: ['outside', 'it is a symbolic link'],
  EXDEV: ['unavailable', 'the space is on another file system than the source'],
  ENOENT: ['unavailable', 'it is no longer there'],
};

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** Without the path on this machine, which the message of the system has. */
export function fromSystem(error: unknown, doing: string, file?: FileName): unknown {
  const code = codeOf(error);
  if (error instanceof FileError || code === undefined) return error;
  const [kind, why] = kindsOfSystemErrors[code] ?? ['unavailable', `the file system answered ${code}`];
  return new FileError(kind, `${doing} ${file ? shown(file) : 'the folder'}: ${why}`, {
    cause: error,
    ...(file ? { file } : {}),
  });
}

export function shown({ space, name }: FileName): string {
  return space === '' ? `the file ${quoted(name)}` : `the file ${quoted(name)} in the space ${quoted(space)}`;
}

const EXCERPT_LENGTH = 80;

export function quoted(text: string): string {
  const json = JSON.stringify(text);
  return json.length <= EXCERPT_LENGTH ? json : `${json.slice(0, EXCERPT_LENGTH).toWellFormed()}…`;
}
