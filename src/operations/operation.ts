/** Something that a job can run; `opName` is its name in the contract. */
export interface Operation {
  readonly opName: string;
  /** Gives the job's output. */
  run(job: { appId: string; opParams: Record<string, unknown> }): Promise<unknown>;
}
