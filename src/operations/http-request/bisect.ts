/** Records of a batch, counted from 0: from the first one on, up to but without `to`. */
export interface Range {
  from: number;
  to: number;
}

export interface Refusal {
  status: number;
  reason: string;
}

/** How far a batch is that is sent in parts; it stands in the checkpoint. */
export interface Parts {
  /** Not delivered yet, in order. */
  todo: Range[];
  /** A refused part, as far as it is not delivered: it begins with `todo` and holds a bad record. */
  refused: { to: number; count: number; by: Refusal } | null;
  /** A part holds at most so many, because a larger one was too large; null: as many as there are. */
  most: number | null;
  /** A record was refused alone: it is the records that the system judges, not their number. */
  isProven: boolean;
}

export interface Rejection {
  index: number;
  by: Refusal;
}

interface AfterPart {
  parts: Parts;
  /** A bad record that was found with this part. */
  rejected: Rejection | null;
}

const TOO_LARGE = 413;

export function partsOf(todo: Range[]): Parts {
  return { todo, refused: null, most: null, isProven: false };
}

/**
 * What is to be sent next; null: nothing. After a refusal the smallest prefix that is refused is searched by halving:
 * its last record is the bad one, and all before it is delivered. So 7 bad records of 1,000 take at most 79 requests:
 * ten for each, the rest after each, the whole at first, and one that proves the first of them.
 */
export function nextPart({ todo: [first], refused, most }: Parts): Range | null {
  if (!first) return null;
  const { from } = first;
  const half = refused ? Math.max(1, Math.floor((refused.to - from) / 2)) : first.to - from;
  return { from, to: from + Math.min(half, most ?? half) };
}

export function afterAccepted(parts: Parts, part: Range): AfterPart {
  const { refused } = parts;
  const rest = { ...parts, todo: without(parts.todo, part) };
  if (!refused) return { parts: rest, rejected: null };
  if (part.to === refused.to) {
    // The only one that was left is taken when it comes alone: there were too many of them.
    const most = Math.max(1, Math.floor(refused.count / 2));
    return { parts: { ...rest, refused: null, most }, rejected: null };
  }
  // That first record which must be the bad one is sent alone, to be sure; the others need no proof after it.
  if (refused.to - part.to > 1 || !parts.isProven) return { parts: rest, rejected: null };
  return reject(rest, part.to, refused.by);
}

export function afterRefused(parts: Parts, part: Range, by: Refusal): AfterPart {
  const count = part.to - part.from;
  const isTooLarge = by.status === TOO_LARGE;
  if (count > 1) {
    const next = isTooLarge ? { most: Math.floor(count / 2) } : { refused: { to: part.to, count, by } };
    return { parts: { ...parts, ...next }, rejected: null };
  }
  const judged = isTooLarge ? { ...parts, most: null } : { ...parts, isProven: true };
  return reject(judged, part.from, by);
}

/** What is left of the ranges without these records. */
export function without(ranges: readonly Range[], { from, to }: Range): Range[] {
  return ranges
    .flatMap((range) => [
      { from: range.from, to: Math.min(range.to, from) },
      { from: Math.max(range.from, to), to: range.to },
    ])
    .filter((range) => range.from < range.to);
}

function reject(parts: Parts, index: number, by: Refusal): AfterPart {
  const todo = without(parts.todo, { from: index, to: index + 1 });
  return { parts: { ...parts, todo, refused: null }, rejected: { index, by } };
}
