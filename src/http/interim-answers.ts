import type { Socket } from 'node:net';

/** An interim answer has a few lines; a head that does not end within this is passed on, for the parser to refuse. */
const LONGEST_HEAD = 16 * 1024;
const BEGINNING = 'HTTP/1.1 1xx'.length;

export interface InterimFilter {
  /** A request goes out: an answer begins with the next bytes. */
  expectAnswer(): void;
}

/** Drops interim answers (1xx but 101) from what is read: the parser of undici breaks the connection at a 100. */
export function filterInterimAnswers(socket: Socket): InterimFilter {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  let beginning = false;
  let held: Buffer | null = null;

  socket.read = (size?: number): Buffer | null => {
    for (;;) {
      const chunk = read(size);
      if (chunk === null || !beginning) return chunk;
      held = withoutInterim(held ? Buffer.concat([held, chunk]) : chunk);
      if (held.length > 0 && !mayBeInterim(held)) {
        const passed = held;
        beginning = false;
        held = null;
        return passed;
      }
    }
  };
  return {
    expectAnswer: () => {
      beginning = true;
      held = null;
    },
  };
}

function withoutInterim(bytes: Buffer): Buffer {
  let rest = bytes;
  while (isInterim(rest)) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) break;
    rest = rest.subarray(end + 4);
  }
  return rest;
}

function isInterim(bytes: Buffer): boolean {
  return /^HTTP\/1\.[01] 1(?!01)\d\d/.test(bytes.toString('latin1', 0, BEGINNING));
}

/** Too short to tell, or the head of an interim answer whose end is still to come. */
function mayBeInterim(bytes: Buffer): boolean {
  if (bytes.length >= BEGINNING) return isInterim(bytes) && bytes.length < LONGEST_HEAD;
  const text = bytes.toString('latin1');
  return 'HTTP/1.'.startsWith(text) || /^HTTP\/1\.[01]?(?: (?:1\d{0,2})?)?$/.test(text);
}
