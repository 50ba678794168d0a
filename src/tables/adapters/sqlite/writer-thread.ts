import { serve } from '../../thread-serve.ts';
import { SqliteWriter } from './writer.ts';

serve((file: string) => new SqliteWriter(file));
