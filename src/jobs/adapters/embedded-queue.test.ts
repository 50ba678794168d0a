import { describe } from 'node:test';
import { sqlitePlace } from '../../../test/support/databases.ts';
import { queueConformance } from '../queue-conformance.ts';
import { openEmbeddedNode } from './test-nodes.ts';

describe('The queue of one process', () => {
  queueConformance({
    newPlace: sqlitePlace,
    open: openEmbeddedNode,
    module: new URL('./test-nodes.ts', import.meta.url).href,
    nodes: 1,
    takeoverMs: 5_000,
  });
});
