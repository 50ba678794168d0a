const JSON_TOKEN =
  // oxlint-disable-next-line no-control-regex
  /[ \t\n\r]*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-f]{4}))*")|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?|true|false|null)/iy;

/** Where the first token stands that JSON does not allow: V8 tells it only for some faults. */
export function jsonFaultAt(text: string): number {
  const open: string[] = [];
  let expected: 'value' | 'value or end' | 'key' | 'key or end' | 'colon' | 'comma or end' = 'value';
  for (let offset = 0; ; offset = JSON_TOKEN.lastIndex) {
    const start = offset + (/^[ \t\n\r]*/.exec(text.slice(offset))?.[0].length ?? 0);
    JSON_TOKEN.lastIndex = offset;
    const token = JSON_TOKEN.exec(text);
    if (!token || (open.length === 0 && expected === 'comma or end')) return start;
    const [, sign, string] = token;
    const inObject = open.at(-1) === '{';
    const closes = sign === (inObject ? '}' : ']') && open.length > 0 && expected.endsWith('or end');
    if (closes) {
      open.pop();
      expected = 'comma or end';
    } else if (expected === 'colon') {
      if (sign !== ':') return start;
      expected = 'value';
    } else if (expected === 'comma or end') {
      if (sign !== ',') return start;
      expected = inObject ? 'key' : 'value';
    } else if (expected.startsWith('key')) {
      if (string === undefined) return start;
      expected = 'colon';
    } else if (sign === '{' || sign === '[') {
      open.push(sign);
      expected = sign === '{' ? 'key or end' : 'value or end';
    } else {
      if (sign !== undefined) return start;
      expected = 'comma or end';
    }
  }
}
