import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { KeysetQuery, Success, success } from '../../model/envelope.ts';
import { ServiceError } from '../../model/errors.ts';
import { ColumnType, columnsOf, InlineModel } from '../../model/table.ts';
import { validate } from '../../model/validate.ts';
import { openTables, type DataPlaces } from '../../operations/data-places.ts';
import { jobErrorOf } from '../../operations/failure.ts';
import type { Applications } from '../../system/applications.ts';
import { parseExact } from '../../tables/exact-json.ts';
import type { RowsWrite, TableStore } from '../../tables/table-store.ts';
import { requireApplication } from '../bearer.ts';
import { rawJsonOf } from '../raw-json.ts';
import { route, type Call, type Route } from '../route.ts';

const tag = 'Tables';
const listPath = '/api/v1/applications/{appId}/tables';
const path = `${listPath}/{source}/{space}/{table}` as const;
const params = z.strictObject({
  appId: z.string(),
  source: z.string().meta({ description: '"local"' }),
  space: z.string().meta({ description: 'The default space is "main"' }),
  table: z.string(),
});
type Params = z.output<typeof params>;

const ColumnShape = z.strictObject({ name: z.string(), type: ColumnType });
const Rows = z.strictObject({
  columns: z.array(ColumnShape),
  items: z.array(z.record(z.string(), z.unknown())),
  next: z.string().nullable(),
});
const Records = z.array(z.record(z.string(), z.unknown()));
/** An array of records, or an object that says more. */
const Write = z
  .union([
    Records,
    z.strictObject({
      records: Records,
      model: InlineModel.optional().meta({ description: 'Of a new table; else inferred from the records' }),
      keys: z
        .array(z.string())
        .min(1)
        .optional()
        .meta({ description: 'POST: records with these keys are updated' }),
    }),
  ])
  .meta({ id: 'RecordsToWrite' });
const Written = Success(z.strictObject({ records: z.int() }));

export function tableRoutes({
  applications,
  places,
}: {
  applications: Applications;
  places: DataPlaces;
}): Route[] {
  async function storeOf(
    appId: string,
    source: string,
    { principal }: Pick<Call<unknown, unknown, unknown>, 'principal'>,
  ) {
    requireApplication(principal, appId);
    await applications.get(appId);
    return (await openTables(places, appId, source, 'source')).store;
  }

  async function write(call: Call<Params, unknown, unknown>, mode: 'append' | 'replace'): Promise<unknown> {
    const { appId, source, space, table } = call.params;
    const store = await storeOf(appId, source, call);
    const { rows, model, keys } = givenRows(call.request, call.body);
    if (keys && mode === 'replace') {
      throw new ServiceError('invalid_request', 'keys: belong to POST; PUT replaces all rows', {
        path: 'keys',
      });
    }
    const isNew = (await store.columns({ space, table })) === null;
    const order: RowsWrite = {
      table: { space, table },
      columns: model ? columnsOf(model) : null,
      mode: keys ? 'merge' : mode,
      ...(keys && { keys }),
      widen: isNew && !model,
      rows,
    };
    const records = await asBadRequest(() => store.writeRows(order));
    call.reply.code(isNew ? 201 : 200);
    return success({ records });
  }

  const answers = {
    200: { description: 'How many records were written', schema: Written },
    201: { description: 'The same, into a new table', schema: Written },
  };
  return [
    route(
      {
        method: 'GET',
        path: listPath,
        access: 'viewer',
        tag,
        summary: 'List the tables of a source',
        params: params.pick({ appId: true }),
        query: z.strictObject({ source: z.string().min(1).default('local') }),
        answers: {
          200: {
            description: 'The tables with their columns',
            schema: Success(
              z.array(
                z.strictObject({
                  source: z.string(),
                  space: z.string(),
                  table: z.string(),
                  columns: z.array(ColumnShape),
                }),
              ),
            ),
          },
        },
      },
      async (call) => {
        const { source } = call.query;
        const store = await storeOf(call.params.appId, source, call);
        return success((await store.tables()).map((found) => ({ source, ...found })));
      },
    ),
    route(
      {
        method: 'GET',
        path,
        access: 'viewer',
        tag,
        summary: 'Read the records of a table in keyset pages',
        params,
        query: KeysetQuery.extend({ limit: z.coerce.number().int().min(1).max(10_000).default(100) }),
        answers: { 200: { description: 'The records', schema: Success(Rows) } },
      },
      async (call) => {
        const { source, space, table } = call.params;
        const store = await storeOf(call.params.appId, source, call);
        await requireTable(store, { space, table });
        const { after, limit } = call.query;
        const page = await asBadRequest(() =>
          store.read({ space, table }, { limit, ...(after !== undefined && { after }) }),
        );
        const head = JSON.stringify({ columns: page.columns, next: page.next }).slice(1);
        // The rows are JSON text already: to build them once more would cost memory and exactness.
        call.reply.type('application/json; charset=utf-8');
        return `{"status":"success","result":{"items":${page.rows},${head}}`;
      },
    ),
    route(
      {
        method: 'POST',
        path,
        access: 'operator',
        tag,
        summary:
          'Add records to a table, which is created when it is missing; with keys, update those that are there',
        params,
        body: Write,
        answers,
      },
      (call) => write(call, 'append'),
    ),
    route(
      {
        method: 'PUT',
        path,
        access: 'operator',
        tag,
        summary: 'Replace all records of a table in one step',
        params,
        body: Write,
        answers,
      },
      (call) => write(call, 'replace'),
    ),
    route(
      {
        method: 'DELETE',
        path,
        access: 'editor',
        tag,
        summary: 'Drop a table',
        params,
        answers: { 200: { description: 'It is gone', schema: Success(z.null()) } },
      },
      async (call) => {
        const { source, space, table } = call.params;
        const store = await storeOf(call.params.appId, source, call);
        if (!(await store.dropTable({ space, table }))) throw noTable({ space, table });
        return success(null);
      },
    ),
  ];
}

/** From the text of the body, in which no digit of a number is lost. */
function givenRows(request: FastifyRequest, body: unknown) {
  const { model, keys } = Array.isArray(body)
    ? {}
    : (validate(Write, body as object) as { model?: InlineModel; keys?: string[] });
  const exact = parseExact(rawJsonOf(request)) as unknown[] | { records: unknown[] };
  const rows = JSON.stringify(Array.isArray(exact) ? exact : exact.records);
  return { rows, model, keys };
}

async function requireTable(store: TableStore, table: { space: string; table: string }): Promise<void> {
  if ((await store.columns(table)) === null) throw noTable(table);
}

function noTable({ space, table }: { space: string; table: string }): ServiceError {
  return new ServiceError('not_found', `there is no table "${table}" in the space "${space}"`);
}

/** What a job would fail with is here a fault of the call. */
async function asBadRequest<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const { code, message } = jobErrorOf(error);
    if (code === 'value_error' || code === 'table_error')
      throw new ServiceError('invalid_request', message, { cause: error });
    throw error;
  }
}
