export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)];
  if (upper === undefined) throw new RangeError('there is no median of no values');
  return Number.isInteger(middle) ? ((sorted[middle - 1] as number) + upper) / 2 : upper;
}

export interface Spread {
  median: number;
  least: number;
  most: number;
}

/**
 * The ratios of what was measured in the same round. Their median bears a shared machine better than a ratio of
 * two medians does: what slows one round slows both of its sides.
 */
export function pairwiseRatios(ours: readonly number[], theirs: readonly number[]): Spread {
  if (ours.length !== theirs.length) throw new RangeError('each round needs both sides');
  const ratios = ours.map((value, round) => value / (theirs[round] as number));
  return { median: median(ratios), least: Math.min(...ratios), most: Math.max(...ratios) };
}
