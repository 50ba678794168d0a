import { SqliteReader } from './reader.ts';
import { serve } from './serve.ts';

serve((file) => new SqliteReader(file));
