import { mkdir, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { medianDurableWriteMs } from './measure/disk.ts';
import type { BenchOptions, Part, PartReport, Section } from './part.ts';

/** What a reader needs to know of the circumstances: nothing that names the machine. */
export interface Environment {
  date: string;
  node: string;
  cores: number;
  durableWriteMs: number;
  rounds: number;
  seconds: number;
  warmupSeconds: number;
  connections: number;
}

export async function describeEnvironment(options: BenchOptions): Promise<Environment> {
  const { rounds, seconds, warmupSeconds, connections } = options;
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.versions.node,
    cores: availableParallelism(),
    durableWriteMs: await medianDurableWriteMs(tmpdir()),
    rounds,
    seconds,
    warmupSeconds,
    connections,
  };
}

export async function save(
  folder: string,
  part: Part,
  report: PartReport,
  environment: Environment,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { title, sections, measurements } = report;
  const json = { part: part.name, title, environment, sections, measurements };
  await writeFile(join(folder, `${part.name}.json`), `${JSON.stringify(json, null, 2)}\n`);
  await writeFile(join(folder, `${part.name}.md`), markdown(report, environment));
}

export function markdown({ title, sections }: PartReport, environment: Environment): string {
  const { rounds, seconds, warmupSeconds, connections, durableWriteMs } = environment;
  const circumstances =
    `${environment.date}, Node.js ${environment.node}, ${environment.cores} cores, shared by the servers and the load ` +
    `generator; ${rounds} rounds of ${seconds} s in turns after ${warmupSeconds} s of warm-up, ${connections} ` +
    `connections. A durable write of 4 KiB takes ${durableWriteMs.toFixed(2)} ms on this disk.`;
  return [`# ${title}`, '', circumstances, '', ...sections.flatMap(sectionLines)].join('\n');
}

function sectionLines({ title, columns, rows, notes }: Section): string[] {
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`;
  const divider = columns.map((_, index) => (index === 0 ? '---' : '---:'));
  return [
    `## ${title}`,
    '',
    line(columns),
    line(divider),
    ...rows.map(line),
    '',
    ...notes.map((note) => `- ${note}`),
    ...(notes.length > 0 ? [''] : []),
  ];
}
