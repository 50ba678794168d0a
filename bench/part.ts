/** One part of the benchmark. A new one is a folder beside this file and a line in bench.ts. */
export interface Part {
  readonly name: string;
  readonly description: string;
  run(options: BenchOptions): Promise<PartReport>;
}

export interface BenchOptions {
  /** How often each contender is measured; they take turns. */
  rounds: number;
  /** How long one measurement lasts. */
  seconds: number;
  /** How long each contender is driven before the first round. */
  warmupSeconds: number;
  /** Keep-alive connections of the load generator. */
  connections: number;
  /** How many records the download draws. */
  records: number;
  /** Aborted when the run shall end early. */
  signal: AbortSignal;
  /** Tells the person who waits how far it is. */
  tell(line: string): void;
}

export interface PartReport {
  title: string;
  sections: Section[];
  /** All single measurements, for whoever wants to reckon otherwise. */
  measurements: unknown;
}

export interface Section {
  title: string;
  columns: string[];
  rows: string[][];
  notes: string[];
}
