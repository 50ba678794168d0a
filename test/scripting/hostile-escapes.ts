import { type Canaries, type HostileRow, refused, stopped, value } from './hostile-row.ts';

export const tampering: HostileRow[] = [
  [
    'JSON replaced',
    'JSON.stringify = () => \'{"ok":true}\'; JSON.parse = () => 1;\nreturn { a: 1 }',
    value({ a: 1 }),
  ],
  [
    'Array prototype setters',
    'for (let i = 0; i < 9; i++) Object.defineProperty(Array.prototype, i, { set() { throw 1 }, configurable: true });\nreturn { a: [] }',
    value({ a: [] }),
  ],
  [
    'Array iterator replaced',
    'Array.prototype[Symbol.iterator] = function* () { yield "forged" };\nreturn { a: 1 }',
    value({ a: 1 }),
  ],
  [
    'descriptors through Object.prototype',
    'Object.prototype.get = () => "forged"; Object.prototype.value = "forged";\nreturn { a: 1 }',
    value({ a: 1 }),
  ],
  [
    'Function.prototype.call replaced',
    'Function.prototype.call = Function.prototype.apply = () => "forged";\nreturn { a: 1 }',
    value({ a: 1 }),
  ],
  [
    'RegExp exec replaced',
    'RegExp.prototype.exec = () => { throw new Error("mine") };\nreturn { a: { b: "c" } }',
    value({ a: { b: 'c' } }),
  ],
  [
    'String prototype replaced',
    'for (const k of Object.getOwnPropertyNames(String.prototype)) if (k !== "length") String.prototype[k] = () => "forged";\nreturn { a: "b" }',
    value({ a: 'b' }),
  ],
  [
    '__proto__ in the result',
    'return JSON.parse(\'{"__proto__":{"polluted":1}}\')',
    value(JSON.parse('{"__proto__":{"polluted":1}}')),
  ],
  [
    'globals deleted',
    'const all = globalThis; const { getOwnPropertyNames } = Object; const { deleteProperty } = Reflect; for (const k of getOwnPropertyNames(all)) deleteProperty(all, k);\nreturn 1',
    value(1),
  ],
  [
    'everything frozen',
    'for (const k of Object.getOwnPropertyNames(globalThis)) { try { Object.freeze(globalThis[k].prototype) } catch {} }\nreturn [1]',
    value([1]),
  ],
  [
    'instanceof forged',
    'Object.defineProperty(Function.prototype, Symbol.hasInstance, { value: () => true }); throw { message: "mine" };\nreturn 1',
    refused,
  ],
  ['closes the function', '}); globalThis.stolen = 1; (function () { return 1', refused],
  ['closes it by a comment', 'return 1 /*', refused],
  ['a template that is not closed', 'return `', refused],
  ['no return', 'const a = 1', refused],
  ['a return in a comment', 'const a = 1 // return 1', refused],
  ['too large', `return "${'x'.repeat(300_000)}"`, refused],
];

export function escapes({ file, variable, port }: Canaries): HostileRow[] {
  const readFile = `require("node:fs").readFileSync(${JSON.stringify(file)}, "utf8")`;
  const connect = `require("node:net").connect(${port}, "127.0.0.1")`;
  return [
    ['require', `return ${readFile}`, refused],
    ['process', `return process.env.${variable}`, refused],
    [
      'typeof of what there is not',
      'return [typeof process, typeof require, typeof module, typeof Buffer, typeof fetch, typeof setTimeout, typeof queueMicrotask, typeof ivm]',
      value(Array(8).fill('undefined')),
    ],
    [
      'Function constructor',
      `return this === undefined ? Function("return process.env.${variable}")() : 1`,
      refused,
    ],
    [
      'constructor of $ctx',
      `return $ctx.constructor.constructor("return process")().env.${variable}`,
      refused,
    ],
    ['constructor of console', `return console.log.constructor("return process")().env.${variable}`, refused],
    [
      'constructor of crypto',
      `return crypto.hash.constructor("return ${connect.replaceAll('"', "'")}")()`,
      refused,
    ],
    [
      'constructor of an error',
      `try { null.x } catch (e) { return e.constructor.constructor("return process")().env.${variable} }\nreturn 1`,
      refused,
    ],
    [
      'a stack of frames',
      'Error.prepareStackTrace = (e, frames) => frames.map((f) => f.getThis?.() ?? f.getFunction?.());\nreturn new Error().stack.filter((f) => typeof f === "function" || (typeof f === "object" && f !== null)).length',
      value(0),
    ],
    ['arguments.callee.caller', 'return (function () { return arguments.callee.caller })()', refused],
    [
      'import of fs',
      `return import("node:fs").then((fs) => fs.readFileSync(${JSON.stringify(file)}, "utf8"))`,
      refused,
    ],
    [
      'import, later',
      `import("node:net").then((net) => net.connect(${port}, "127.0.0.1"), () => {});\nreturn 1`,
      value(1),
    ],
    ['import by eval', 'return eval("import(\'node:fs\')")', refused],
    ['import of a data: module', 'return import("data:text/javascript,export default 1")', refused],
    ['import.meta', 'return import.meta.url', refused],
    ['fetch', `return fetch("http://127.0.0.1:${port}/")`, refused],
    ['XMLHttpRequest', `return new XMLHttpRequest().open("GET", "http://127.0.0.1:${port}/")`, refused],
    [
      'handles of the host',
      'return Object.getOwnPropertyNames(globalThis).filter((k) => /^(ivm|Isolate|Reference|Callback|process|require)$/.test(k))',
      value([]),
    ],
    ['code of the sandbox', 'return import("./main.js")', refused],
    ['native syntax', 'return %DebugPrint(1)', refused],
    ['debugger', 'debugger;\nreturn 1', value(1)],
  ];
}

export const forged: HostileRow[] = [
  [
    'rows by a proxy that changes',
    'let n = 0;\nreturn { data: [{ data: [new Proxy({}, { ownKeys: () => ["a"], getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: (t, k) => (k === "toJSON" ? undefined : n++ ? NaN : 1) })] }] }',
    value({ data: [{}] }),
  ],
  ['a toJSON as a row', 'return { data: [{ data: [{ toJSON: () => "],[" }] }] }', refused],
  ['100,000 tables', 'return { data: Array.from({ length: 1e5 }, () => ({ data: [] })) }', refused],
  [
    'endless columns',
    'return { data: [{ data: [Object.fromEntries(Array.from({ length: 1e5 }, (_, i) => ["c" + i, i]))] }] }',
    refused,
  ],
  [
    'huge column names',
    'return { data: [{ data: Array.from({ length: 1500 }, (_, i) => ({ ["x".repeat(1000) + i]: 1 })) }] }',
    refused,
  ],
  ['huge control', 'return { variables: { a: "x".repeat(2e6) } }', refused],
  [
    'data as a proxy',
    'return { data: new Proxy([], { get: (t, k) => (k === "length" ? 1e9 : t[k]) }) }',
    refused,
  ],
  [
    'records without an end',
    'return { data: [{ data: new Proxy([], { get: (t, k) => (k === "length" ? 1e15 : k === "toJSON" ? undefined : {}) }) }] }',
    stopped,
  ],
  [
    "the sandbox's own answer",
    'return { ok: true, lengths: [1], reply: {}, blocks: [[0, 1, []]] }',
    value({ ok: true, lengths: [1], reply: {}, blocks: [[0, 1, []]] }),
  ],
];
