/** Asks for one record more than wanted, to know whether the list goes on. */
export async function keysetPage<Item>(
  { after, limit }: { after?: string | undefined; limit: number },
  list: (ask: { after: string | undefined; limit: number }) => Promise<Item[]>,
  keyOf: (item: Item) => string,
): Promise<{ items: Item[]; next: string | null }> {
  const found = await list({ after, limit: limit + 1 });
  const items = found.slice(0, limit);
  const last = items.at(-1);
  return { items, next: found.length > limit && last !== undefined ? keyOf(last) : null };
}
