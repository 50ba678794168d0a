/**
 * Works on so many items at once. When one fails no more are taken, the others hear of it by the signal, and what
 * failed first is thrown once all have ended.
 */
export async function eachAtOnce<Item>(
  items: AsyncGenerator<Item>,
  most: number,
  work: (item: Item, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const takeTurns = async () => {
    try {
      for (;;) {
        failed.signal.throwIfAborted();
        const { value, done } = await items.next();
        if (done) return;
        await work(value, failed.signal);
      }
    } catch (error) {
      failed.abort(error); // only the first reason counts
    }
  };
  await Promise.all(Array.from({ length: most }, takeTurns));
  await items.return(undefined);
  failed.signal.throwIfAborted();
}
