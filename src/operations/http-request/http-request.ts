import { FileError } from '../../files/file-error.ts';
import { checkFileName } from '../../files/file-names.ts';
import type { HttpClient } from '../../http/http-client.ts';
import { contractMethods, HttpRequest } from '../../model/http-request.ts';
import { ServiceError } from '../../model/errors.ts';
import type { JobStats } from '../../model/job.ts';
import type { Json } from '../../model/json.ts';
import { builtInSources, type HttpSource } from '../../model/source.ts';
import type { Model } from '../../model/table.ts';
import { didYouMean } from '../../model/did-you-mean.ts';
import type { ScriptPool } from '../../scripting/script-pool.ts';
import type { ApplicationVariables } from '../../system/application-variables.ts';
import type { Definitions } from '../../system/definitions.ts';
import type { Outbox } from '../../system/outbox.ts';
import type { Sources } from '../../system/sources.ts';
import { sourceOfType, type DataPlaces } from '../data-places.ts';
import type { Operation, OperationContext } from '../operation.ts';
import { createAuthorizer, redactorOf, type Authorizer, type OAuthTokens } from './authorization.ts';
import { Exchange, routeOf } from './exchange.ts';
import { HomeHost, withheldFrom } from './home-host.ts';
import type { InterceptorRegistry } from './interceptors/interceptor.ts';
import { JobStores } from './job-stores.ts';
import { TableLoads, type NamedModels } from './load-tables.ts';
import { LoopState } from './loop-state.ts';
import { PageCommitter } from './page-committer.ts';
import { PagedRequest } from './paged-request.ts';
import { longWaits } from './pause.ts';
import { loopOverRecords } from './record-loop.ts';
import { checkScripts, RequestScripts } from './request-scripts.ts';
import { FileSaver } from './save-to-file.ts';
import {
  inputSource,
  isInput,
  noSource,
  openSourceTable,
  tableSource,
  type Source,
} from './source-records.ts';
import { SourceSender } from './source-sender.ts';
import type { SourceLimits } from './source-turns.ts';
import { transmitTables } from './transmit-tables.ts';

export interface HttpRequestParts {
  client: HttpClient;
  scripts: ScriptPool;
  places: DataPlaces;
  sources: Sources;
  definitions: Definitions;
  variables: ApplicationVariables;
  outbox: Outbox;
  interceptors: InterceptorRegistry;
  oauthTokens: OAuthTokens;
  sourceLimits: SourceLimits;
  /** Methods beside the contract's four. */
  extraMethods: readonly string[];
}

const DEFAULT_MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Contract 2.3: the operation HTTPRequest. This file holds the loop; each station has a file of its own. */
export class HttpRequestOperation implements Operation<HttpRequest> {
  readonly opName = 'HTTPRequest';
  readonly params = HttpRequest;
  readonly #parts: HttpRequestParts;

  constructor(parts: HttpRequestParts) {
    this.#parts = parts;
  }

  async check(appId: string, params: HttpRequest, as: 'job' | 'step'): Promise<void> {
    this.#checkMethod(params.request.method);
    await this.#source(appId, params);
    const { sourceTable, target } = params;
    if (sourceTable && isInput(sourceTable) && as === 'job') {
      const problem = 'sourceTable.source: "input" stands for the data of a scenario, and this is none';
      throw new ServiceError('unknown_source', problem, { path: 'sourceTable.source' });
    }
    const { places } = this.#parts;
    if (sourceTable && !isInput(sourceTable)) {
      if (as === 'job') await openSourceTable(sourceTable, places, { appId, jobId: '' });
      else await sourceOfType(places, appId, sourceTable.source, 'TableSource', 'sourceTable.source');
    }
    if (target?.source !== undefined) {
      const type = target.action === 'save to file' ? 'FileSource' : 'TableSource';
      await sourceOfType(places, appId, target.source, type, 'target.source');
    }
    if (target?.action === 'save to file') checkFile(target);
    if (target?.action === 'parse JSON' && typeof target.model === 'string') {
      await requireModel(this.#models(appId), target.model);
    }
  }

  targetOf({ target }: HttpRequest): string | null {
    if (target?.table === undefined) return null;
    const { source = target.action === 'save to file' ? 'files' : 'local', space, table } = target;
    return JSON.stringify([source, space ?? null, table]);
  }

  async run(params: HttpRequest, context: OperationContext): Promise<Json> {
    const { appId, report } = context;
    const run = this.#parts.scripts.openRun(appId);
    try {
      const scripts = new RequestScripts(run, report);
      await checkScripts(params, this.#parts.scripts, appId);
      const stores = await JobStores.open(this.#parts.places, context, homeSourceOf(params));
      const state = new LoopState(await stores.claim());
      const saver = await this.#saver(appId, params);
      await this.#restore(state, context, saver);
      const request = await this.#pagedRequest(params, context, scripts, stores, saver);
      const committer = new PageCommitter({
        stores,
        variables: this.#parts.variables,
        context,
        state,
        saver,
        mayOverlap: params.request.method === 'GET' && params.request.options.concurrency === 1,
      });
      const { outbox, places } = this.#parts;
      const homeSource = homeSourceOf(params);
      const sending = { config: params, context, request, outbox, state, stores, homeSource };
      const sender = await SourceSender.open(sending);
      const source = await openSource(params, context, places, state);
      try {
        const { concurrency } = params.request.options;
        await loopOverRecords({ context, source, state, request, committer, sender, concurrency });
      } finally {
        await source.close();
      }
      await stores.finish();
      return outputOf(state, saver, (await sender?.counts()) ?? null);
    } finally {
      run.close();
    }
  }

  /** Goes on where a worker before this one has stopped. */
  async #restore(
    { restored }: LoopState,
    { appId, variables, report }: OperationContext,
    saver: FileSaver | null,
  ): Promise<void> {
    if (!restored) return;
    await this.#parts.variables.set(appId, restored.application);
    variables.apply({ application: restored.application, executionContext: {} });
    variables.restore(restored.executionContext);
    saver?.restore(restored.files);
    Object.assign(report.stats, furtherOf(report.stats, restored.stats));
  }

  async #pagedRequest(
    params: HttpRequest,
    context: OperationContext,
    scripts: RequestScripts,
    stores: JobStores,
    saver: FileSaver | null,
  ): Promise<PagedRequest> {
    const { appId, jobId, report, signal, stopSignal } = context;
    const { request: config, target } = params;
    const { concurrency, retry } = config.options;
    const source = await this.#source(appId, params);
    const authorizer = this.#authorizer(source, params, context, scripts);
    report.redactWith((text) => redactorOf(authorizer).text(text));
    const hasCredentials = (source?.auth ?? config.auth ?? { type: 'none' }).type !== 'none';
    const home = new HomeHost(source, (origin) => {
      if (hasCredentials) report.log('warn', withheldFrom(origin));
    });
    const exchange = new Exchange({
      client: this.#parts.client,
      options: config.options,
      source,
      authorizer,
      report,
      signal,
      stopSignal,
      mayHaveCredentials: (url) => home.trusts(url),
      // With others under way the job keeps its place.
      longWaits: concurrency === 1 ? longWaits(context, retry === false ? 1 : retry.tries) : null,
      turns: source && this.#parts.sourceLimits.of(`${appId}/${source.name}`, source.rateLimit),
    });
    const loads =
      target?.action === 'parse JSON'
        ? new TableLoads({ target, models: this.#models(appId), stores, jobId, scripts })
        : null;
    return new PagedRequest({
      config: params,
      context,
      scripts,
      exchange,
      sourceProperties: source?.properties ?? {},
      baseUrl: source?.baseUrl,
      loads,
      saver,
      interceptors: this.#parts.interceptors,
      authorizer,
      transmit: transmitTables(this.#parts.places, appId, jobId),
      maxResponseBytes: config.options.maxResponseBytes ?? DEFAULT_MAX_RESPONSE_BYTES,
      mayHaveCredentials: (url) => home.trusts(new URL(url)),
    });
  }

  #authorizer(
    source: HttpSource | null,
    { request }: HttpRequest,
    { appId, signal, variables }: OperationContext,
    scripts: RequestScripts,
  ): Authorizer {
    return createAuthorizer(source?.auth ?? request.auth ?? { type: 'none' }, {
      tokens: this.#parts.oauthTokens,
      sourceKey: source && `${appId}/${source.name}`,
      interceptors: this.#parts.interceptors,
      route: routeOf(source),
      signal,
      runScript: (property, text, prepared, extra) => {
        const seen = { ...variables.seenWith(source?.properties ?? {}), ...extra } as Record<string, Json>;
        return scripts.value(property, text, { variables: seen, dataJson: 'null' }, prepared);
      },
    });
  }

  async #saver(appId: string, { target }: HttpRequest): Promise<FileSaver | null> {
    if (target?.action !== 'save to file') return null;
    const { places } = this.#parts;
    const { source = 'files', space, table } = target;
    const { defaultSpace } = await sourceOfType(places, appId, source, 'FileSource', 'target.source');
    return new FileSaver(await places.files(appId, source), space ?? defaultSpace, table);
  }

  #checkMethod(method: string): void {
    const { extraMethods } = this.#parts;
    const known = [...contractMethods, ...extraMethods];
    if (known.includes(method)) return;
    const canBeAdded = method === 'PUT' || method === 'HEAD';
    const advice = canBeAdded ? ` The setting extraMethods can add ${method}.` : didYouMean(method, known);
    throw new ServiceError(
      'invalid_request',
      `request.method: must be one of ${known.join(', ')}.${advice}`,
      { path: 'request.method' },
    );
  }

  async #source(appId: string, { request: { source: name } }: HttpRequest): Promise<HttpSource | null> {
    if (name === undefined) return null;
    const found = await this.#parts.sources.http(appId, name);
    if (found) return found;
    const known = await this.#parts.definitions.names(appId, 'source');
    throw new ServiceError(
      'unknown_source',
      `request.source: there is no HTTPSource "${name}".${didYouMean(name, known)} Known: ${known.join(', ') || 'none'}`,
      { path: 'request.source' },
    );
  }

  #models(appId: string): NamedModels {
    const { definitions } = this.#parts;
    return {
      find: async (name) =>
        ((await definitions.get(appId, 'model', name))?.body as Model | undefined) ?? null,
      names: () => definitions.names(appId, 'model'),
    };
  }
}

/** A name that would leave the folder is refused with the call, not when the response is there. */
function checkFile({ space, table }: { space?: string | undefined; table: string }): void {
  try {
    checkFileName({ space: space ?? builtInSources.files.defaultSpace, name: table });
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    const path = error.field === 'space' ? 'target.space' : 'target.table';
    throw new ServiceError('invalid_request', `${path}: ${error.message}`, { path, cause: error });
  }
}

/** Where the checkpoint stands: beside the rows. */
function homeSourceOf({ target }: HttpRequest): string {
  return (target?.action === 'parse JSON' ? target.source : undefined) ?? 'local';
}

/** Behind the last committed record; what belongs to it is known from the checkpoint. */
async function openSource(
  { sourceTable }: HttpRequest,
  context: OperationContext,
  places: DataPlaces,
  state: LoopState,
): Promise<Source> {
  const { input, report } = context;
  if (!sourceTable) return noSource(state.source, input);
  const source = isInput(sourceTable)
    ? inputSource(sourceTable, state.source, input)
    : await tableSource(sourceTable, state.source, await openSourceTable(sourceTable, places, context));
  report.stats.total = source.total;
  state.endsAt(source.until);
  return source;
}

/** The checkpoint and the record of the job are not written at the same moment: whichever is further counts. */
function furtherOf(a: JobStats, b: JobStats): Partial<JobStats> {
  const counts = ['requests', 'pages', 'records', 'bytes', 'sourceRecords'] as const;
  return Object.fromEntries(counts.map((name) => [name, Math.max(a[name], b[name])]));
}

async function requireModel(models: NamedModels, name: string): Promise<void> {
  if (await models.find(name)) return;
  const known = await models.names();
  throw new ServiceError(
    'unknown_model',
    `target.model: there is no model "${name}".${didYouMean(name, known)} Known: ${known.join(', ') || 'none'}`,
    { path: 'target.model' },
  );
}

function outputOf(
  { counts, tally }: LoopState,
  saver: FileSaver | null,
  outbox: Record<string, number> | null,
): Json {
  return {
    ...counts,
    tables: tally.list().map((table) => ({ ...table })),
    ...(saver && { files: saver.files.map((file) => ({ ...file })) }),
    ...(outbox && { outbox }),
  };
}
