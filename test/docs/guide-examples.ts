/**
 * Finds the examples of a guide: a yaml or json block after `<!-- example: … -->`, which says what running it brings,
 * and before it `<!-- given: … -->` with what must be there. Several are separated by `; `:
 *
 *   orders 1000               the table main.orders has so many records
 *   file a/b.bin 5            the file has so many bytes
 *   sent 3 POST /orders 5     so many requests arrived (of so many bytes each)
 *   fails script_error line   the job fails with this code, and the message says this; a plain block behind it shows it
 *   twice                     it is run twice
 *   applied                   the application file is applied, and nothing of it is run
 *   source                    a source alone: the request of the guide's first example is run with it
 *   at by-link                which of the fake API's ways of paging stands for /orders
 *   base /basic               what the fake API wants in front of the path
 *
 * A plain block behind an example that succeeds is the output of its job. What has scenarios runs its first one.
 */
export interface Example {
  line: number;
  title: string;
  text: string;
  given: { name: string; count: number; isFile: boolean }[];
  expectations: Expectation[];
  at: string;
  base: string;
  output: string | null;
}

export type Expectation =
  | { kind: 'table' | 'file'; name: string; count: number }
  | { kind: 'sent'; count: number; method: string; path: string; bytes: number | null }
  | { kind: 'fails'; code: string; says: string }
  | { kind: 'twice' }
  | { kind: 'applied' }
  | { kind: 'source' };

const EXAMPLE =
  /(?:<!-- given: (?<given>.+) -->\n+)?<!-- example: (?<title>.+) -->\n\n```(?:yaml|json)\n(?<text>[^]+?)\n```\n(?:\n```\n(?<output>[^]+?)\n```\n)?/g;

export function examplesOf(guide: string): Example[] {
  return [...guide.matchAll(EXAMPLE)].map((match) => {
    const { given, title = '', text = '', output = null } = match.groups ?? {};
    const parts = title.split('; ');
    const word = (name: string) =>
      parts.find((part) => part.startsWith(`${name} `))?.slice(name.length + 1) ?? '';
    return {
      line: guide.slice(0, match.index).split('\n').length,
      title,
      text,
      given: given?.split('; ').map(thingOf) ?? [],
      expectations: parts.filter((part) => !/^(?:at|base) /.test(part)).map(expectationOf),
      at: word('at'),
      base: word('base'),
      output,
    };
  });
}

function expectationOf(part: string): Expectation {
  if (part === 'twice' || part === 'source' || part === 'applied') return { kind: part };
  const fails = /^fails (\S+) ?(.*)$/.exec(part);
  if (fails) return { kind: 'fails', code: fails[1] as string, says: fails[2] as string };
  const sent = /^sent (\d+) ([A-Z]+)(?: (\/\S*))?(?: (\d+))?$/.exec(part);
  if (sent) {
    const [, count, method = '', path = '', bytes] = sent;
    return {
      kind: 'sent',
      count: Number(count),
      method,
      path,
      bytes: bytes === undefined ? null : Number(bytes),
    };
  }
  const { name, count, isFile } = thingOf(part);
  return { kind: isFile ? 'file' : 'table', name, count };
}

function thingOf(part: string): Example['given'][number] {
  const [, file, name = '', count] = /^(file )?(\S+) (\d+)$/.exec(part) ?? [];
  if (count === undefined) throw new Error(`what does "${part}" say?`);
  return { name, count: Number(count), isFile: file !== undefined };
}
