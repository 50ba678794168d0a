import { inField } from '../model/field-path.ts';
import { validate } from '../model/validate.ts';
import type { OperationRegistry } from '../operations/registry.ts';

export interface NamedOperation {
  opName: string;
  opParams: Record<string, unknown>;
}

export type CheckOperation = (appId: string, operation: NamedOperation) => Promise<void>;

/** Refuses an operation that is to be run later; tables are not looked for, other jobs may make them until then. */
export function checkOperationBy(operations: OperationRegistry): CheckOperation {
  return async (appId, { opName, opParams }) => {
    const operation = operations.find(opName);
    await inField('operation.opParams', async () =>
      operation.check(appId, validate(operation.params, opParams), 'step'),
    );
  };
}
