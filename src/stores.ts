/** The wiring of where data is: which adapter holds the tables of a source, and what jobs leave in them. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { ApplicationData } from './application-data.ts';
import { openFolder } from './files/adapters/folder.ts';
import type { EndedJob, Leftovers } from './jobs/job-cleaner.ts';
import { isPostgres, type TableSource } from './model/source.ts';
import { SOURCES_NOTE } from './operations/http-request/job-stores.ts';
import type { Settings } from './settings.ts';
import type { Sources } from './system/sources.ts';
import { openMariadbTables } from './tables/adapters/mariadb.ts';
import { openPostgresTables } from './tables/adapters/postgres.ts';
import { openSqliteTables } from './tables/adapters/sqlite.ts';
import { withSpacePrefix } from './tables/space-prefix.ts';
import type { TableStore } from './tables/table-store.ts';

export interface StoresParts {
  settings: Settings;
  sources: Sources;
  logger: Logger;
  isBusy(appId: string): boolean;
  now: () => number;
}

export interface Stores {
  places: ApplicationData;
  leftovers: Leftovers;
  close(): Promise<void>;
}

/**
 * The tables of the source `local` stand where the service's own records do: in a SQLite file for each application,
 * or, where several nodes must see them, in schemas of the same PostgreSQL.
 */
export function openStores({ settings, sources, logger, isBusy, now }: StoresParts): Stores {
  const onConnectionLost = (error: Error) =>
    logger.warn({ err: error }, 'a connection to a database of tables broke');
  const shared =
    settings.database === ''
      ? null
      : openPostgresTables({ connectionString: settings.database, onConnectionLost });
  const places = new ApplicationData({
    folder: settings.data,
    sources,
    openLocal: (appId, folder) =>
      shared ? withSpacePrefix(shared, schemaPrefix(appId)) : openSqliteTables(join(folder, 'local.sqlite')),
    openDefined: async (source) => openDefined(source, onConnectionLost),
    openFiles: openFolder,
    isBusy,
    now,
  });
  return {
    places,
    leftovers: leftoversIn(places),
    async close() {
      await places.close();
      await shared?.close();
    },
  };
}

const LONGEST_IN_SCHEMA = 40;

/** No appId has a slash. PostgreSQL takes names of 63 bytes, so a long appId is cut and told apart by its hash. */
function schemaPrefix(appId: string): string {
  if (appId.length <= LONGEST_IN_SCHEMA) return `${appId}/`;
  const hash = createHash('sha256').update(appId).digest('hex').slice(0, 12);
  return `${appId.slice(0, LONGEST_IN_SCHEMA - hash.length - 1)}~${hash}/`;
}

function openDefined({ url, password }: TableSource, onConnectionLost: (error: Error) => void): TableStore {
  const connection = new URL(url);
  if (password !== undefined) connection.password = encodeURIComponent(password);
  const connectionString = connection.href;
  return isPostgres({ url })
    ? openPostgresTables({ connectionString, onConnectionLost })
    : openMariadbTables({ connectionString });
}

/** In each store that the job has written to and that is still there. */
function leftoversIn(places: ApplicationData): Leftovers {
  const storesOf = async ({ appId, progress }: EndedJob) => {
    const noted = ['local', ...((progress[SOURCES_NOTE] ?? []) as string[])];
    const known = await places.sources(appId);
    const sources = noted.filter((source) => known.get(source)?.type === 'TableSource');
    return Promise.all(sources.map((source) => places.tables(appId, source)));
  };
  return {
    async dropTemporary(job) {
      for (const store of await storesOf(job)) await store.dropTemporary(job.jobId);
    },
    async abandon(job) {
      for (const store of await storesOf(job)) await store.abandon(job.jobId);
    },
  };
}
