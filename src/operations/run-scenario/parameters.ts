import { didYouMean } from '../../model/did-you-mean.ts';
import { ServiceError } from '../../model/errors.ts';
import type { Json } from '../../model/json.ts';
import type { Scenario } from '../../model/scenario.ts';

/** What was given goes before the defaults. Refuses what the scenario does not declare, and what is missing. */
export function parameterValues(
  { name: scenario, parameters }: Scenario,
  given: Readonly<Record<string, Json>>,
): Record<string, Json> {
  const declared = parameters.map(({ name }) => name);
  const undeclared = Object.keys(given).find((name) => !declared.includes(name));
  if (undeclared !== undefined) {
    throw faulty(
      undeclared,
      `the scenario "${scenario}" has no such parameter.${didYouMean(undeclared, declared)} ` +
        `Known: ${declared.join(', ') || 'none'}`,
    );
  }
  const values = parameters.map(({ name, default: byDefault }): [string, Json] => {
    const value = Object.hasOwn(given, name) ? given[name] : byDefault;
    if (value === undefined) {
      throw faulty(name, `must be given: the scenario "${scenario}" has no default for it`);
    }
    return [name, value];
  });
  return Object.fromEntries(values);
}

function faulty(parameter: string, problem: string): ServiceError {
  const path = `parameters.${parameter}`;
  return new ServiceError('invalid_request', `${path}: ${problem}`, { path });
}
