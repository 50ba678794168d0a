import { MOST_NESTED_SCENARIOS } from '../../model/scenario.ts';

/** Scenarios that call one another, by their names, from the outermost on. */
export type Chain = readonly string[];

/** A scenario would call itself, or too many would call one another. */
export class ChainFault extends Error {
  override readonly name = 'ChainFault';
}

/** `called`: the scenario that is called, and those that it calls. */
export function refuseChain(callers: Chain, called: Chain): void {
  const [name = ''] = called;
  const before = callers.indexOf(name);
  if (before !== -1) {
    throw new ChainFault(`a scenario must not call itself: ${shown([...callers.slice(before), name])}`);
  }
  if (callers.length + called.length > MOST_NESTED_SCENARIOS) {
    throw new ChainFault(
      `at most ${MOST_NESTED_SCENARIOS} scenarios may call one another: ${shown([...callers, ...called])}`,
    );
  }
}

function shown(chain: Chain): string {
  return chain.map((name) => `"${name}"`).join(' calls ');
}
