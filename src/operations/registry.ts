import { didYouMean } from '../model/did-you-mean.ts';
import { ServiceError } from '../model/errors.ts';
import type { Operation } from './operation.ts';

/** The operations by the `opName` of the contract's section 4.2. */
export class OperationRegistry {
  readonly #operations: ReadonlyMap<string, Operation>;

  constructor(operations: readonly Operation[]) {
    this.#operations = new Map(operations.map((operation) => [operation.opName, operation]));
  }

  find(opName: string): Operation {
    const operation = this.#operations.get(opName);
    if (operation) return operation;
    const known = [...this.#operations.keys()];
    throw new ServiceError(
      'unknown_operation',
      `there is no operation "${opName}".${didYouMean(opName, known)} Known: ${known.join(', ') || 'none'}`,
      { path: 'operation.opName' },
    );
  }
}
