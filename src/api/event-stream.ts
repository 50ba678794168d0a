import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../model/errors.ts';
import { isOver } from '../model/job.ts';
import type { JobRunner } from '../jobs/job-runner.ts';
import type { Jobs } from '../system/jobs.ts';

const EVENTS_AT_ONCE = 500;
/** Keeps proxies from closing a stream on which nothing happens, and finds listeners that are gone. */
const HEARTBEAT_MS = 15_000;

/** Server-sent events of a job until it is over, in order, without gaps; `Last-Event-ID` says where to go on. */
export async function streamEvents(
  jobId: string,
  { jobs, runner }: { jobs: Jobs; runner: JobRunner },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  let after = lastEventId(request);
  const closed = new AbortController();
  // A listener would hold up the stop of the service; it reconnects and goes on where it was.
  const gone = AbortSignal.any([closed.signal, runner.stopping]);
  const stream = reply.raw;
  reply.hijack();
  stream.on('close', () => closed.abort());
  stream.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-request-id': request.id,
  });
  let writtenAt = Date.now();
  const write = (text: string) => writeAll(stream, text, gone);
  while (!gone.aborted) {
    const changed = runner.waitForChange(jobId, gone);
    // Before the events: a job that is over now has no event that comes later.
    const job = await jobs.get(jobId);
    const events = await jobs.history.events(jobId, { after, limit: EVENTS_AT_ONCE });
    for (const { n, type, at, data } of events) {
      await write(`id: ${n}\nevent: ${type}\ndata: ${JSON.stringify({ at, ...data })}\n\n`);
      after = n;
      writtenAt = Date.now();
    }
    if (events.length === EVENTS_AT_ONCE) continue;
    if (!job || isOver(job.state)) break;
    if (Date.now() - writtenAt >= HEARTBEAT_MS) {
      await write(': still here\n\n');
      writtenAt = Date.now();
    }
    await changed;
  }
  stream.end();
}

function lastEventId(request: FastifyRequest): number {
  const given = request.headers['last-event-id'];
  if (given === undefined || given === '') return 0;
  if (typeof given === 'string' && /^\d{1,15}$/.test(given)) return Number(given);
  throw new ServiceError('invalid_request', 'the header Last-Event-ID must be the id of an event', {
    path: 'Last-Event-ID',
  });
}

async function writeAll(stream: FastifyReply['raw'], text: string, gone: AbortSignal): Promise<void> {
  if (gone.aborted || stream.write(text)) return;
  await new Promise<void>((resolve) => {
    stream.once('drain', resolve);
    gone.addEventListener('abort', () => resolve(), { once: true });
  });
}
