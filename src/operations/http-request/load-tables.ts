import { didYouMean } from '../../model/did-you-mean.ts';
import { ServiceError } from '../../model/errors.ts';
import { ParsingResult, type TableData } from '../../model/parsing-result.ts';
import { columnsOf, type Column, type InlineModel, type Model } from '../../model/table.ts';
import { validate } from '../../model/validate.ts';
import type { ParsedResult, ScriptInput, TableBlock } from '../../scripting/script-run.ts';
import type { InferenceHints, TableLoad, TableStore } from '../../tables/table-store.ts';
import type { PlaceName } from '../data-places.ts';
import type { JobStores } from './job-stores.ts';
import type { RequestScripts } from './request-scripts.ts';

export interface ParseTarget {
  source?: string | undefined;
  space?: string | undefined;
  table?: string | undefined;
  model?: string | InlineModel | undefined;
  mapping?: string | undefined;
}

export interface NamedModels {
  find(name: string): Promise<Model | null>;
  names(): Promise<string[]>;
}

export interface PageLoad {
  place: PlaceName;
  load: TableLoad;
  rowCount: number;
}

const DEFAULT_SOURCE = 'local';

/** Checks what the Parsing script returned against the contract's section 2.5. */
export function checkResult(control: unknown): ParsingResult {
  return inResult(() => validate(ParsingResult, control ?? {}));
}

/** Turns the table-data objects of one page into loads: where to, by which model, in which way. */
export class TableLoads {
  readonly #target: ParseTarget;
  readonly #models: NamedModels;
  readonly #stores: JobStores;
  readonly #jobId: string;
  readonly #scripts: RequestScripts;
  /** Tables that this job makes without a model: later pages may widen them. */
  readonly #inferred = new Set<string>();

  constructor(parts: {
    target: ParseTarget;
    models: NamedModels;
    stores: JobStores;
    jobId: string;
    scripts: RequestScripts;
  }) {
    this.#target = parts.target;
    this.#models = parts.models;
    this.#stores = parts.stores;
    this.#jobId = parts.jobId;
    this.#scripts = parts.scripts;
  }

  async of(
    tables: readonly TableData[],
    blocks: readonly TableBlock[],
    input: ScriptInput,
  ): Promise<PageLoad[]> {
    const loads: PageLoad[] = [];
    for (const [index, table] of tables.entries()) {
      const block = blocks.find((candidate) => candidate.index === index);
      if (!block) throw wrongResult(`data[${index}].data`, 'is missing');
      if (table.format === 'objects') loads.push(...(await this.#mapped(table, block, input, index)));
      else loads.push(await this.#load(table, block, `data[${index}]`));
    }
    return loads;
  }

  /** Contract 2.5: with `objects`, the mapping is applied and must return the format table or JSON. */
  async #mapped(table: TableData, block: TableBlock, input: ScriptInput, index: number): Promise<PageLoad[]> {
    const { mapping } = this.#target;
    if (mapping === undefined) {
      throw wrongResult(`data[${index}].format`, '"objects" needs a mapping in the target');
    }
    const script = { property: 'target.mapping', text: mapping };
    const dataJson = Buffer.from(block.rows).toString();
    const result: ParsedResult = await this.#scripts.run.map(script, { ...input, dataJson });
    this.#scripts.write(result.console);
    const { data } = inResult(
      () => validate(ParsingResult.pick({ data: true }), result.control),
      'target.mapping',
    );
    const { format: _, ...inherited } = table;
    return Promise.all(
      data.map((mapped, at) => {
        if (mapped.format === 'objects') {
          throw wrongResult('target.mapping', 'the mapping must return the format "table" or "JSON"');
        }
        const own = result.blocks.find((candidate) => candidate.index === at);
        if (!own) throw wrongResult('target.mapping', `data[${at}].data is missing`);
        return this.#load({ ...inherited, ...givenOf(mapped, result.control, at) }, own, `data[${index}]`);
      }),
    );
  }

  async #load(table: TableData, block: TableBlock, path: string): Promise<PageLoad> {
    const { place, store } = await this.#place(table, path);
    const name = { space: place.space, table: place.table };
    const columns = await this.#columns(table, path);
    const load: TableLoad = {
      table: name,
      columns,
      mode: table.mode,
      ...(table.keys && { keys: table.keys }),
      temporary: table.tmpTable,
      widen: columns === null && (await this.#isInferred(store, place, table)),
      ...(columns === null && { inference: inferenceHints(table, block) }),
      rows: block.rows,
    };
    return { place, load, rowCount: block.rowCount };
  }

  async #place(table: TableData, path: string): Promise<{ place: PlaceName; store: TableStore }> {
    const source = table.sourceName ?? this.#target.source ?? DEFAULT_SOURCE;
    const at = table.sourceName === undefined ? 'target.source' : `${path}.sourceName`;
    const { store, defaultSpace } = await this.#stores.of(source, at);
    const targetSpace = table.sourceName === undefined ? this.#target.space : undefined;
    const space = table.spaceName ?? targetSpace ?? defaultSpace;
    const base = table.tableName ?? this.#target.table;
    if (base === undefined) {
      throw wrongResult(`${path}.tableName`, 'is missing, and the target names no table either');
    }
    return { place: { source, space, table: base + (table.tableNameSuffix ?? '') }, store };
  }

  async #columns({ model, modelName }: TableData, path: string): Promise<Column[] | null> {
    if (model) return columnsOf(model);
    const configured = modelName ?? this.#target.model;
    if (configured === undefined) return null;
    if (typeof configured !== 'string') return columnsOf(configured);
    const found = await this.#models.find(configured);
    if (found) return columnsOf(found);
    const at = modelName === undefined ? 'target.model' : `${path}.modelName`;
    const known = await this.#models.names();
    throw new ServiceError(
      'unknown_model',
      `${at}: there is no model "${configured}".${didYouMean(configured, known)} Known: ${known.join(', ') || 'none'}`,
      { path: at },
    );
  }

  async #isInferred(store: TableStore, place: PlaceName, { mode, tmpTable }: TableData): Promise<boolean> {
    const key = JSON.stringify([place, tmpTable]);
    if (this.#inferred.has(key)) return true;
    const { space, table } = place;
    const ask = tmpTable ? { space, table, jobId: this.#jobId } : { space, table };
    // A table that was made of no records has no columns yet.
    const isNew = mode === 'createThenAppend' || !(await store.columns(ask))?.length;
    if (isNew) this.#inferred.add(key);
    return isNew;
  }
}

/** Contract 2.5: in the format table, objects and arrays become text. */
function inferenceHints({ format }: TableData, { columns }: TableBlock): InferenceHints {
  const longNumbers = columns.filter(
    ({ kinds }) =>
      (kinds.includes('digits') || kinds.includes('bigint')) &&
      !kinds.includes('string') &&
      !kinds.includes('date'),
  );
  return { digits: longNumbers.map(({ name }) => name), nested: format === 'JSON' ? 'json' : 'text' };
}

/** Only what the mapping gave itself: its defaults must not hide what the Parsing script had said. */
function givenOf(mapped: TableData, control: unknown, at: number): TableData {
  const given = (control as { data: Record<string, unknown>[] }).data[at] ?? {};
  const entries = Object.entries(mapped).filter(([key]) => key === 'format' || key in given);
  return Object.fromEntries(entries) as TableData;
}

function inResult<Result>(check: () => Result, where = 'target.parsingScript'): Result {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError('invalid_result', `${where} returned a wrong result: ${error.message}`, {
      path: where,
    });
  }
}

function wrongResult(path: string, problem: string): ServiceError {
  return new ServiceError(
    'invalid_result',
    `target.parsingScript returned a wrong result: ${path}: ${problem}`,
    {
      path: 'target.parsingScript',
    },
  );
}
