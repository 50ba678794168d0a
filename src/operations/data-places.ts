import { didYouMean } from '../model/did-you-mean.ts';
import { ServiceError } from '../model/errors.ts';
import { builtInSources } from '../model/source.ts';
import type { FileStore } from '../files/file-store.ts';
import type { TableStore } from '../tables/table-store.ts';

/** Where the data of applications is. The wiring knows how to open it. */
export interface DataPlaces {
  tables(appId: string): Promise<TableStore>;
  files(appId: string): Promise<FileStore>;
}

export interface PlaceName {
  source: string;
  space: string;
  table: string;
}

type SourceType = (typeof builtInSources)[keyof typeof builtInSources]['type'];

/** The source of a table or file; an error names the ones there are. */
export function sourceOfType(name: string, type: SourceType, path: string): { defaultSpace: string } {
  const known = Object.entries(builtInSources);
  const found = known.find(([candidate]) => candidate === name)?.[1];
  if (found?.type === type) return found;
  const names = known.filter(([, source]) => source.type === type).map(([candidate]) => candidate);
  throw new ServiceError(
    'unknown_source',
    `${path}: there is no ${type} "${name}".${didYouMean(name, names)} Known: ${names.join(', ')}`,
    { path },
  );
}

export function typeOfSource(name: string): SourceType | undefined {
  return Object.entries(builtInSources).find(([candidate]) => candidate === name)?.[1].type;
}
