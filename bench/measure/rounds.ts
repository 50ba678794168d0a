import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchOptions } from '../part.ts';
import type { LoadGenerator, LoadRequest } from './load.ts';
import { cpuSeconds, peakMemoryMib } from './process-usage.ts';
import { median } from './statistics.ts';

/** What takes part in a comparison: a request to a server in a process of its own. */
export interface Contender {
  name: string;
  pid: number;
  request: Omit<LoadRequest, 'connections' | 'seconds'>;
}

export interface Measurement {
  answers: number;
  seconds: number;
  perSecond: number;
  latencyMs: { p50: number; p99: number };
  /** Of the server's process with all its threads. */
  serverCpuSeconds: number;
  serverCpuMicrosecondsPerAnswer: number;
  loadCpuSeconds: number;
}

export interface Standing {
  name: string;
  /** One a round. */
  measurements: Measurement[];
  warmupAnswers: number;
  /** Since the start of the server's process. */
  peakMemoryMib: number;
}

/** Long enough for the connections of the last contender to be closed. */
const PAUSE_MS = 300;

/** Measures A B A B …, so that a slow minute of the machine hits all contenders. */
export async function measureInTurns(
  contenders: readonly Contender[],
  load: LoadGenerator,
  options: BenchOptions,
): Promise<Standing[]> {
  const standings: Standing[] = [];
  for (const contender of contenders) {
    const { answers } = await measure(contender, load, { ...options, seconds: options.warmupSeconds });
    standings.push({ name: contender.name, measurements: [], warmupAnswers: answers, peakMemoryMib: 0 });
  }
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const [index, contender] of contenders.entries()) {
      const measurement = await measure(contender, load, options);
      standings[index]?.measurements.push(measurement);
      options.tell(
        `round ${round}/${options.rounds}  ${contender.name}: ${measurement.perSecond.toFixed(0)}/s`,
      );
    }
  }
  for (const [index, { pid }] of contenders.entries()) {
    const standing = standings[index];
    if (standing) standing.peakMemoryMib = await peakMemoryMib(pid);
  }
  return standings;
}

export function medianOf({ measurements }: Standing, value: (measurement: Measurement) => number): number {
  return median(measurements.map(value));
}

async function measure(
  { pid, request }: Contender,
  load: LoadGenerator,
  options: BenchOptions,
): Promise<Measurement> {
  const { connections, seconds, signal } = options;
  await sleep(PAUSE_MS, undefined, { signal });
  const before = { server: await cpuSeconds(pid), load: await cpuSeconds(load.pid) };
  const answer = await load.drive({ ...request, connections, seconds }, signal);
  const serverCpuSeconds = (await cpuSeconds(pid)) - before.server;
  return {
    answers: answer.answers,
    seconds: answer.seconds,
    perSecond: answer.answers / answer.seconds,
    latencyMs: answer.latencyMs,
    serverCpuSeconds,
    serverCpuMicrosecondsPerAnswer: (serverCpuSeconds / answer.answers) * 1e6,
    loadCpuSeconds: (await cpuSeconds(load.pid)) - before.load,
  };
}
