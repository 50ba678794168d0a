import { Auth, HttpSource, RateLimit, TableSource } from '../../src/model/source.ts';
import { ApplicationDocument } from '../../src/model/application-document.ts';
import { errorCodes } from '../../src/model/errors.ts';
import { HttpRequest, HttpRequestPart, Options, SourceTable, Target } from '../../src/model/http-request.ts';
import { jobTransitions } from '../../src/model/job.ts';
import { ParsingResult, TableData } from '../../src/model/parsing-result.ts';
import {
  RunScenario,
  Scenario,
  ScenarioParameter,
  ScenarioStep,
  StepSummary,
} from '../../src/model/scenario.ts';
import { InlineModel } from '../../src/model/table.ts';
import { resolveSettings, settingDescriptions, shownValue, type SettingName } from '../../src/settings.ts';
import { markdownTable, propertyTable, schemaOf, type Schema } from './schema-table.ts';

/** Of what depends on the machine. */
const SHOWN_DEFAULTS: Partial<Record<SettingName, string>> = {
  argon2Concurrency: 'the number of cores less 1, from 1 to 4',
};

export function reference(): string {
  return [
    '<!-- Made by docs/generate.ts from the schemas of the service. Do not edit. -->',
    '# Reference',
    'Unknown properties are an error everywhere; the message names the nearest known one.',
    operation(),
    result(),
    scenarios(),
    sources(),
    '## Application file',
    'What `millrace apply` takes and `millrace export` prints; as JSON Schema: [schema/application.schema.json](schema/application.schema.json).',
    propertyTable(schemaOf(ApplicationDocument)),
    '## Job states',
    markdownTable(
      ['state', 'goes on to'],
      Object.entries(jobTransitions).map(([state, next]) => [
        `\`${state}\``,
        next.map((to) => `\`${to}\``).join(', '),
      ]),
    ),
    '## Error codes',
    'In `result.code` of an answer with `"status": "error"`, and in `error.code` of a job. The token endpoint has codes of its own, see [access.md](access.md).',
    markdownTable(
      ['code', 'HTTP status', 'may succeed later', 'meaning'],
      Object.entries(errorCodes).map(([code, { status, transient, text }]) => [
        `\`${code}\``,
        String(status),
        transient ? 'yes' : '',
        text,
      ]),
    ),
    settings(),
  ].join('\n\n');
}

function operation(): string {
  const [file, parse] = schemaOf(Target).oneOf as [Schema, Schema];
  return [
    '## HTTPRequest',
    'The `opParams` of the operation HTTPRequest, and what stands below `name` in a saved request. A script is the text of a function body, see [scripts.md](scripts.md).',
    propertyTable(schemaOf(HttpRequest)),
    '### sourceTable',
    propertyTable(schemaOf(SourceTable)),
    '### request',
    propertyTable(schemaOf(HttpRequestPart)),
    '### request.options',
    propertyTable(schemaOf(Options)),
    '### rateLimit',
    propertyTable(schemaOf(RateLimit)),
    '### target, with the action "parse JSON"',
    propertyTable(parse, ['action']),
    '### target, with the action "save to file"',
    propertyTable(file, ['action']),
    '### Model',
    'Inline as `model`, or under a `name` of its own in the application.',
    propertyTable(schemaOf(InlineModel).properties?.['columns']?.items ?? {}),
  ].join('\n\n');
}

function result(): string {
  const data = { type: 'array', items: { type: 'object' }, description: 'The records' };
  const table = schemaOf(TableData);
  return [
    '## Result of the Parsing script',
    'All of it is optional; `null` or `undefined`: nothing to load and no further page.',
    propertyTable(schemaOf(ParsingResult)),
    '### Table-data object',
    propertyTable({
      properties: { data, ...table.properties },
      required: ['data', ...(table.required ?? [])],
    }),
  ].join('\n\n');
}

function scenarios(): string {
  return [
    '## RunScenario',
    'The `opParams` of the operation RunScenario, see [scenarios.md](scenarios.md).',
    propertyTable(schemaOf(RunScenario)),
    '## Scenario',
    propertyTable(schemaOf(Scenario)),
    '### parameters',
    propertyTable(schemaOf(ScenarioParameter)),
    '### steps',
    propertyTable(schemaOf(ScenarioStep)),
    '### Step in the output',
    'The output of a scenario that has no script for it is `{"steps": […]}`, with these for each step.',
    propertyTable(schemaOf(StepSummary)),
  ].join('\n\n');
}

function sources(): string {
  const types = (schemaOf(Auth).oneOf ?? []).map((auth) => {
    const type = String(auth.properties?.['type']?.const);
    const head = `#### ${type}`;
    return type === 'none' ? `${head}\n\nNo authentication.` : `${head}\n\n${propertyTable(auth, ['type'])}`;
  });
  return [
    '## HTTPSource',
    propertyTable(schemaOf(HttpSource)),
    '### tls',
    propertyTable(schemaOf(HttpSource).properties?.['tls'] ?? {}),
    '### auth',
    'By its `type`; examples are in [authentication.md](authentication.md). Secrets are write-only.',
    ...types,
    '## TableSource',
    'A database with tables; examples are in [databases.md](databases.md).',
    propertyTable(schemaOf(TableSource)),
  ].join('\n\n');
}

function settings(): string {
  const { values } = resolveSettings({}, {});
  const rows = settingDescriptions.map((setting) => {
    const { name, unit, description, environment, flag } = setting;
    const value = SHOWN_DEFAULTS[name] ?? shownValue(setting, values[name]);
    return [
      `\`${name}\``,
      value === '' ? '' : `${value}${unit === undefined ? '' : ` ${unit}`}`,
      `\`${environment}\`, \`--${flag}\``,
      description,
    ];
  });
  return [
    '## Settings',
    'By these names in the file of `--config` or `MILLRACE_CONFIG`; see [running.md](running.md).',
    markdownTable(['setting', 'default', 'elsewhere', 'meaning'], rows),
  ].join('\n\n');
}
