import type { Json } from '../model/json.ts';
import type { columnKinds } from './protocol.ts';

export interface Script {
  /** The property that holds it, such as "request.headers": the script's name in errors. */
  property: string;
  text: string;
}

export interface ScriptInput {
  variables: Record<string, unknown>;
  /** JSON text of `$ctx.data`, "null" when there is none: batches are not built twice. */
  dataJson: string;
  /** Of the Interceptors script. */
  request?: { method: string; url: string; headers: Record<string, string>; bodyStr: string };
  /** Of the scripts of a scenario: what became of the steps before, by their names. */
  steps?: Record<string, Json>;
}

export interface ResponseInput {
  statusCode: number;
  statusMessage: string;
  headers: Record<string, string | string[]>;
  /** UTF-8, without a byte order mark. */
  body: Uint8Array;
}

export interface ConsoleLine {
  level: 'log' | 'warn' | 'error';
  text: string;
}

/**
 * `digits`: a string that stands for a JSON number which a double cannot hold; `bigint`: the same of a BigInt over
 * 2^53; `date`: a Date, as its ISO text. All of them are strings in the rows.
 */
export type ColumnKind = (typeof columnKinds)[number];

export interface TableBlock {
  /** Index in the script's `data`. */
  index: number;
  rowCount: number;
  /** UTF-8 JSON text: an array of row objects (of any JSON with the format "objects"). */
  rows: Uint8Array;
  /** Each property that a row had, in the order of their first appearance, with the kinds of its values. */
  columns: { name: string; kinds: ColumnKind[] }[];
}

export interface ParsedResult {
  /** The result without `data[i].data`: plain JSON within the size limit, not yet checked against the contract. */
  control: unknown;
  blocks: TableBlock[];
  /** The script looked at `$ctx.response.statusCode`. */
  statusCodeRead: boolean;
  console: ConsoleLine[];
}

export interface ScriptValue {
  /** JSON, or undefined. */
  value: unknown;
  console: ConsoleLine[];
}

/**
 * The scripts of one job run. They share an isolate, so that it is built once; globals that a script leaves there
 * may vanish between calls and must not be relied on.
 */
export interface ScriptRun {
  /** URL, Parameters, Headers, Body, Interceptors, when, output. */
  evaluate(script: Script, input: ScriptInput): Promise<ScriptValue>;
  /** The Parsing script. */
  parse(script: Script, input: ScriptInput, response: ResponseInput): Promise<ParsedResult>;
  /**
   * A mapping, with the records of a block as `dataJson`. It returns one table-data object or an array of them;
   * `control` is `{data: […]}` either way.
   */
  map(script: Script, input: ScriptInput): Promise<ParsedResult>;
  /** Calls that wait are refused; one that runs ends by itself. */
  close(): void;
}

/**
 * `script`: the script is at fault; `response`: the response is no JSON; `timeout`, `memory`: over a limit; `crash`: the process died; `overloaded`: too
 * many calls wait, or the application rests after killed processes; `closed`: the run or the pool was closed.
 */
export type ScriptErrorKind =
  'script' | 'response' | 'timeout' | 'memory' | 'crash' | 'overloaded' | 'closed';

export interface ScriptErrorDetail {
  kind: ScriptErrorKind;
  property: string;
  message: string;
  line?: number;
  column?: number;
  /** The line of the script, and under it a caret at the column. */
  excerpt?: string;
  /** It had looked at `$ctx.response.statusCode` before. */
  statusCodeRead?: boolean;
  console?: ConsoleLine[];
  cause?: unknown;
}

/** A script failed. The message names property, line and column and holds the excerpt. */
export class ScriptError extends Error {
  override readonly name = 'ScriptError';
  readonly kind: ScriptErrorKind;
  readonly property: string;
  /** What is wrong, without the place. */
  readonly reason: string;
  readonly line: number | undefined;
  readonly column: number | undefined;
  readonly excerpt: string | undefined;
  readonly statusCodeRead: boolean;
  /** What the script had written until then. */
  readonly console: readonly ConsoleLine[];

  constructor(detail: ScriptErrorDetail) {
    const { kind, property, message, line, column, excerpt, console = [], cause } = detail;
    const place = line === undefined ? property : `${property}, line ${line}, column ${column ?? 1}`;
    super(
      `${place}: ${message}${excerpt === undefined ? '' : `\n${excerpt}`}`,
      cause === undefined ? {} : { cause },
    );
    this.kind = kind;
    this.property = property;
    this.reason = message;
    this.line = line;
    this.column = column;
    this.excerpt = excerpt;
    this.statusCodeRead = detail.statusCodeRead ?? false;
    this.console = console;
  }
}

const EXCERPT_CHARACTERS = 120;

/** The line at fault with a caret; a long line is cut around the column. Positions outside the script give nothing. */
export function placeIn(
  text: string,
  position: readonly [number, number] | null,
): Pick<ScriptErrorDetail, 'line' | 'column' | 'excerpt'> {
  if (position === null) return {};
  const lines = text.split(/\r\n|[\n\r\u2028\u2029]/);
  // A script that ends too early is at fault in the line behind it, which is ours.
  const line = Math.min(position[0], lines.length);
  const source = lines[line - 1] ?? '';
  const column = position[0] > lines.length ? source.length + 1 : Math.min(position[1], source.length + 1);
  const from = Math.max(0, Math.min(column - 1 - EXCERPT_CHARACTERS / 2, source.length - EXCERPT_CHARACTERS));
  const shown = source.slice(from, from + EXCERPT_CHARACTERS);
  const before = shown.slice(0, column - 1 - from).replaceAll(/[^\t]/g, ' ');
  return { line, column, excerpt: `    ${shown}\n    ${before}^` };
}
