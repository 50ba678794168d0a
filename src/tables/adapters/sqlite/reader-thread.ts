import { SqliteReader } from './reader.ts';
import { serve } from '../../thread-serve.ts';

serve((file: string) => new SqliteReader(file));
