import { median, pairwiseRatios } from '../measure/statistics.ts';
import type { Section } from '../part.ts';
import { PAGE, type Run } from './runs.ts';

export interface Runs {
  /** millrace with a tenth of the records. */
  small: Run[];
  millrace: Run[];
  reference: Run[];
}

export function sectionsOf(runs: Runs): Section[] {
  return [rates(runs), processes(runs)];
}

function rates({ millrace, reference }: Runs): Section {
  const rate = ({ records, seconds }: Run) => records / seconds;
  const row = (name: string, runs: readonly Run[]) => [
    name,
    thousands(median(runs.map(rate))),
    median(runs.map((run) => cpuPerRecord(run))).toFixed(1),
    mib(Math.max(...runs.map((run) => peakMib(run)))),
  ];
  const ratio = pairwiseRatios(millrace.map(rate), reference.map(rate));
  return {
    title: `${records(millrace)} records in pages of ${thousands(PAGE)}, a transaction a page`,
    columns: ['median of the rounds', 'records/s', 'CPU us/record', 'peak memory MiB'],
    rows: [row('millrace', millrace), row('reference', reference)],
    notes: [
      `millrace : reference, round by round: ${ratio.median.toFixed(2)} (${ratio.least.toFixed(2)} to ${ratio.most.toFixed(2)}).`,
      'CPU and memory of millrace are those of all its processes, the sandbox included; memory is the sum of their peaks.',
    ],
  };
}

/** What each process of millrace takes, and how that grows with the number of records. */
function processes({ small, millrace }: Runs): Section {
  const most = Math.max(...[...small, ...millrace].map((run) => run.processes.length));
  const row = (name: string, at?: number) => {
    const [few, many] = [small, millrace].map((runs) => Math.max(...runs.map((run) => peakMib(run, at)))) as [
      number,
      number,
    ];
    const cpu = median(millrace.map((run) => cpuPerRecord(run, at)));
    return [name, mib(few), mib(many), few > 0 ? (many / few).toFixed(2) : '', cpu.toFixed(1)];
  };
  return {
    title: 'Each process of millrace',
    columns: [
      'most of all rounds',
      `peak MiB at ${records(small)} records`,
      `peak MiB at ${records(millrace)} records`,
      'times',
      'CPU us/record',
    ],
    rows: [...Array.from({ length: most }, (_, at) => row(nameOf(at), at)), row('sum')],
    notes: ['Every process that was there during the job counts, also one that ended before the job did.'],
  };
}

function nameOf(at: number): string {
  if (at === 0) return 'service';
  return at === 1 ? 'sandbox' : `sandbox ${at}, spare`;
}

/** Without `at`: of all processes. */
function peakMib({ processes: all }: Run, at?: number): number {
  return chosen(all, at).reduce((sum, process) => sum + process.peakMib, 0);
}

function cpuPerRecord({ processes: all, records: count }: Run, at?: number): number {
  return (chosen(all, at).reduce((sum, process) => sum + process.cpuSeconds, 0) * 1e6) / count;
}

function chosen<T>(all: readonly T[], at?: number): readonly T[] {
  return at === undefined ? all : all.slice(at, at + 1);
}

function records([run]: readonly Run[]): string {
  return thousands(run?.records ?? 0);
}

function thousands(value: number): string {
  return Math.round(value).toLocaleString('en');
}

function mib(value: number): string {
  return value.toFixed(0);
}
