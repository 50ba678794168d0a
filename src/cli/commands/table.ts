import { openTables } from '../../operations/data-places.ts';
import { requireTable } from '../../operations/http-request/source-records.ts';
import { parseExact } from '../../tables/exact-json.ts';
import type { TableStore } from '../../tables/table-store.ts';
import {
  jsonOption,
  table as asTable,
  UsageError,
  type Command,
  type CommandCall,
  type Engine,
} from '../command.ts';

const ROWS_AT_ONCE = 1_000;
const CELL_CHARACTERS = 60;

/** `millrace table`: the rows of a table, as a person or a program reads them. */
export function tableCommand(
  withEngine: <Result>(call: CommandCall, work: (engine: Engine) => Promise<Result>) => Promise<Result>,
): Command {
  return {
    name: 'table',
    summary: 'Print the rows of a table: APP_ID SOURCE SPACE TABLE; with --json a JSON object a line',
    positional: ['application', 'source', 'space', 'table'],
    options: {
      application: { description: 'The appId', value: 'APP_ID', required: true },
      source: { description: 'Such as local', value: 'SOURCE', required: true },
      space: { description: 'Such as main', value: 'SPACE', required: true },
      table: { description: 'The name of the table', value: 'TABLE', required: true },
      limit: { description: 'So many rows; 20 for people, all with --json', value: 'N' },
      ...jsonOption,
    },
    async run(call) {
      const limit = rowLimit(call);
      await withEngine(call, async ({ system, places }) => {
        const [appId, source, space, name] = ['application', 'source', 'space', 'table'].map(
          (option) => call.option(option) as string,
        ) as [string, string, string, string];
        await system.applications.get(appId);
        const { store } = await openTables(places, appId, source, 'source');
        await print(store, { space, table: name }, limit, call);
      });
    },
  };
}

async function print(
  store: TableStore,
  name: { space: string; table: string },
  limit: number,
  call: CommandCall,
): Promise<void> {
  await requireTable(store, name, 'table');
  const columns = (await store.columns(name)) ?? [];
  const asJson = call.switchedOn('json');
  const shown: string[][] = [columns.map((column) => cell(column.name))];
  const snapshot = await store.openSnapshot(name);
  try {
    for (let left = limit; left > 0;) {
      const batch = await snapshot.nextBatch(Math.min(ROWS_AT_ONCE, left));
      if (!batch) break;
      left -= batch.count;
      for (const row of parseExact(batch.rows) as Record<string, unknown>[]) {
        if (asJson) call.print(JSON.stringify(row));
        else shown.push(columns.map((column) => cell(row[column.name])));
      }
    }
  } finally {
    await snapshot.close();
  }
  if (asJson) return;
  for (const line of asTable(shown)) call.print(line);
  const rows = await store.count(name);
  if (rows > shown.length - 1) call.tell(`millrace: ${shown.length - 1} of ${rows} rows; --limit shows more`);
}

function rowLimit(call: CommandCall): number {
  const given = call.option('limit');
  if (given === undefined) return call.switchedOn('json') ? Number.MAX_SAFE_INTEGER : 20;
  if (!/^[1-9]\d*$/.test(given)) throw new UsageError('--limit: must be a whole number from 1 on');
  return Number(given);
}

/** One line, however long and odd the value. */
function cell(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  const line = text.replaceAll(/\p{C}/gu, '·');
  return line.length > CELL_CHARACTERS ? `${[...line].slice(0, CELL_CHARACTERS - 1).join('')}…` : line;
}
