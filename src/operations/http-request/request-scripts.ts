import type { Json } from '../../model/json.ts';
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

/** `$ctx.request` of the Interceptors script. A body that is streamed is not shown. */
function shownRequest({ method, url, headers, body }: PreparedRequest) {
  const shown: Record<string, string> = {};
  for (const { name } of headers) shown[name] = headers.get(name) ?? '';
  const text = body instanceof Uint8Array ? Buffer.from(body).toString() : body;
  return { method, url, headers: shown, bodyStr: typeof text === 'string' ? text : '' };
}
