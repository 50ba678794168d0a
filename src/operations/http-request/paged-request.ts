import type { JobError } from '../../model/job.ts';
import type { ParsingResult } from '../../model/parsing-result.ts';
import { readUtf8 } from '../../http/charset.ts';
import type { HttpResponse } from '../../http/http-client.ts';
import { mayRetryFreely } from '../../http/retry.ts';
import type { Redactor } from '../../http/redaction.ts';
import { ScriptError, type ParsedResult, type ScriptInput } from '../../scripting/script-run.ts';
import { HttpStatusError, jobErrorOf } from '../failure.ts';
import { Paused, type PageBody } from '../operation.ts';
import { changesOf, type VariableChanges, type Variables } from '../variables.ts';
import { redactorOf, withoutKey } from './authorization.ts';
import { buildRequest, configuredUrl, type BuiltRequest, type IdempotencyOf } from './build-request.ts';
import type { PreparedRequest } from './interceptors/interceptor.ts';
import { checkResult, type PageLoad } from './load-tables.ts';
import { hashOf, LoopGuard } from './loop-guard.ts';
import type { RecordState } from './loop-state.ts';
import type { Answer, FailedPage, Page, PagedRequestParts, Sending } from './page.ts';
import { pause } from './pause.ts';
import { responseIdOf } from './response-id.ts';
import type { ScriptContext } from './request-scripts.ts';
import { saveToFile, type FileSaver } from './save-to-file.ts';
import { shownRequest } from './shown-request.ts';
import type { SourceRecord } from './source-records.ts';
import { nextUrl } from './url.ts';

/** Which round it is, and of what. */
interface RoundOf {
  record: SourceRecord;
  sending: Sending | null;
  iteration: number;
  guard: LoopGuard | null;
  variables: Variables;
  isApart: boolean;
}

interface Received {
  statusCode: number;
  statusMessage: string;
  headers: HttpResponse['headers'];
  body: Uint8Array;
  bytes: number;
}

const BODY_SHOWN = 2_000;
const NOTHING_PARSED: ParsedResult = { control: null, blocks: [], statusCodeRead: false, console: [] };

/** The doWhile loop of one record: a generator of pages, which goes on when its page is committed. */
export class PagedRequest {
  readonly #parts: PagedRequestParts;
  /** What is known of the pages that ended a loop with an error. */
  readonly failedPages: FailedPage[] = [];

  constructor(parts: PagedRequestParts) {
    this.#parts = parts;
  }

  /** `state`: pages of the record are committed already. */
  async *pages(
    record: SourceRecord,
    state: RecordState | null,
    sending: Sending | null = null,
  ): AsyncGenerator<Page> {
    const { config, context } = this.#parts;
    const { onRepeat, concurrency } = config.request.options;
    const isApart = concurrency > 1;
    const variables = isApart ? context.variables.nested(state?.executionContext ?? {}) : context.variables;
    const guard = onRepeat === 'fail' ? new LoopGuard(state?.rounds ?? null) : null;
    let url = state ? state.next : await this.#configuredUrl(record, variables);
    for (let iteration = (state?.iteration ?? 0) + 1; url !== null; iteration += 1) {
      const round = new Round(this.#parts, { record, sending, iteration, guard, variables, isApart });
      const { page, delayMs } = await this.#run(round, url, record, variables);
      yield page;
      if (page.next && delayMs > 0) await pause(delayMs, context, !isApart);
      url = page.next?.url ?? null;
    }
  }

  async #run(round: Round, url: string, record: SourceRecord, variables: Variables) {
    try {
      return await round.run(url, this.#scriptContext(record, variables));
    } catch (error) {
      if (this.#parts.context.signal.aborted) throw error;
      const page = round.refused(error);
      if (page) return { page, delayMs: 0 };
      const failed = round.failed(error);
      if (!(error instanceof Paused)) this.failedPages.push(failed);
      throw error;
    }
  }

  #configuredUrl(record: SourceRecord, variables: Variables): Promise<string> {
    const { config, scripts, baseUrl } = this.#parts;
    return configuredUrl(config.request, baseUrl, scripts, this.#scriptContext(record, variables));
  }

  #scriptContext({ dataJson }: SourceRecord, variables: Variables): ScriptContext {
    return { variables: variables.seenWith(this.#parts.sourceProperties), dataJson };
  }
}

/** One request and what becomes of its response. */
class Round {
  readonly #parts: PagedRequestParts;
  readonly #of: RoundOf;
  readonly #startedAt = new Date();
  readonly #timing = { sendMs: 0, parseMs: 0, loadMs: 0 };
  #built: BuiltRequest | null = null;
  #sent: PreparedRequest | null = null;
  #received: Received | null = null;
  #tries = 0;
  #hash: string | null = null;

  constructor(parts: PagedRequestParts, of: RoundOf) {
    this.#parts = parts;
    this.#of = of;
  }

  /** null: the job fails. */
  refused(error: unknown): Page | null {
    const { sending, iteration } = this.#of;
    const refusal = sending?.refused(error, iteration) ?? null;
    if (!refusal) return null;
    return { ...this.#page([], NO_CHANGES, null), refusal, log: this.#log([], null, jobErrorOf(error)) };
  }

  failed(error: unknown): FailedPage {
    this.#of.sending?.failed(error, this.#answer());
    return { log: this.#log([], null, jobErrorOf(error)), body: this.#body() };
  }

  async run(url: string, context: ScriptContext): Promise<{ page: Page; delayMs: number }> {
    const { config, loads, saver, context: job } = this.#parts;
    const { sending } = this.#of;
    const idempotencyOf = this.#idempotencyOf();
    this.#built = await buildRequest(config.request, url, context, this.#parts, idempotencyOf);
    this.#warnOfOverriding(this.#built);
    await sending?.goesOut();
    if (saver) {
      await this.#save(saver);
      return { page: this.#page([], NO_CHANGES, null), delayMs: 0 };
    }
    const received = await this.#receive();
    const input: ScriptInput = { ...context };
    const parsed = await this.#parse(received, input);
    const result = checkResult(parsed.control);
    const pageLoads = loads ? await loads.of(result.data, parsed.blocks, input) : [];
    const rows = pageLoads.reduce((sum, { rowCount }) => sum + rowCount, 0);
    const next = this.#next(result, url);
    if (next) this.#of.guard?.check(this.#requestHash(), this.#responseHash(received), rows);
    job.report.stats.bytes += received.bytes;
    return { page: this.#page(pageLoads, changesOf(result.variables), next), delayMs: result.doWhileDelay };
  }

  async #receive(): Promise<Received> {
    const { exchange, maxResponseBytes, mayHaveCredentials } = this.#parts;
    const { request } = this.#built as BuiltRequest;
    const start = performance.now();
    this.#sent = request;
    const { result, sent, tries } = await exchange.receive(
      request,
      mayHaveCredentials(request.url),
      async (response) => {
        const body = await readUtf8(response, maxResponseBytes);
        const { statusCode, statusMessage, headers } = response;
        return { statusCode, statusMessage, headers, body, bytes: body.byteLength };
      },
    );
    this.#timing.sendMs = elapsed(start);
    this.#sent = sent;
    this.#tries = tries;
    this.#received = result;
    return result;
  }

  async #save(saver: FileSaver): Promise<void> {
    const { exchange, mayHaveCredentials, context } = this.#parts;
    const { request } = this.#built as BuiltRequest;
    const start = performance.now();
    this.#sent = request;
    const saved = await saveToFile(saver, exchange, request, mayHaveCredentials(request.url));
    this.#timing.sendMs = elapsed(start);
    this.#sent = saved.sent;
    this.#tries = saved.tries;
    const { bytes, statusCode, statusMessage, headers, beginning } = saved.result;
    this.#received = { statusCode, statusMessage, headers, body: beginning, bytes };
    if (!isSuccess(statusCode)) throw this.#statusError(this.#received);
    context.report.stats.bytes += bytes;
  }

  /**
   * A status other than 2xx is a failure, unless the script looked at it and so has taken charge; a script that
   * did not, and stumbled over the unexpected body, is not what is to be reported.
   */
  async #parse(received: Received, input: ScriptInput): Promise<ParsedResult> {
    const { config, scripts } = this.#parts;
    const { onHttpError } = config.request.options;
    const failed = !isSuccess(received.statusCode);
    const text = config.target?.action === 'parse JSON' ? config.target.parsingScript : undefined;
    if (failed && (onHttpError === 'fail' || text === undefined)) throw this.#statusError(received);
    if (text === undefined) return NOTHING_PARSED;
    const start = performance.now();
    try {
      const parsed = await scripts.run.parse({ property: 'target.parsingScript', text }, input, received);
      scripts.write(parsed.console);
      if (failed && !parsed.statusCodeRead && onHttpError !== 'script') throw this.#statusError(received);
      return parsed;
    } catch (error) {
      if (error instanceof ScriptError) {
        scripts.write(error.console);
        if (failed && !error.statusCodeRead && onHttpError !== 'script') throw this.#statusError(received);
      }
      throw error;
    } finally {
      this.#timing.parseMs = elapsed(start);
    }
  }

  #next({ doWhile }: ParsingResult, url: string): Page['next'] {
    if (doWhile === false) return null;
    if (doWhile === true) return { url, why: 'doWhile is true: the same URL again' };
    if (doWhile.url === undefined)
      return { url, why: 'doWhile is an object without a url: the same URL again' };
    const next = withoutKey(nextUrl(doWhile.url, url), this.#parts.authorizer);
    return { url: next, why: `doWhile.url is ${doWhile.url}` };
  }

  #warnOfOverriding({ overriddenParameters }: BuiltRequest): void {
    if (this.#of.iteration === 1 || overriddenParameters.length === 0) return;
    this.#parts.context.report.log(
      'warn',
      `the Parameters script overrides ${overriddenParameters.join(', ')} of the URL that doWhile gave: if paging ` +
        'does not advance, leave these parameters out there after the first page',
    );
  }

  #statusError({ statusCode, statusMessage, body }: Received): HttpStatusError {
    const redactor = this.#redactor();
    const beginning = redactor.text(Buffer.from(body.subarray(0, BODY_SHOWN)).toString()).slice(0, 500);
    const { method, url } = this.#sent ?? (this.#built as BuiltRequest).request;
    return new HttpStatusError(method, redactor.url(url), statusCode, statusMessage, beginning);
  }

  #responseHash({ body }: Received): string {
    this.#hash ??= hashOf(body);
    return this.#hash;
  }

  #requestHash(): string {
    const { method, url, body } = (this.#built as BuiltRequest).request;
    const content = typeof body === 'string' || body instanceof Uint8Array ? body : '';
    return hashOf(method, url, content);
  }

  /** Without a source table each job sends for itself, also when it runs another one again. */
  #idempotencyOf(): IdempotencyOf {
    const { context, config } = this.#parts;
    const { method, options } = config.request;
    if (!options.idempotencyKey || mayRetryFreely(method)) return null;
    const { sending, iteration } = this.#of;
    return [...(sending?.idempotencyOf ?? [context.jobId, context.step]), String(iteration)];
  }

  #answer(): Answer | null {
    const received = this.#received;
    return received && { status: received.statusCode, responseId: responseIdOf(received) };
  }

  #page(loads: PageLoad[], changes: VariableChanges, next: Page['next']): Page {
    return {
      ...this.#of,
      loads,
      changes,
      isAlone: false,
      next,
      refusal: null,
      onCommitted: null,
      responseId: this.#of.sending ? (this.#answer()?.responseId ?? null) : null,
      requests: this.#of.iteration,
      parts: null,
      rounds: this.#of.guard?.rounds ?? null,
      bytes: this.#received?.bytes ?? 0,
      log: this.#log(loads, next, null),
      body: this.#body(),
    };
  }

  #redactor(): Redactor {
    return redactorOf(this.#parts.authorizer);
  }

  #body(): PageBody | null {
    const received = this.#received;
    if (!received) return null;
    return { bytes: received.body, redact: (text) => this.#redactor().text(text) };
  }

  #log(loads: PageLoad[], next: Page['next'], error: JobError | null): Page['log'] {
    const redactor = this.#redactor();
    const received = this.#received;
    const { config } = this.#parts;
    const overridden = this.#built?.overriddenParameters ?? [];
    return {
      record: this.#of.record.shownNumber,
      iteration: this.#of.iteration,
      request: shownRequest(
        this.#sent ?? this.#built?.request ?? null,
        config.request.method,
        overridden,
        redactor,
      ),
      status: received?.statusCode ?? null,
      statusMessage: received && redactor.text(received.statusMessage),
      responseHeaders: redactor.headerRecord(received?.headers ?? {}),
      startedAt: this.#startedAt.toISOString(),
      timing: this.#timing,
      tries: this.#tries,
      bytes: received?.bytes ?? 0,
      records: loads.reduce((sum, { rowCount }) => sum + rowCount, 0),
      tables: loads.map(({ place, rowCount }) => ({ ...place, records: rowCount })),
      next: next && { url: redactor.url(next.url), why: redactor.text(next.why) },
      hash: received ? this.#responseHash(received) : null,
      error: error && { ...error, message: redactor.text(error.message) },
    };
  }
}

const NO_CHANGES: VariableChanges = { application: {}, executionContext: {} };

function isSuccess(statusCode: number): boolean {
  return statusCode >= 200 && statusCode < 300;
}

function elapsed(start: number): number {
  return Math.round(performance.now() - start);
}
