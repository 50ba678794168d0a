import { describe } from 'node:test';
import { tableStoreConformance } from '../conformance.ts';
import { createPostgresPlace, openPostgresPlace, postgresSkip } from './postgres/test-place.ts';

describe('Tables in PostgreSQL', { skip: postgresSkip }, () => {
  tableStoreConformance({
    name: 'PostgreSQL',
    createPlace: createPostgresPlace,
    opener: {
      module: new URL('./postgres/test-place.ts', import.meta.url).href,
      exportName: openPostgresPlace.name,
    },
  });
});
