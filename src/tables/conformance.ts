import { describe } from 'node:test';
import { checkpointCases } from './conformance/checkpoints.ts';
import { killCases } from './conformance/kill.ts';
import { loadingCases } from './conformance/loading.ts';
import { nameCases } from './conformance/names.ts';
import { runCases, type StoreFactory } from './conformance/place.ts';
import { readingCases } from './conformance/reading.ts';
import { valueCases } from './conformance/values.ts';
import { wideningCases } from './conformance/widening.ts';

/** What every store of tables must do, whatever database it is made of. */
export function tableStoreConformance(factory: StoreFactory): void {
  runCases(factory, 'loading', loadingCases);
  runCases(factory, 'values', valueCases);
  runCases(factory, 'names', nameCases);
  runCases(factory, 'widening', wideningCases);
  runCases(factory, 'checkpoints', checkpointCases);
  runCases(factory, 'reading', readingCases);
  describe(`${factory.name}: SIGKILL`, () => killCases(factory));
}
