/** A process that submits four jobs, claims each one that it is brought, says so, and works until somebody kills it. */
import type { NodeOpener, QueuePlace } from './queue-conformance.ts';

const [, , module = '', exportName = '', place = ''] = process.argv;
const open = ((await import(module)) as Record<string, NodeOpener>)[exportName] as NodeOpener;
const node = await open(JSON.parse(place) as QueuePlace, { jobsAtOnce: 8, jobsAtOncePerApplication: 8 });
await node.queue.start(async (jobId) => {
  if (await node.jobs.life.claim(jobId, node.owner)) process.stdout.write(`${jobId}\n`);
  await new Promise(() => {});
});
for (let n = 0; n < 4; n += 1) {
  await node.jobs.submit({
    appId: 'shop',
    clientId: 'test',
    username: null,
    opName: 'HTTPRequest',
    opParams: {},
    policy: { priority: 0, exclusiveKey: null },
    idempotency: null,
  });
}
