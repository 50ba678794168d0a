import type { HttpRequest } from '../../model/http-request.ts';
import type { JobPage } from '../../model/job.ts';
import type { OperationContext, PageBody } from '../operation.ts';
import type { VariableChanges, Variables } from '../variables.ts';
import type { Parts, Refusal } from './bisect.ts';
import type { BuildParts, IdempotencyOf } from './build-request.ts';
import type { Exchange } from './exchange.ts';
import type { PageLoad, TableLoads } from './load-tables.ts';
import type { LoopRounds } from './loop-guard.ts';
import type { RequestScripts } from './request-scripts.ts';
import type { FileSaver } from './save-to-file.ts';
import type { SourceRecord } from './source-records.ts';

/** What one request brought, ready to be committed. */
export interface Page {
  record: SourceRecord;
  iteration: number;
  loads: PageLoad[];
  changes: VariableChanges;
  /** Which the changes belong to. */
  variables: Variables;
  /** The record has variables of its own. */
  isApart: boolean;
  /** It is to be committed in a transaction of its own. */
  isAlone: boolean;
  next: { url: string; why: string } | null;
  /** The system took nothing of what was sent, and it is searched for what is at fault. */
  refusal: Refusal | null;
  /** Of a source record that is sent. */
  onCommitted: (() => void) | null;
  /** What the system calls what was made of the record. */
  responseId: string | null;
  /** How many requests of the record are committed with this one. */
  requests: number;
  /** Of a batch that is sent in parts: what is left to be sent after this page. */
  parts: Parts | null;
  /** For noticing a loop, should another worker go on. */
  rounds: LoopRounds | null;
  bytes: number;
  /** For the page log, once the page is committed. */
  log: Omit<JobPage, 'n' | 'hasBody'>;
  body: PageBody | null;
}

export type FailedPage = Pick<Page, 'log' | 'body'>;

/** What has to be known of each request that sends a source record, so that none is sent twice. */
export interface Sending {
  readonly idempotencyOf: IdempotencyOf;
  /** Before it goes out. */
  goesOut(): Promise<void>;
  /** Whether it is searched for what the system refused; else the job fails. */
  refused(error: unknown, iteration: number): Refusal | null;
  failed(error: unknown, answer: Answer | null): void;
}

export interface Answer {
  status: number;
  responseId: string | null;
}

/** What all pages of an operation are made with. */
export interface PagedRequestParts extends BuildParts {
  config: HttpRequest;
  context: OperationContext;
  scripts: RequestScripts;
  exchange: Exchange;
  sourceProperties: Record<string, string>;
  baseUrl: string | undefined;
  loads: TableLoads | null;
  saver: FileSaver | null;
  maxResponseBytes: number;
}
