import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { noStats, type JobPolicy } from '../model/job.ts';
import type { Applications } from '../system/applications.ts';
import type { JobNews } from '../system/job-history.ts';
import type { JobWork } from '../system/job-work.ts';
import type { Jobs } from '../system/jobs.ts';
import type { JobQueue, QueueLimits } from './queue.ts';

export interface QueuePlace {
  data: string;
  database: string;
  remove(): Promise<void>;
}

export interface QueueNode {
  queue: JobQueue;
  jobs: Jobs;
  applications: Applications;
  owner: string;
  /** What the queue has logged. */
  errors: string[];
  close(): Promise<void>;
}

export type NodeOpener = (place: QueuePlace, limits: QueueLimits) => Promise<QueueNode>;

export interface QueueFactory {
  newPlace(): Promise<QueuePlace>;
  open: NodeOpener;
  /** Of the function `open`, for processes of their own. */
  module: string;
  /** How many nodes share the jobs. */
  nodes: number;
  /** From the SIGKILL of a node to the start of its jobs on another one. */
  takeoverMs: number;
}

const APPLICATIONS = ['shop', 'mill'];
const ROOMY: QueueLimits = { jobsAtOnce: 8, jobsAtOncePerApplication: 8 };
const NO_NEWS: JobNews = { stats: noStats, pages: [], events: [], bodies: [] };

/** What every queue must do, whatever brings the jobs. */
export function queueConformance(factory: QueueFactory): void {
  test('each job is brought to one worker at a time, and to its end once', (t) => eachOnce(t, factory));
  test('2,000 jobs on 10 exclusive keys: never two of one key at once, and all are done', (t) =>
    exclusiveKeys(t, factory));
  test('no more jobs run at once than the limits allow, for a node and for an application', (t) =>
    limits(t, factory));
  test('the highest priority is brought first, then whoever came first', (t) => priorities(t, factory));
  test('a job that waits is brought when its time has come, and not before', (t) => waiting(t, factory));
  test('a job whose run rejects is brought again', (t) => rejecting(t, factory));
  test('a job that is handed back is brought again, by whoever is there', (t) => handedBack(t, factory));
  test('stop waits for what runs, and brings no more', (t) => stopping(t, factory));
  describe('a process that is killed', () => {
    test('its jobs are taken up by another one, with a higher epoch', (t) => takeover(t, factory));
  });
}

interface Bench {
  place: QueuePlace;
  nodes: QueueNode[];
}

async function open(t: TestContext, factory: QueueFactory, nodes: number, limits = ROOMY): Promise<Bench> {
  const place = await factory.newPlace();
  // All at once: they also make their tables at the same time.
  const opened = await Promise.all(Array.from({ length: nodes }, () => factory.open(place, limits)));
  t.after(async () => {
    await Promise.all(opened.map((node) => node.close()));
    await place.remove();
  });
  for (const appId of APPLICATIONS) await first(opened).applications.create({ appId });
  return { place, nodes: opened };
}

async function submit(
  { jobs }: QueueNode,
  {
    appId = 'shop',
    priority = 0,
    key = null,
  }: { appId?: string; priority?: number; key?: string | null } = {},
): Promise<string> {
  const policy: Omit<JobPolicy, 'exclusive'> & { exclusiveKey: string | null } = {
    priority,
    exclusiveKey: key,
  };
  const { jobId } = await jobs.submit({
    appId,
    clientId: 'test',
    username: null,
    opName: 'HTTPRequest',
    opParams: {},
    policy,
    idempotency: null,
  });
  return jobId;
}

/** Runs jobs as workers do. `work` is called between claim and end; what it gives back is not ended. */
function runner(node: QueueNode, work: (claimed: JobWork) => Promise<'given back' | undefined>) {
  return async (jobId: string): Promise<void> => {
    const claimed = await node.jobs.life.claim(jobId, node.owner);
    if (!claimed) return;
    if ((await work(claimed)) === 'given back') return;
    const outcome = { state: 'succeeded', output: null, error: null, keepMs: 0 } as const;
    assert.ok(await node.jobs.life.end(jobId, claimed.epoch, outcome, NO_NEWS), `${jobId} was ours`);
  };
}

/** Resolves once `isThere`; the test's own time limit ends a wait in vain. */
async function until(isThere: () => boolean | Promise<boolean>, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await isThere())) {
    assert.ok(performance.now() < end, `not within ${limitMs} ms`);
    await delay(20);
  }
}

async function eachOnce(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, factory.nodes);
  const running = new Set<string>();
  const ended: string[] = [];
  for (const node of nodes) {
    const run = runner(node, async ({ jobId, epoch }) => {
      assert.equal(epoch, 1);
      assert.ok(!running.has(jobId), `${jobId} runs twice`);
      running.add(jobId);
      await delay(Math.random() * 5);
      running.delete(jobId);
      ended.push(jobId);
    });
    await node.queue.start(run);
  }
  const submitted = await inParallel(200, (n) => submit(nodes[n % nodes.length] as QueueNode));
  await until(() => ended.length >= submitted.length);
  assert.deepEqual(ended.toSorted(), submitted.toSorted());
  assert.deepEqual(
    nodes.flatMap(({ errors }) => errors),
    [],
  );
}

async function exclusiveKeys(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, factory.nodes);
  const running = new Set<string>();
  const keys = new Map<string, string>();
  let ended = 0;
  let most = 0;
  await inParallel(2_000, async (n) => {
    const key = `table ${n % 5}`;
    const appId = APPLICATIONS[Math.floor(n / 5) % 2] as string;
    keys.set(await submit(nodes[n % nodes.length] as QueueNode, { appId, key }), `${appId} ${key}`);
  });
  for (const node of nodes) {
    const run = runner(node, async ({ jobId }) => {
      const key = keys.get(jobId) ?? '';
      assert.ok(!running.has(key), `two jobs of "${key}" at once`);
      running.add(key);
      most = Math.max(most, running.size);
      await delay(1);
      running.delete(key);
      ended += 1;
    });
    await node.queue.start(run);
  }
  await until(() => ended === 2_000, 120_000);
  assert.ok(most > 1 && new Set(keys.values()).size === 10, 'jobs of different keys run side by side');
}

async function limits(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, 1, { jobsAtOnce: 4, jobsAtOncePerApplication: 2 });
  const node = first(nodes);
  const running: string[] = [];
  let [most, mostOfOne, ended] = [0, 0, 0];
  const run = runner(node, async ({ appId }) => {
    running.push(appId);
    most = Math.max(most, running.length);
    mostOfOne = Math.max(mostOfOne, running.filter((other) => other === appId).length);
    await delay(20);
    running.splice(running.indexOf(appId), 1);
    ended += 1;
  });
  await inParallel(60, (n) => submit(node, { appId: APPLICATIONS[n % 2] as string }));
  await node.queue.start(run);
  await until(() => ended === 60);
  assert.deepEqual([most, mostOfOne], [4, 2]);
}

async function priorities(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, 1, { jobsAtOnce: 1, jobsAtOncePerApplication: 1 });
  const node = first(nodes);
  const order: string[] = [];
  const names = new Map<string, string>();
  for (const [name, priority] of [
    ['a', 0],
    ['b', 5],
    ['c', 0],
    ['d', 9],
    ['e', 5],
  ] as const)
    names.set(await submit(node, { priority }), name);
  await node.queue.start(runner(node, async ({ jobId }) => void order.push(names.get(jobId) ?? '')));
  await until(() => order.length === 5);
  assert.equal(order.join(''), 'dbeac');
}

async function waiting(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, factory.nodes);
  const starts: number[] = [];
  let at = 0;
  for (const node of nodes) {
    const run = runner(node, async (claimed) => {
      starts.push(Date.now());
      if (starts.length > 1) return undefined;
      at = Date.now() + 1_500;
      assert.ok(await node.jobs.life.giveBack(claimed, { at, isRetry: false }, NO_NEWS));
      return 'given back';
    });
    await node.queue.start(run);
  }
  await submit(first(nodes));
  await until(() => starts.length === 2);
  const lateMs = (starts[1] ?? 0) - at;
  assert.ok(lateMs >= 0 && lateMs < 2_500, `${lateMs} ms late`);
}

async function rejecting(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, 1);
  const node = first(nodes);
  const epochs: number[] = [];
  const run = runner(node, async ({ epoch }) => {
    epochs.push(epoch);
    if (epoch < 3) throw new Error('something of the service is broken');
  });
  await node.queue.start(run);
  await submit(node);
  await until(() => epochs.length === 3);
  assert.deepEqual(epochs, [1, 2, 3]);
  assert.equal(node.errors.length, 2, node.errors.join('\n'));
}

async function handedBack(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, factory.nodes);
  const epochs: number[] = [];
  for (const node of nodes) {
    const run = runner(node, async (claimed) => {
      epochs.push(claimed.epoch);
      if (epochs.length > 1) return undefined;
      assert.ok(await node.jobs.life.giveBack(claimed, { at: null, isRetry: false }, NO_NEWS));
      return 'given back';
    });
    await node.queue.start(run);
  }
  await submit(first(nodes), { key: 'table orders' });
  await until(() => epochs.length === 2, 3_000);
  assert.deepEqual(epochs, [1, 2]);
}

async function stopping(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes } = await open(t, factory, 1, { jobsAtOnce: 1, jobsAtOncePerApplication: 1 });
  const node = first(nodes);
  const go = Promise.withResolvers<void>();
  const brought: string[] = [];
  const run = runner(node, async ({ jobId }) => {
    brought.push(jobId);
    await go.promise;
  });
  await node.queue.start(run);
  const running = await submit(node);
  const queued = await submit(node);
  await until(() => brought.length === 1);
  let isStopped = false;
  const stopped = node.queue.stop().then(() => (isStopped = true));
  await delay(100);
  assert.equal(isStopped, false, 'a job runs');
  go.resolve();
  await stopped;
  assert.deepEqual(brought, [running]);
  const states = [await node.jobs.get(running), await node.jobs.get(queued)].map((job) => job?.state);
  assert.deepEqual(states, ['succeeded', 'queued']);
}

async function takeover(t: TestContext, factory: QueueFactory): Promise<void> {
  const { nodes, place } = await open(t, factory, 1, { jobsAtOnce: 8, jobsAtOncePerApplication: 8 });
  const node = first(nodes);
  const program = fileURLToPath(new URL('./run-until-killed.ts', import.meta.url));
  const args = ['--disable-warning=ExperimentalWarning', program, factory.module, factory.open.name];
  const child = spawn(process.execPath, [...args, JSON.stringify(place)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  const claimed: string[] = [];
  child.stdout.on('data', (chunk) => claimed.push(...String(chunk).trim().split('\n')));
  await until(() => claimed.length >= 4);
  const taken = new Map<string, number>();
  let killedAt = Number.POSITIVE_INFINITY;
  const run = runner(node, async ({ jobId, epoch }) => {
    assert.equal(epoch, 2, 'the process that was killed had it before');
    assert.ok(performance.now() > killedAt, 'no job is taken from a process that lives');
    taken.set(jobId, performance.now() - killedAt);
  });
  await node.queue.start(run);
  await delay(1_000);
  killedAt = performance.now();
  child.kill('SIGKILL');
  await exited;
  await until(() => taken.size === 4);
  assert.deepEqual([...taken.keys()].toSorted(), claimed.toSorted());
  const latest = Math.max(...taken.values());
  t.diagnostic(`taken up ${Math.round(latest)} ms after the kill`);
  assert.ok(latest < factory.takeoverMs, `taken up ${latest} ms after the kill`);
  for (const jobId of claimed) {
    const outcome = { state: 'failed', output: null, error: null, keepMs: 0 } as const;
    assert.equal(await node.jobs.life.end(jobId, 1, outcome, NO_NEWS), false);
  }
}

async function inParallel<Result>(count: number, work: (n: number) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const one = async () => {
    for (let n = next++; n < count; n = next++) results[n] = await work(n);
  };
  await Promise.all(Array.from({ length: 10 }, one));
  return results;
}

function first(nodes: readonly QueueNode[]): QueueNode {
  return nodes[0] as QueueNode;
}
