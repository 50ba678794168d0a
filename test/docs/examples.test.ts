import assert from 'node:assert/strict';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { parse } from 'yaml';
import { readApplications } from '../../src/cli/documents.ts';
import { References } from '../../src/cli/references.ts';
import { RUN_SCENARIO } from '../../src/model/scenario.ts';
import type { ApplicationDocument } from '../../src/model/application-document.ts';
import { startExternalApi, type ExternalApi } from '../support/external-api.ts';
import { startTestService, type Answer, type TestService } from '../support/service.ts';
import { addSignedOrders, secretsOf } from './example-api.ts';
import { examplesOf, type Example, type Expectation } from './guide-examples.ts';

const DOCS = join(import.meta.dirname, '../../docs');
/** Each guide with the least number of examples that must be found in it. */
const GUIDES = {
  'downloading-pages.md': 9,
  'sending-records.md': 8,
  'files.md': 4,
  'authentication.md': 11,
  'scripts.md': 5,
  'databases.md': 1,
  'scenarios.md': 5,
  'schedules.md': 1,
};

for (const [guide, least] of Object.entries(GUIDES)) {
  const text = await readFile(join(DOCS, guide), 'utf8');
  const examples = examplesOf(text);
  describe(`Guide ${guide}`, () => {
    let service: TestService;
    const endings: (() => unknown)[] = [];
    before(async () => {
      const suite = { after: (end: () => unknown) => void endings.push(end) };
      service = await startTestService(suite as unknown as TestContext);
      service.clock.run();
    });
    after(async () => {
      for (const end of endings) await end();
    });

    test('every yaml and json block of it is an example that is run', () => {
      assert.ok(examples.length >= least, `only ${examples.length}`);
      const blocks = text.match(/^```(?:yaml|json)\n(?!# yaml-language-server)/gm) ?? [];
      assert.equal(examples.length, blocks.length, 'a block has no <!-- example: … --> before it');
    });

    for (const example of examples) {
      test(`line ${example.line}: ${example.title}`, async (t) => {
        const bench = new Bench(service, await startExternalApi(t), `example-${example.line}`);
        await bench.run(example, examples[0] as Example);
      });
    }
  });
}

interface Operation {
  opName: string;
  opParams: unknown;
}

/** One example in an application of its own. */
class Bench {
  readonly #service: TestService;
  readonly #api: ExternalApi;
  readonly #appId: string;
  #token = '';

  constructor(service: TestService, api: ExternalApi, appId: string) {
    this.#service = service;
    this.#api = api;
    this.#appId = appId;
    addSignedOrders(api);
  }

  async run(example: Example, firstOfGuide: Example): Promise<void> {
    this.#token = await this.#service.tokenOf('editor');
    await this.#service.system.applications.create({ appId: this.#appId });
    for (const given of example.given) await this.#give(given);
    if (isCall(example)) await this.#operations(firstOfGuide);
    const own = await this.#operations(example);
    const { expectations } = example;
    if (expectations.some(({ kind }) => kind === 'applied')) return;
    const operations = own.length > 0 ? own : await this.#operations(firstOfGuide, example);
    assert.ok(operations.length > 0);
    const times = expectations.some(({ kind }) => kind === 'twice') ? 2 : 1;
    for (let time = 0; time < times; time += 1) {
      for (const operation of operations) this.#checkAnswer(await this.#execute(operation), example);
    }
    const isSource = expectations.some(({ kind }) => kind === 'source');
    for (const expected of isSource ? firstOfGuide.expectations : expectations) await this.#check(expected);
  }

  /**
   * Applies an application file; gives what is to be run: its first scenario, else its requests. `address`: the
   * example that says where the API is.
   */
  async #operations(example: Example, address: Example = example): Promise<Operation[]> {
    const text = this.#local(example.text, address);
    const references = new References({}, secretsOf(this.#api));
    const value = parse(text) as Record<string, unknown>;
    if (isCall(example)) return [{ opName: RUN_SCENARIO, opParams: references.resolve(value) }];
    if (!('application' in value)) return [{ opName: 'HTTPRequest', opParams: references.resolve(value) }];
    const file = join(this.#service.settings.data, `${this.#appId}.yaml`);
    await writeFile(file, text);
    const [read] = await readApplications(file, references);
    assert.ok(read);
    if (address === example) await this.#apply(read.document);
    const { requests, scenarios } = read.document;
    if (scenarios[0]) return [{ opName: RUN_SCENARIO, opParams: { scenario: scenarios[0].name } }];
    return requests.map(({ name: _name, ...opParams }) => ({ opName: 'HTTPRequest', opParams }));
  }

  async #apply({ sources, models, variables, requests, scenarios }: ApplicationDocument): Promise<void> {
    const put = async (kind: string, body: { name: string }) => {
      const { status, text } = await this.#app('PUT', `/${kind}/${encodeURIComponent(body.name)}`, body);
      assert.ok(status === 201 || status === 200, text);
    };
    for (const source of sources) await put('sources', source);
    for (const model of models) await put('models', model);
    for (const request of requests) await put('requests', request);
    // The callers stand above those that they call.
    for (const scenario of scenarios.toReversed()) await put('scenarios', scenario);
    for (const [name, value] of Object.entries(variables)) {
      await put('variables', { name, value } as { name: string });
    }
  }

  /** The text with the fake API in the place of the external one. */
  #local(text: string, { at, base }: Example): string {
    const { url } = this.#api;
    const orders = `${url}${base}/orders${at === '' ? '' : `/${at}`}`;
    return text
      .replaceAll('https://login.example.com', url)
      .replaceAll(/https:\/\/api\.example\.com\/orders(?=[?\s])/g, orders)
      .replaceAll('https://api.example.com', `${url}${base}`)
      .replaceAll('api.example.com', new URL(url).host);
  }

  async #give({ name, count, isFile }: Example['given'][number]): Promise<void> {
    if (isFile) {
      const file = this.#filePath(name);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, Buffer.alloc(count, 'x'));
      return;
    }
    const rows = Array.from({ length: count }, (_, index) => ({
      id: index + 1,
      customer_id: index + 1,
      amount: (index + 1) * 1.5,
      status: 'paid',
    }));
    const { status, text } = await this.#app('POST', `/tables/local/main/${name}`, rows);
    assert.equal(status, 201, text);
  }

  #execute(operation: Operation): Promise<Answer> {
    return this.#service.call('POST', '/api/v1/executeJob', this.#token, { appId: this.#appId, operation });
  }

  #checkAnswer(answer: Answer, { expectations, output }: Example): void {
    const failure = expectations.find((expected) => expected.kind === 'fails');
    if (!failure) {
      assert.equal(answer.status, 200, answer.text);
      if (output !== null) assert.deepEqual(JSON.parse(answer.body.result.output), JSON.parse(output));
      return;
    }
    const { code, message } = answer.body.result as { code: string; message: string };
    assert.equal(code, failure.code, answer.text);
    assert.ok(message.includes(failure.says), message);
    if (output !== null) assert.equal(`${code}: ${message}`, output);
  }

  async #check(expected: Expectation): Promise<void> {
    if (expected.kind === 'table') {
      const { text, body } = await this.#app('GET', `/tables/local/main/${expected.name}?limit=10000`);
      assert.equal(body.result.items?.length, expected.count, text.slice(0, 300));
    } else if (expected.kind === 'file') {
      assert.equal((await stat(this.#filePath(expected.name))).size, expected.count);
    } else if (expected.kind === 'sent') {
      const { method, path, count, bytes } = expected;
      const sent = this.#api.requests.filter(
        (request) => request.method === method && (path === '' || request.path === path),
      );
      assert.equal(sent.length, count);
      if (bytes !== null) for (const { bodyBytes } of sent) assert.equal(bodyBytes, bytes);
    }
  }

  #filePath(name: string): string {
    return join(this.#service.settings.data, 'applications', this.#appId, 'files', name);
  }

  #app(method: string, path: string, body?: unknown): Promise<Answer> {
    return this.#service.call(method, `/api/v1/applications/${this.#appId}${path}`, this.#token, body);
  }
}

/** `opParams` of RunScenario, for the scenarios of the guide's first example. */
function isCall({ text }: Example): boolean {
  return 'scenario' in Object(parse(text));
}
