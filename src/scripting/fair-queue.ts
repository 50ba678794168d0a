/** What an application has used lately: it halves every ten seconds. */
const HALF_LIFE_MS = 10_000;
/** An application whose calls take longer than this on average is heavy. */
const HEAVY_CALL_MS = 50;
const FORGOTTEN_MS = 1;

interface Application<Item> {
  waiting: Item[];
  /** When each running call began. */
  running: number[];
  recentMs: number;
  recentCalls: number;
  asOf: number;
}

/**
 * The order in which applications get to run: the one that has used least lately goes first, and a heavy one never
 * takes the last slot. First come, first served let one application with slow scripts hold up all others.
 */
export class FairQueue<Item> {
  readonly #slots: number;
  readonly #now: () => number;
  readonly #applications = new Map<string, Application<Item>>();
  #running = 0;

  constructor(slots: number, now: () => number = performance.now.bind(performance)) {
    this.#slots = slots;
    this.#now = now;
  }

  add(appId: string, item: Item): void {
    this.#of(appId).waiting.push(item);
  }

  /** An item that was taken already, and has to be tried again. */
  putBack(appId: string, item: Item): void {
    this.#of(appId).waiting.unshift(item);
  }

  waitingOf(appId: string): number {
    return this.#applications.get(appId)?.waiting.length ?? 0;
  }

  sumOf(appId: string, size: (item: Item) => number): number {
    return (this.#applications.get(appId)?.waiting ?? []).reduce((sum, item) => sum + size(item), 0);
  }

  /** The first items of the applications that may run one now, the most deserving first. */
  candidates(): { appId: string; item: Item }[] {
    const free = this.#slots - this.#running;
    if (free <= 0) return [];
    const now = this.#now();
    return [...this.#applications]
      .filter(([, { waiting }]) => waiting.length > 0)
      .map(([appId, application]) => ({ appId, application, used: this.#usedMs(application, now) }))
      .filter(({ application }) => free > 1 || !this.#isHeavy(application, now))
      .toSorted((a, b) => a.used - b.used)
      .map(({ appId, application }) => ({ appId, item: application.waiting[0] as Item }));
  }

  /** Takes the item that `candidates` gave; `done` is to be called when it has run. */
  take(appId: string): { item: Item; done: () => void } {
    const application = this.#of(appId);
    const item = application.waiting.shift() as Item;
    const began = this.#now();
    application.running.push(began);
    this.#running += 1;
    const done = () => {
      const now = this.#now();
      application.running.splice(application.running.indexOf(began), 1);
      this.#running -= 1;
      this.#decay(application, now);
      application.recentMs += now - began;
      application.recentCalls += 1;
      this.#forgetIdle(now);
    };
    return { item, done };
  }

  /** Takes all items away that the predicate names. */
  remove(isGone: (item: Item) => boolean): Item[] {
    const removed: Item[] = [];
    for (const application of this.#applications.values()) {
      removed.push(...application.waiting.filter(isGone));
      application.waiting = application.waiting.filter((item) => !isGone(item));
    }
    return removed;
  }

  #of(appId: string): Application<Item> {
    let application = this.#applications.get(appId);
    if (!application) {
      application = { waiting: [], running: [], recentMs: 0, recentCalls: 0, asOf: this.#now() };
      this.#applications.set(appId, application);
    }
    return application;
  }

  #decay(application: Application<Item>, now: number): void {
    const factor = 0.5 ** ((now - application.asOf) / HALF_LIFE_MS);
    application.recentMs *= factor;
    application.recentCalls *= factor;
    application.asOf = now;
  }

  #usedMs(application: Application<Item>, now: number): number {
    this.#decay(application, now);
    return application.recentMs + application.running.reduce((sum, began) => sum + now - began, 0);
  }

  /** Who runs its first call is not known yet, and counts as heavy for a second one. */
  #isHeavy({ recentMs, recentCalls, running }: Application<Item>, now: number): boolean {
    if (running.some((began) => now - began > HEAVY_CALL_MS)) return true;
    return recentMs < FORGOTTEN_MS ? running.length > 0 : recentMs / recentCalls > HEAVY_CALL_MS;
  }

  #forgetIdle(now: number): void {
    for (const [appId, application] of this.#applications) {
      if (application.waiting.length > 0 || application.running.length > 0) continue;
      this.#decay(application, now);
      if (application.recentMs < FORGOTTEN_MS) this.#applications.delete(appId);
    }
  }
}
