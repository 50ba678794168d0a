import type { HttpRequest } from '../../model/http-request.ts';
import type { Json } from '../../model/json.ts';
import type { ScriptPool } from '../../scripting/script-pool.ts';
import type { ConsoleLine, Script, ScriptRun } from '../../scripting/script-run.ts';
import type { JobReport } from '../operation.ts';
import type { PreparedRequest } from './interceptors/interceptor.ts';

/** What all scripts of one round see. */
export interface ScriptContext {
  variables: Record<string, Json>;
  dataJson: string;
}

/** The scripts of one run, with what they write going to the job's log. */
export class RequestScripts {
  readonly run: ScriptRun;
  readonly #report: JobReport;

  constructor(run: ScriptRun, report: JobReport) {
    this.run = run;
    this.#report = report;
  }

  async value(
    property: string,
    text: string,
    context: ScriptContext,
    request?: PreparedRequest,
  ): Promise<unknown> {
    const script: Script = { property, text };
    const { value, console } = await this.run.evaluate(script, {
      ...context,
      ...(request && { request: shownRequest(request) }),
    });
    this.write(console);
    return value;
  }

  write(lines: readonly ConsoleLine[]): void {
    for (const { level, text } of lines) this.#report.log(level === 'log' ? 'info' : level, text);
  }
}

/** A script that cannot be compiled fails the job before anything is sent. */
export async function checkScripts(
  { request, target }: HttpRequest,
  pool: ScriptPool,
  appId: string,
): Promise<void> {
  const texts: Record<string, string | undefined> = {
    'request.url': typeof request.url === 'string' ? undefined : request.url.script,
    'request.parameters': request.parameters,
    'request.headers': request.headers,
    'request.body': typeof request.body === 'object' ? request.body.script : undefined,
    'request.interceptors': request.interceptors,
    'target.parsingScript': target?.action === 'parse JSON' ? target.parsingScript : undefined,
    'target.mapping': target?.action === 'parse JSON' ? target.mapping : undefined,
  };
  for (const [property, text] of Object.entries(texts)) {
    if (text !== undefined) await pool.check(appId, { property, text });
  }
}

/** `$ctx.request` of the Interceptors script. A body that is streamed is not shown. */
function shownRequest({ method, url, headers, body }: PreparedRequest) {
  const shown: Record<string, string> = {};
  for (const { name } of headers) shown[name] = headers.get(name) ?? '';
  const text = body instanceof Uint8Array ? Buffer.from(body).toString() : body;
  return { method, url, headers: shown, bodyStr: typeof text === 'string' ? text : '' };
}
