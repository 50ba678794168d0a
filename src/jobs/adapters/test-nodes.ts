/** Nodes for the tests of queues: each over connections of its own. */
import { join } from 'node:path';
import { openPostgres } from '../../database/adapters/postgres.ts';
import { openSqlite } from '../../database/adapters/sqlite.ts';
import type { Database } from '../../database/database.ts';
import { Applications } from '../../system/applications.ts';
import { Jobs } from '../../system/jobs.ts';
import { migrate } from '../../system/migrations/migrate.ts';
import type { Records } from '../../system/records.ts';
import { Workers } from '../../system/workers.ts';
import { nameOfProcess, type JobQueue, type QueueLimits } from '../queue.ts';
import type { QueueNode, QueuePlace } from '../queue-conformance.ts';
import { EmbeddedQueue } from './embedded-queue.ts';
import { PgBossQueue } from './pg-boss-queue.ts';

type Note = (error: unknown, what: string) => void;

export async function openEmbeddedNode(place: QueuePlace, limits: QueueLimits): Promise<QueueNode> {
  const database = openSqlite<Records>(join(place.data, 'millrace.sqlite'));
  return openNode(database, async (jobs, logError) => embedded(database, jobs, limits, logError, true));
}

/** As `millrace run` over PostgreSQL: beside the queue of the nodes. */
export async function openEmbeddedNodeOn(place: QueuePlace, limits: QueueLimits): Promise<QueueNode> {
  const idle: unknown[] = [];
  const database = openPostgres<Records>(place.database, (error) => idle.push(error));
  return openNode(database, async (jobs, logError) => embedded(database, jobs, limits, logError, false));
}

export async function openPgBossNode(place: QueuePlace, limits: QueueLimits): Promise<QueueNode> {
  const idle: unknown[] = [];
  const database = openPostgres<Records>(place.database, (error) => idle.push(error));
  return openNode(database, (_jobs, note) =>
    PgBossQueue.open({
      url: place.database,
      database,
      limits,
      runsJobs: true,
      folder: 'the data folder',
      now: Date.now,
      logWarning: note,
      logError: note,
    }),
  );
}

function embedded(
  database: Database<Records>,
  jobs: Jobs,
  limits: QueueLimits,
  logError: Note,
  takesOver: boolean,
): EmbeddedQueue {
  const workers = new Workers(database);
  return new EmbeddedQueue({ jobs, workers, limits, now: Date.now, takesOver, logError });
}

async function openNode(
  database: Database<Records>,
  open: (jobs: Jobs, note: Note) => Promise<JobQueue>,
): Promise<QueueNode> {
  const errors: string[] = [];
  await migrate(database);
  const jobs = new Jobs(database);
  const queue = await open(jobs, (error, what) => errors.push(`${what}: ${String(error)}`));
  jobs.life.carryBy(queue);
  const close = async () => {
    await queue.stop();
    await database.close();
  };
  const owner = queue.owner ?? nameOfProcess();
  return { queue, jobs, applications: new Applications(database), owner, errors, close };
}
