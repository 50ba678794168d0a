import { didYouMean } from '../model/did-you-mean.ts';
import { ServiceError } from '../model/errors.ts';
import type { FileStore } from '../files/file-store.ts';
import type { TableStore } from '../tables/table-store.ts';

/** Where the data of applications is. The wiring knows how to open it. */
export interface DataPlaces {
  /** The sources of tables and files that an application has, by name. */
  sources(appId: string): Promise<ReadonlyMap<string, PlaceSource>>;
  /** The tables of a source that is there. */
  tables(appId: string, source: string): Promise<TableStore>;
  files(appId: string, source: string): Promise<FileStore>;
}

export interface PlaceSource {
  type: 'TableSource' | 'FileSource';
  defaultSpace: string;
}

export interface PlaceName {
  source: string;
  space: string;
  table: string;
}

/** The source of a table or file; an error names the ones there are. */
export async function sourceOfType(
  places: DataPlaces,
  appId: string,
  name: string,
  type: PlaceSource['type'],
  path: string,
): Promise<PlaceSource> {
  const sources = await places.sources(appId);
  const found = sources.get(name);
  if (found?.type === type) return found;
  const names = [...sources].filter(([, source]) => source.type === type).map(([candidate]) => candidate);
  throw new ServiceError(
    'unknown_source',
    `${path}: there is no ${type} "${name}".${didYouMean(name, names)} Known: ${names.join(', ')}`,
    { path },
  );
}

/** Its tables, and the space that is meant where none is given. */
export async function openTables(
  places: DataPlaces,
  appId: string,
  source: string,
  path: string,
): Promise<{ store: TableStore; defaultSpace: string }> {
  const { defaultSpace } = await sourceOfType(places, appId, source, 'TableSource', path);
  return { store: await places.tables(appId, source), defaultSpace };
}
