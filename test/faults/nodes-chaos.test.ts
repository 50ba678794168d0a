import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { onPostgres } from '../support/databases.ts';
import { startExternalApi } from '../support/external-api.ts';
import { Cluster, downloadOf, rowsOfDownload, type Node } from '../support/nodes.ts';

/** The whole of it takes two minutes: MILLRACE_TEST_CHAOS_SECONDS=120. */
const SECONDS = Number(process.env['MILLRACE_TEST_CHAOS_SECONDS'] ?? 20);
const WORKERS = 3;
const JOBS = 8;
const PAGES = 250;
const SIZE = 10;
const TAKEOVER_MS = 15_000;
const LONGEST_STOP_MS = Math.min(14, SECONDS / 4) * 1000;

onPostgres('Chaos', (newPlace) => {
  test(
    `${SECONDS} s of SIGKILL, SIGSTOP and dropped connections over ${WORKERS} workers and ${JOBS * PAGES} pages: ` +
      'each row exactly once, every job ends, every takeover within 15 s',
    { timeout: (SECONDS + 240) * 1000 },
    async (t) => {
      const place = await newPlace();
      const database = new pg.Client({ connectionString: place.database });
      await database.connect();
      const watch = new TakeoverWatch(database);
      t.after(async () => {
        await watch.stop();
        await database.end();
        await place.remove();
      });
      const cluster = new Cluster(t, place);
      const api = await startExternalApi(t, { orders: PAGES * SIZE });
      api.beforeAnswer = () => delay((SECONDS * 600) / PAGES);
      const front = await cluster.start('api');
      const workers = await Promise.all(Array.from({ length: WORKERS }, () => cluster.start('worker')));
      const jobs = await Promise.all(
        Array.from({ length: JOBS }, (_, n) => front.submit(downloadOf(api.url, `orders_${n}`, SIZE))),
      );
      const counts = await chaos(cluster, workers, database, watch);
      t.diagnostic(
        Object.entries(counts)
          .map(([what, count]) => `${count} x ${what}`)
          .join(', '),
      );

      const tooLong = delay(180_000, null, { ref: false });
      const ended = await Promise.race([Promise.all(jobs.map((jobId) => front.ended(jobId))), tooLong]);
      if (!ended) assert.fail(JSON.stringify(await front.call('GET', '/jobs'), null, 1));
      await watch.stop();
      assert.equal(watch.pending, 0, 'every job of a killed worker was taken over');
      report(t, watch.takeoversMs);
      for (const [n, job] of ended.entries()) {
        assert.deepEqual([job.state, job.stats.pages], ['succeeded', PAGES], JSON.stringify(job));
        const rows = await front.rows(`orders_${n}`);
        assert.deepEqual(rows, rowsOfDownload(PAGES * SIZE, SIZE));
      }
      assert.ok(watch.takeoversMs.length > 0, 'some worker had a job when it was killed');
      assert.ok(Math.max(...watch.takeoversMs) < TAKEOVER_MS);
    },
  );
});

const ACTIONS = ['SIGKILL', 'dropped connections', 'SIGSTOP'] as const;

/** One disaster after the other, so that two workers are always well. */
async function chaos(
  cluster: Cluster,
  workers: Node[],
  database: pg.Client,
  watch: TakeoverWatch,
): Promise<Record<(typeof ACTIONS)[number], number>> {
  const counts = { SIGKILL: 0, 'dropped connections': 0, SIGSTOP: 0 };
  const end = performance.now() + SECONDS * 1000;
  let starting: Promise<void> = Promise.resolve();
  for (let n = 0; n < ACTIONS.length || performance.now() < end; n += 1) {
    await delay(500 + Math.random() * 2_000);
    const action = ACTIONS[n % ACTIONS.length] ?? 'SIGKILL';
    const victim = Math.floor(Math.random() * workers.length);
    counts[action] += 1;
    if (action === 'dropped connections') {
      watch.disturbed();
      await database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and random() < 0.5`,
      );
      continue;
    }
    await starting;
    const { child, end: stop } = workers[victim] as Node;
    if (action === 'SIGKILL') {
      await watch.killed(child.pid ?? 0, () => stop('SIGKILL'));
      starting = startWorker(cluster).then((worker) => void (workers[victim] = worker));
    } else {
      child.kill('SIGSTOP');
      watch.disturbed();
      // Some are over before anybody notices, some only when the jobs are on another worker.
      await delay(500 + Math.random() * LONGEST_STOP_MS);
      child.kill('SIGCONT');
    }
  }
  await starting;
  for (const { child, output } of workers) assert.equal(child.exitCode, null, output.stderr);
  return counts;
}

/** A start ends when its connections are dropped; whatever watches over the process starts it again. */
async function startWorker(cluster: Cluster): Promise<Node> {
  for (let left = 5; ; left -= 1) {
    try {
      return await cluster.start('worker');
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}

/**
 * Of each job of a worker that was killed: how long it takes until another one has it. Where a further fault hits
 * meanwhile, perhaps the very node that was taking the job, it counts from that one on.
 */
class TakeoverWatch {
  readonly takeoversMs: number[] = [];
  readonly #database: pg.Client;
  readonly #pending = new Map<string, { epoch: number; since: number }>();
  #isStopped = false;
  readonly #watching: Promise<void>;

  constructor(database: pg.Client) {
    this.#database = database;
    this.#watching = this.#watch();
  }

  async killed(pid: number, kill: () => Promise<unknown>): Promise<void> {
    const since = performance.now();
    await kill();
    for (const { job_id, epoch, owner } of await this.#running()) {
      if (owner.split('/')[1] === String(pid)) this.#pending.set(job_id, { epoch, since });
    }
  }

  disturbed(): void {
    for (const takeover of this.#pending.values()) takeover.since = performance.now();
  }

  get pending(): number {
    return this.#pending.size;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#watching;
  }

  async #watch(): Promise<void> {
    while (!this.#isStopped) {
      await delay(100);
      if (this.#pending.size === 0) continue;
      const epochs = new Map((await this.#epochs()).map(({ job_id, epoch }) => [job_id, epoch]));
      for (const [jobId, { epoch, since }] of this.#pending) {
        if ((epochs.get(jobId) ?? 0) <= epoch) continue;
        this.#pending.delete(jobId);
        this.takeoversMs.push(performance.now() - since);
      }
    }
  }

  async #running() {
    const { rows } = await this.#database.query<{ job_id: string; epoch: number; owner: string }>(
      `select job_id, epoch, owner from millrace.job where state = 'running'`,
    );
    return rows;
  }

  async #epochs() {
    const { rows } = await this.#database.query<{ job_id: string; epoch: number }>(
      'select job_id, epoch from millrace.job',
    );
    return rows;
  }
}

function report(t: TestContext, takeoversMs: readonly number[]): void {
  const sorted = takeoversMs.map(Math.round).toSorted((a, b) => a - b);
  t.diagnostic(`${sorted.length} takeovers of killed workers, ms: ${sorted.join(' ')}`);
}
