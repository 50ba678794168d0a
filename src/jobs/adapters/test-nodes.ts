/** Nodes for the conformance suite of queues: each over connections of its own. */
import { join } from 'node:path';
import { openPostgres } from '../../database/adapters/postgres.ts';
import { openSqlite } from '../../database/adapters/sqlite.ts';
import { Applications } from '../../system/applications.ts';
import { Jobs } from '../../system/jobs.ts';
import { migrate } from '../../system/migrations/migrate.ts';
import type { Records } from '../../system/records.ts';
import { Workers } from '../../system/workers.ts';
import { nameOfProcess, type QueueLimits } from '../queue.ts';
import type { QueueNode, QueuePlace } from '../queue-conformance.ts';
import { EmbeddedQueue } from './embedded-queue.ts';
import { PgBossQueue } from './pg-boss-queue.ts';

export async function openEmbeddedNode(place: QueuePlace, limits: QueueLimits): Promise<QueueNode> {
  const database = openSqlite(join(place.data, 'millrace.sqlite'));
  await migrate(database);
  const jobs = new Jobs(database);
  const errors: string[] = [];
  const queue = new EmbeddedQueue({
    jobs,
    workers: new Workers(database),
    limits,
    now: Date.now,
    takesOver: true,
    logError: (error, what) => errors.push(`${what}: ${String(error)}`),
  });
  jobs.carryBy(queue);
  const close = async () => {
    await queue.stop();
    await database.close();
  };
  return { queue, jobs, applications: new Applications(database), owner: queue.owner, errors, close };
}

export async function openPgBossNode(place: QueuePlace, limits: QueueLimits): Promise<QueueNode> {
  const errors: string[] = [];
  const note = (error: unknown, what: string) => void errors.push(`${what}: ${String(error)}`);
  const database = openPostgres<Records>(place.database, (error) => note(error, 'a connection broke'));
  await migrate(database);
  const jobs = new Jobs(database);
  const queue = await PgBossQueue.open({
    url: place.database,
    database,
    limits,
    runsJobs: true,
    folder: 'the data folder',
    now: Date.now,
    logWarning: note,
    logError: note,
  });
  jobs.carryBy(queue);
  const close = async () => {
    await queue.stop();
    await database.close();
  };
  return { queue, jobs, applications: new Applications(database), owner: nameOfProcess(), errors, close };
}
