import type { Compilable, Kysely } from 'kysely';

class Parameter {
  readonly index: number;
  constructor(index: number) {
    this.index = index;
  }
}

/**
 * A query that is built and compiled once; a call gives only the values of its parameters. For what runs at every
 * request: building and compiling took a fifth of the time of issuing a token.
 */
export function prepared<Values extends readonly unknown[], Row>(
  database: { executeQuery: Kysely<unknown>['executeQuery'] },
  count: Values['length'],
  build: (...parameters: Values) => Compilable<Row>,
): (...values: Values) => Promise<Row[]> {
  const markers = Array.from({ length: count }, (_, index) => new Parameter(index));
  const compiled = build(...(markers as unknown as Values)).compile();
  return async (...values) => {
    const parameters = compiled.parameters.map((given) => {
      return given instanceof Parameter ? values[given.index] : given;
    });
    return (await database.executeQuery<Row>({ ...compiled, parameters })).rows;
  };
}
