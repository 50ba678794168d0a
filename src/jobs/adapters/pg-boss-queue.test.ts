import { onPostgres } from '../../../test/support/databases.ts';
import { queueConformance } from '../queue-conformance.ts';
import { openPgBossNode } from './test-nodes.ts';

onPostgres('The queue of several nodes', (newPlace) => {
  queueConformance({
    newPlace,
    open: openPgBossNode,
    module: new URL('./test-nodes.ts', import.meta.url).href,
    nodes: 3,
    takeoverMs: 15_000,
  });
});
