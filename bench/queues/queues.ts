import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openEmbeddedNode, openPgBossNode } from '../../src/jobs/adapters/test-nodes.ts';
import type { NodeOpener, QueueNode, QueuePlace } from '../../src/jobs/queue-conformance.ts';
import { noStats } from '../../src/model/job.ts';
import type { Part, PartReport } from '../part.ts';
import { freshPostgresDatabase } from '../tokens/postgres.ts';

const JOBS = 1_000;
const LATENCIES = 200;
const LIMITS = { jobsAtOnce: 8, jobsAtOncePerApplication: 8 };

interface Contender {
  name: string;
  nodes: number;
  open: NodeOpener;
  place: QueuePlace;
}

interface Measured {
  name: string;
  submittedPerSecond: number;
  donePerSecond: number;
  startMs: { p50: number; p99: number };
}

/** Empty jobs: submitted, brought, claimed and ended, each in the records. */
export const queues: Part = {
  name: 'queues',
  description: 'throughput and start of an empty job, embedded and on PostgreSQL',
  async run({ signal, tell }) {
    await using stack = new AsyncDisposableStack();
    const data = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
    stack.defer(() => rm(data, { recursive: true, force: true }));
    const remove = async () => {};
    const contenders: Contender[] = [
      { name: 'embedded', nodes: 1, open: openEmbeddedNode, place: { data, database: '', remove } },
    ];
    const notes: string[] = [];
    for (const nodes of [1, 3]) {
      const found = await freshPostgresDatabase(stack);
      if ('missing' in found) notes.push(`no PostgreSQL: ${found.missing}`);
      else {
        if (!found.durable) notes.push('PostgreSQL does not wait for the disk');
        const place = { data, database: found.url, remove };
        contenders.push({ name: `PostgreSQL, nodes: ${nodes}`, nodes, open: openPgBossNode, place });
      }
    }
    const measured: Measured[] = [];
    for (const contender of contenders) {
      signal.throwIfAborted();
      const result = await measure(contender);
      tell(`${result.name}: ${Math.round(result.donePerSecond)} jobs/s`);
      measured.push(result);
    }
    return report(measured, notes);
  },
};

async function measure({ name, nodes: count, open, place }: Contender): Promise<Measured> {
  const nodes = await Promise.all(Array.from({ length: count }, () => open(place, LIMITS)));
  const first = nodes[0] as QueueNode;
  await first.applications.create({ appId: 'bench' });
  try {
    const submitSeconds = await seconds(() => inParallel(JOBS, () => submit(first)));
    let [left, done] = [JOBS, Promise.withResolvers<void>()];
    const startedAt = new Map<string, number>();
    const run = (node: QueueNode) => async (jobId: string) => {
      startedAt.set(jobId, performance.now());
      const work = await node.jobs.life.claim(jobId, node.owner);
      const outcome = { state: 'succeeded', output: null, error: null, keepMs: 0 } as const;
      if (work)
        await node.jobs.life.end(jobId, work.epoch, outcome, {
          stats: noStats,
          pages: [],
          events: [],
          bodies: [],
        });
      left -= 1;
      if (left === 0) done.resolve();
    };
    const runSeconds = await seconds(async () => {
      for (const node of nodes) await node.queue.start(run(node));
      await done.promise;
    });
    const latencies: number[] = [];
    for (let n = 0; n < LATENCIES; n += 1) {
      [left, done] = [1, Promise.withResolvers<void>()];
      const at = performance.now();
      const jobId = await submit(first);
      await done.promise;
      latencies.push((startedAt.get(jobId) ?? 0) - at);
      // The workers are to be asleep again.
      await delay(20);
    }
    latencies.sort((a, b) => a - b);
    const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0;
    return {
      name,
      submittedPerSecond: JOBS / submitSeconds,
      donePerSecond: JOBS / runSeconds,
      startMs: { p50: at(0.5), p99: at(0.99) },
    };
  } finally {
    for (const node of nodes) await node.close();
  }
}

async function submit({ jobs }: QueueNode): Promise<string> {
  const { jobId } = await jobs.submit({
    appId: 'bench',
    clientId: 'bench',
    username: null,
    opName: 'HTTPRequest',
    opParams: {},
    policy: { priority: 0, exclusiveKey: null },
    idempotency: null,
  });
  return jobId;
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

async function inParallel(count: number, work: () => Promise<unknown>): Promise<void> {
  let next = 0;
  const one = async () => {
    for (; next < count;) {
      next += 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: 10 }, one));
}

function report(measured: readonly Measured[], notes: string[]): PartReport {
  const rows = measured.map(({ name, submittedPerSecond, donePerSecond, startMs }) => [
    name,
    String(Math.round(submittedPerSecond)),
    String(Math.round(donePerSecond)),
    startMs.p50.toFixed(1),
    startMs.p99.toFixed(1),
  ]);
  const columns = ['queue', 'submitted/s', 'brought, claimed and ended/s', 'start p50, ms', 'start p99, ms'];
  return {
    title: 'Empty jobs through the queues',
    sections: [{ title: `${JOBS} jobs, 8 at once on a node`, columns, rows, notes }],
    measurements: measured,
  };
}
