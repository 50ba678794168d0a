import type { HttpRequest } from '../../model/http-request.ts';
import type { Column } from '../../model/table.ts';
import type { PlaceName } from '../data-places.ts';
import type { Refusal } from './bisect.ts';
import type { PageLoad } from './load-tables.ts';

export interface RejectTable {
  place: PlaceName;
  /** Whose records they are: the table gathers those of all jobs. */
  jobId: string;
}

const COLUMNS: Column[] = [
  { name: 'number', type: 'integer' },
  { name: 'record', type: 'json' },
  { name: 'status', type: 'integer' },
  { name: 'reason', type: 'string' },
  { name: 'job_id', type: 'string' },
];

export function rejectTableName({ sourceTable, request }: HttpRequest): string {
  return request.options.rejectTable ?? `${sourceTable?.table ?? 'input'}_rejected`;
}

export function rejectLoad(
  { place, jobId }: RejectTable,
  { number, recordJson, by }: { number: number; recordJson: string; by: Refusal },
): PageLoad {
  const { status, reason } = by;
  const rest = JSON.stringify({ number, status, reason, job_id: jobId });
  const { space, table } = place;
  const load = {
    table: { space, table },
    columns: COLUMNS,
    mode: 'append' as const,
    temporary: false,
    widen: false,
    rows: `[{"record":${recordJson},${rest.slice(1)}]`,
  };
  return { place, load, rowCount: 1 };
}
