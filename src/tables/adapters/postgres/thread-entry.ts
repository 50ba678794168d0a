import { serve } from '../../thread-serve.ts';
import { Connections, type ConnectionOptions } from './connections.ts';
import { PostgresTables } from './store.ts';

serve((options: ConnectionOptions, notify) => new PostgresTables(new Connections(options, notify)));
