/**
 * What a script of millrace sees: for editors. A script is a function body in strict JavaScript whose last statement
 * is `return`. Put `/// <reference path="millrace-scripts.d.ts" />` above it. This file has no other use.
 */

/** A value as JSON has it. */
type MillraceJson = string | number | boolean | null | MillraceJson[] | { [name: string]: MillraceJson };
/** A record: column name to value. A number that a double cannot hold exactly is the string of its digits. */
type MillraceRecord = Record<string, MillraceJson>;

interface MillraceResponse {
  /** Reading it tells millrace that the script takes charge of statuses other than 2xx. */
  statusCode: number;
  statusMessage: string;
  /** Lower-case names; a repeated header is joined by `, `, but `set-cookie` is an array. */
  headers: Record<string, string | string[]>;
  /** The parsed JSON; null when the body is empty. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the shape is the external system's
  body: any;
  /** The body before parsing; "" when it is empty. */
  bodyStr: string;
}

interface MillraceRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  bodyStr: string;
}

interface MillraceStep {
  state: 'succeeded' | 'failed' | 'skipped';
  pages: number;
  records: number;
  tables: { source: string; space: string; table: string; records: number }[];
  /** Of its operation; null where there is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- another scenario may return anything
  output: any;
  error?: { code: string; message: string };
}

interface MillraceContext {
  /** Application variables, overridden by those of the execution context. */
  // oxlint-disable-next-line typescript/no-explicit-any -- variables hold any JSON
  variables: Record<string, any>;
  /** The source record, or an array of them when batching is on; null without a source table. */
  // oxlint-disable-next-line typescript/no-explicit-any -- columns hold any JSON
  data: any;
  /** Parsing script only. */
  response: MillraceResponse;
  /** Interceptors script only. */
  request: MillraceRequest;
  /** Scripts of a scenario only: what became of the steps before, by their names. */
  steps: Record<string, MillraceStep>;
}

/** New for each call: what a script changes in it nobody else sees. */
declare const $ctx: MillraceContext;

type MillraceData = string | Uint8Array;
type MillraceHash = 'md5' | 'sha1' | 'sha256' | 'sha512';
type MillraceEncoding = 'hex' | 'base64' | 'base64url';

/** Strings are taken as UTF-8. */
declare const crypto: {
  readonly hash: {
    (algorithm: MillraceHash, data: MillraceData, encoding?: MillraceEncoding): string;
    (algorithm: MillraceHash, data: MillraceData, encoding: 'bytes'): Uint8Array;
  };
  readonly hmac: {
    (algorithm: MillraceHash, key: MillraceData, data: MillraceData, encoding?: MillraceEncoding): string;
    (algorithm: MillraceHash, key: MillraceData, data: MillraceData, encoding: 'bytes'): Uint8Array;
  };
  /** Up to 65,536 of them; bytes unless an encoding is named. */
  readonly randomBytes: {
    (count: number, encoding: MillraceEncoding): string;
    (count: number, encoding?: 'bytes'): Uint8Array;
  };
  /** A random UUID, version 4. */
  readonly uuid: () => string;
  readonly utf8Encode: (text: string) => Uint8Array;
  readonly utf8Decode: (bytes: Uint8Array) => string;
  readonly hexEncode: (data: MillraceData) => string;
  readonly hexDecode: (text: string) => Uint8Array;
  readonly base64Encode: (data: MillraceData) => string;
  /** Without padding. */
  readonly base64UrlEncode: (data: MillraceData) => string;
  /** Takes both alphabets, with or without padding. */
  readonly base64Decode: (text: string) => Uint8Array;
};

/** Goes to the job's log. */
declare const console: {
  readonly log: (...values: unknown[]) => void;
  readonly warn: (...values: unknown[]) => void;
  readonly error: (...values: unknown[]) => void;
};

/** Underscore 1.8.3; `@types/underscore` describes it. */
// oxlint-disable-next-line typescript/no-explicit-any -- its own types are a package
declare const _: any;

/** URL script. */
type MillraceUrlResult = string;
/** Parameters script: an array repeats the name, null is an empty value, undefined leaves the parameter out. */
type MillraceParametersResult = Record<
  string,
  string | number | boolean | null | undefined | (string | number | boolean | null)[]
>;
/** Headers script. */
type MillraceHeadersResult = Record<string, string | number | boolean | null | undefined>;
/** Body script: serialized with JSON.stringify. */
type MillraceBodyResult = unknown;
/** Interceptors script. */
type MillraceInterceptorsResult = (
  | {
      name: 'signWithCloudSigV4' | 'signWithAWSSigV4';
      params: { region: string; serviceName: string; accessKeyId: string; accessKey: string };
    }
  | {
      name: 'extendRequest';
      params: { parameters?: Record<string, unknown>; headers?: Record<string, string> };
    }
)[];

interface MillraceTableData {
  data: Record<string, unknown>[];
  /** Default: table. With objects the mapping is applied first. */
  format?: 'objects' | 'table' | 'JSON';
  sourceName?: string;
  spaceName?: string;
  tableName?: string;
  tableNameSuffix?: string;
  modelName?: string;
  model?: { columns: { name: string; type: string; position: number }[] };
  mode?: 'createThenAppend' | 'append' | 'merge';
  /** With the mode merge. */
  keys?: string[];
  tmpTable?: 'true' | 'false' | boolean;
}

/** Parsing script. */
interface MillraceParsingResult {
  data?: MillraceTableData[];
  /** A string sets an application variable. */
  variables?: Record<string, string | { value: MillraceJson; scope: 'executionContext' | 'application' }>;
  doWhile?: boolean | { url?: string };
  /** Milliseconds. */
  doWhileDelay?: number;
}

/** `when` of a step. */
type MillraceWhenResult = unknown;
/** Output of a scenario. */
type MillraceOutputResult = MillraceJson | undefined;

/** Mapping: the format must be table or JSON. */
type MillraceMappingResult = MillraceTableData | MillraceTableData[];
