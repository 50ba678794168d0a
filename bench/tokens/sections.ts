import { medianOf, type Standing } from '../measure/rounds.ts';
import { pairwiseRatios, type Spread } from '../measure/statistics.ts';
import type { Section } from '../part.ts';

export function standingSection(
  title: string,
  rate: string,
  standings: Standing[],
  notes: string[],
): Section {
  return {
    title,
    columns: [
      'median of the rounds',
      rate,
      'latency p50 ms',
      'p99 ms',
      'server CPU us/answer',
      'server CPU s, all rounds',
      'server cores busy',
      'load generator cores busy',
      'peak memory MiB',
    ],
    rows: standings.map((standing) => [
      standing.name,
      medianOf(standing, ({ perSecond }) => perSecond).toFixed(0),
      medianOf(standing, ({ latencyMs }) => latencyMs.p50).toFixed(1),
      medianOf(standing, ({ latencyMs }) => latencyMs.p99).toFixed(1),
      medianOf(standing, ({ serverCpuMicrosecondsPerAnswer }) => serverCpuMicrosecondsPerAnswer).toFixed(0),
      standing.measurements.reduce((sum, { serverCpuSeconds }) => sum + serverCpuSeconds, 0).toFixed(1),
      medianOf(standing, ({ serverCpuSeconds, seconds }) => serverCpuSeconds / seconds).toFixed(2),
      medianOf(standing, ({ loadCpuSeconds, seconds }) => loadCpuSeconds / seconds).toFixed(2),
      standing.peakMemoryMib.toFixed(0),
    ]),
    notes,
  };
}

export function ratioSection(
  title: string,
  standings: Standing[],
  pairs: [ours: string, theirs: string][],
): Section {
  return {
    title,
    columns: ['median of the ratios (least to most)', 'rate', 'CPU of an answer'],
    rows: pairs.map(([oursName, theirsName]) => {
      const [ours, theirs] = [named(standings, oursName), named(standings, theirsName)];
      const ratio = (value: (measurement: Standing['measurements'][number]) => number) =>
        spread(pairwiseRatios(ours.measurements.map(value), theirs.measurements.map(value)));
      return [
        `${oursName} : ${theirsName}`,
        ratio(({ perSecond }) => perSecond),
        ratio(({ serverCpuMicrosecondsPerAnswer }) => serverCpuMicrosecondsPerAnswer),
      ];
    }),
    notes: [],
  };
}

export function named(standings: Standing[], name: string): Standing {
  const standing = standings.find((each) => each.name === name);
  if (!standing) throw new Error(`${name} was not measured`);
  return standing;
}

function spread({ median, least, most }: Spread): string {
  return `${median.toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)})`;
}
