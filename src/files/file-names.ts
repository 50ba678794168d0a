import { FileError, quoted } from './file-error.ts';
import type { FileName } from './file-store.ts';

const MAX_NAME_BYTES = 255;
const MAX_SPACE_BYTES = 1024;
const MAX_FOLDER_DEPTH = 16;

/** The folder in the root that holds what is aside; no space may begin with this name, in whatever case. */
export const ASIDE = '.millrace-aside';

export function checkFileName({ space, name }: FileName): void {
  checkSpace(space);
  const problem = partProblem(name);
  if (problem) {
    const hint = name.includes('/') ? '; folders belong into the space' : '';
    throw new FileError('name', `the name ${quoted(name)} ${problem}${hint}`, {
      field: 'name',
      file: { space, name },
    });
  }
}

/** A file by one text, as in a URL: the space, a slash, and the name. */
export function fileAt(path: string): FileName {
  const slash = path.lastIndexOf('/');
  return { space: path.slice(0, Math.max(slash, 0)), name: path.slice(slash + 1) };
}

/** The folders of the space, from the root; none for ''. */
export function checkSpace(space: string): string[] {
  if (space === '') return [];
  const parts = space.split('/');
  const fail = (problem: string) =>
    new FileError('name', `the space ${quoted(space)} ${problem}`, { field: 'space' });
  if (space.startsWith('/')) throw fail('begins with a slash; it is a folder inside the source');
  if (Buffer.byteLength(space) > MAX_SPACE_BYTES) {
    throw fail(`is ${Buffer.byteLength(space)} bytes long in UTF-8; ${MAX_SPACE_BYTES} are allowed`);
  }
  if (parts.length > MAX_FOLDER_DEPTH) {
    throw fail(`is ${parts.length} folders deep; ${MAX_FOLDER_DEPTH} are allowed`);
  }
  for (const part of parts) {
    const problem = partProblem(part);
    if (problem) throw fail(parts.length === 1 ? problem : `has the part ${quoted(part)}, which ${problem}`);
  }
  return parts;
}

function partProblem(part: string): string | undefined {
  if (part === '') return 'is empty';
  if (part === '.' || part === '..') return 'would lead to another folder';
  if (part.includes('/')) return 'has a slash';
  if (part.includes('\\')) return 'has a backslash';
  if (!part.isWellFormed()) return 'has half a character (a lone surrogate)';
  const control = /\p{Cc}/u.exec(part);
  if (control) {
    const code = control[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
    return `has the control character U+${code}`;
  }
  const bytes = Buffer.byteLength(part.normalize('NFC'));
  if (bytes > MAX_NAME_BYTES || Buffer.byteLength(part) > MAX_NAME_BYTES) {
    return `is ${Math.max(bytes, Buffer.byteLength(part))} bytes long in UTF-8; ${MAX_NAME_BYTES} are allowed`;
  }
  if (part.normalize('NFKC').toLowerCase().startsWith(ASIDE))
    return 'is reserved for files that are being written';
  return undefined;
}

/** A compressed file keeps the extension that says what was compressed: archive.tar.gz, orders.csv.gz. */
const EXTENSION = /^(.+?)((?:\.[a-z]\w{0,7}(?=\.(?:gz|bz2|xz|zst|br|lz4|z)$))?\.[^.\s]{1,16})$/isu;

/** 'report.csv', 2 → 'report-2.csv'; 'archive.tar.gz', 3 → 'archive-3.tar.gz'. For the 2nd and later files of a job. */
export function numberedName(name: string, number: number): string {
  if (number === 1) return name;
  const [, stem = name, extension = ''] = EXTENSION.exec(name) ?? [];
  const end = `-${number}${extension}`;
  return shortened(stem, MAX_NAME_BYTES - Buffer.byteLength(end)) + end;
}

/** The longest beginning of whole characters that has no more bytes. */
function shortened(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  let [kept, bytes] = ['', 0];
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    bytes += Buffer.byteLength(segment);
    if (bytes > maxBytes) break;
    kept += segment;
  }
  return kept;
}
