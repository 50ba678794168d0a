import assert from 'node:assert/strict';
import type { Answer } from './service.ts';
import { sharedBench, type SharedBench } from './shared-bench.ts';

export interface StepBody {
  name: string;
  operation?: { opName: string; opParams: Record<string, unknown> };
  request?: string;
  when?: string;
  onError?: string;
}

export interface ScenarioBody {
  name: string;
  parameters?: { name: string; default?: unknown }[];
  steps: StepBody[];
  output?: string;
}

interface ScenarioBench extends SharedBench {
  /** A step that gets an empty answer and runs a Parsing script. */
  step(name: string, parsingScript: string, more?: StepMore): StepBody;
  put(scenario: ScenarioBody): Promise<Answer>;
  /** Saves a scenario, which must be taken. */
  save(scenario: ScenarioBody): Promise<void>;
  execute(opParams: unknown, more?: Record<string, unknown>): Promise<Answer>;
  /** Runs a scenario, which must succeed; gives the result of the call. */
  outcome(scenario: string, more?: Record<string, unknown>): Promise<Answer['body']>;
}

interface StepMore {
  request?: Record<string, unknown>;
  target?: Record<string, unknown>;
  sourceTable?: Record<string, unknown>;
  when?: string;
  onError?: string;
}

/** A step that runs another scenario. */
export function calling(name: string, opParams: Record<string, unknown>, more = {}): StepBody {
  return { name, operation: { opName: 'RunScenario', opParams }, ...more };
}

export function scenarioBench(options: Parameters<typeof sharedBench>[0] = {}): () => ScenarioBench {
  const shared = sharedBench(options);
  return () => withScenarios(shared());
}

export function withScenarios(bench: SharedBench): ScenarioBench {
  const { api, app, service, token, appId } = bench;
  const scenarios: Omit<ScenarioBench, keyof SharedBench> = {
    step: (name, parsingScript, { request, target, sourceTable, ...more } = {}) => ({
      name,
      operation: {
        opName: 'HTTPRequest',
        opParams: {
          ...(sourceTable && { sourceTable }),
          request: { url: `${api.url}/empty`, method: 'GET', ...request },
          target: { action: 'parse JSON', parsingScript, ...target },
        },
      },
      ...more,
    }),
    put: (scenario) => app('PUT', `/scenarios/${encodeURIComponent(scenario.name)}`, scenario),
    async save(scenario) {
      const answer = await scenarios.put(scenario);
      assert.ok(answer.status === 200 || answer.status === 201, answer.text);
    },
    execute: (opParams, more = {}) =>
      service.call('POST', '/api/v1/executeJob', token, {
        appId,
        responseFormat: 'json',
        operation: { opName: 'RunScenario', opParams },
        ...more,
      }),
    async outcome(scenario, more = {}) {
      const answer = await scenarios.execute({ scenario, ...more });
      assert.equal(answer.status, 200, answer.text);
      return answer.body.result;
    },
  };
  return { ...bench, ...scenarios };
}
