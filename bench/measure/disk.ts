import { mkdtemp, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { median } from './statistics.ts';

const WRITES = 200;
const BYTES = 4096;

/** How long the disk takes to make a small write last: next to nothing means that the folder is not on a disk. */
export async function medianDurableWriteMs(parent: string): Promise<number> {
  const folder = await mkdtemp(join(parent, 'millrace-bench-'));
  try {
    await using file = await open(join(folder, 'probe'), 'w');
    const block = Buffer.alloc(BYTES, 1);
    const times: number[] = [];
    for (let write = 0; write < WRITES; write += 1) {
      const start = performance.now();
      await file.write(block);
      await file.datasync();
      times.push(performance.now() - start);
    }
    return median(times);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
