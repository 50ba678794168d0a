import { ServiceError } from './errors.ts';

/** A fault of one of several things names which: `path` goes before the field of the error. */
export async function inField<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const full = error.path ? `${path}.${error.path}` : path;
    const problem = error.path ? error.message.replace(`${error.path}: `, '') : error.message;
    throw new ServiceError(error.code, `${full}: ${problem}`, { path: full, cause: error });
  }
}
