import { readFile } from 'node:fs/promises';

/** Linux counts CPU time for programs in hundredths of a second, whatever its own clock does. */
const TICKS_PER_SECOND = 100;
const USER_TIME = 11;
const SYSTEM_TIME = 12;

/** It ends, or its parent has not asked yet how it ended: its memory is gone. */
export class ProcessEnded extends Error {
  override readonly name = 'ProcessEnded';

  constructor(pid: number) {
    super(`the process ${pid} has ended`);
  }
}

/** CPU seconds of a process with all its threads, since its start. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readProcess(pid, 'stat');
  // The name of the program stands in parentheses and may hold blanks: the fields are counted behind it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[USER_TIME]) + Number(fields[SYSTEM_TIME])) / TICKS_PER_SECOND;
}

/** The most memory that a process ever had resident. */
export async function peakMemoryMib(pid: number): Promise<number> {
  const kib = /^VmHWM:\s+(\d+) kB$/m.exec(await readProcess(pid, 'status'))?.[1];
  if (kib === undefined) throw new ProcessEnded(pid);
  return Number(kib) / 1024;
}

async function readProcess(pid: number, file: 'stat' | 'status'): Promise<string> {
  if (process.platform !== 'linux')
    throw new Error('the benchmark reads CPU time and memory from /proc: Linux only');
  return readFile(`/proc/${pid}/${file}`, 'utf8');
}
