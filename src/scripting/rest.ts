import type { ScriptLimits } from './script-limits.ts';

type RestLimits = Pick<ScriptLimits, 'killsToRest' | 'killWindowSeconds' | 'restSeconds'>;

/** An application whose scripts kill one process after another rests for a while: each costs others a start. */
export class Rest {
  readonly #limits: RestLimits;
  readonly #now: () => number;
  readonly #kills = new Map<string, number[]>();

  constructor(limits: RestLimits, now: () => number = Date.now) {
    this.#limits = limits;
    this.#now = now;
  }

  killed(appId: string): void {
    const kills = [...this.#recent(appId), this.#now()].slice(-this.#limits.killsToRest);
    this.#kills.set(appId, kills);
  }

  /** 0: it may run. */
  secondsLeft(appId: string): number {
    const { killsToRest, restSeconds } = this.#limits;
    const kills = this.#recent(appId);
    const last = kills.at(-1);
    if (last === undefined || kills.length < killsToRest) return 0;
    return Math.max(0, Math.ceil(restSeconds - (this.#now() - last) / 1000));
  }

  #recent(appId: string): number[] {
    const since = this.#now() - this.#limits.killWindowSeconds * 1000;
    const kills = (this.#kills.get(appId) ?? []).filter((at) => at > since);
    if (kills.length === 0) this.#kills.delete(appId);
    return kills;
  }
}
