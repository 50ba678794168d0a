import { serve } from './serve.ts';
import { SqliteWriter } from './writer.ts';

serve((file) => new SqliteWriter(file));
