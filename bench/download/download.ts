import { fileURLToPath } from 'node:url';
import { plainEnvironment, ServerProcess } from '../measure/server-process.ts';
import type { Part } from '../part.ts';
import { millraceRun, referenceRun, type Run } from './runs.ts';
import { sectionsOf, type Runs } from './sections.ts';

const EXTERNAL_API = fileURLToPath(new URL('../../test/support/external-api/main.ts', import.meta.url));
/** The memory at so many times fewer records is what that of all records is measured by. */
const FEWER = 10;

export const download: Part = {
  name: 'download',
  description: 'records from a paged API into the embedded store, against a hand-written script',
  async run({ records, rounds, signal, tell }) {
    await using api = await ServerProcess.start(
      process.execPath,
      [EXTERNAL_API, '--keep-requests', '1'],
      plainEnvironment(),
    );
    const runs: Runs = { small: [], millrace: [], reference: [] };
    for (let round = 1; round <= rounds; round += 1) {
      signal.throwIfAborted();
      runs.small.push(await millraceRun(api.url, Math.ceil(records / FEWER)));
      runs.millrace.push(await millraceRun(api.url, records));
      runs.reference.push(await referenceRun(api.url, records));
      tell(`round ${round}: millrace ${shown(runs.millrace)}, reference ${shown(runs.reference)}`);
    }
    return { title: 'Download into the embedded store', sections: sectionsOf(runs), measurements: runs };
  },
};

function shown(runs: readonly Run[]): string {
  const { records, seconds } = runs.at(-1) as Run;
  return `${Math.round(records / seconds)} records/s`;
}
