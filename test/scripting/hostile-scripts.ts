import { escapes, forged, tampering } from './hostile-escapes.ts';
import {
  type Canaries,
  type HostileRow,
  type HostileScript,
  refused,
  slow,
  stopped,
  value,
} from './hostile-row.ts';

const loops: HostileRow[] = [
  ['endless for', 'for(;;){}\nreturn 1', slow],
  ['endless while with work', 'let s = 0; while (true) s += Math.random();\nreturn s', slow],
  ['endless recursion', 'const f = () => f() + 1;\nreturn f()', refused],
  ['recursion by getters', 'const o = { get a() { return this.a } };\nreturn o.a', refused],
  ['endless generator', 'function* g() { for (;;) yield 1 }\nreturn [...g()].length', stopped],
  ['catches its own end', 'for (;;) { try { for (;;) {} } catch {} finally { continue } }\nreturn 1', slow],
  ['endless microtasks', 'const f = () => Promise.resolve().then(f); f();\nreturn 1', stopped],
  ['a microtask that loops', 'Promise.resolve().then(() => { for (;;) {} });\nreturn 1', slow],
  ['an endless async loop', '(async () => { for (;;) await null })();\nreturn 1', stopped],
  ['regular expression, exponential', 'return /^(a+)+$/.test("a".repeat(40) + "b")', slow],
  ['regular expression, nested stars', 'return /(x+x+)+y/.exec("x".repeat(40))', slow],
  [
    'regular expression, replace',
    'return "a".repeat(50).replace(/(a|a)*$/g, () => "").replace(/^(([a-z])+.)+[A-Z]([a-z])+$/, "")',
    value(''),
  ],
  ['sort that never ends', 'return [3, 2, 1].sort(() => { for (;;) {} })', slow],
  ['toString that loops', 'return `${{ toString() { for (;;) {} } }}`', slow],
  ['eval of a loop', 'return eval("for(;;){}")', slow],
  ['new Function of a loop', 'return new Function("for(;;){}")()', slow],
  ['native: includes to 2^53', 'return [].includes.call({ length: 2 ** 53 - 1 }, 1)', slow],
  ['native: indexOf to 2^53', 'return [].indexOf.call({ length: 2 ** 53 - 1 }, 1)', slow],
  ['native: reverse to 2^53', 'return [].reverse.call({ length: 2 ** 53 - 1 }).length', stopped],
  ['native: fill to 2^53', 'return [].fill.call({ length: 2 ** 53 - 1 }, 1).length', stopped],
  [
    'native: join of a huge array',
    'const a = []; a.length = 2 ** 32 - 1;\nreturn a.join("x").length',
    stopped,
  ],
  ['native: huge exponent', 'return String(9n ** 9n ** 9n).length', stopped],
  ['native: product of BigInts', 'let n = 3n; for (;;) n *= n;\nreturn n', stopped],
  ['native: padStart again and again', 'for (;;) "x".padStart(1e8).indexOf("y");\nreturn 1', stopped],
  ['native: date loops', 'for (;;) new Date().toLocaleString("de-DE");\nreturn 1', stopped],
];

const memory: HostileRow[] = [
  ['Map that grows', 'const m = new Map(); for (let i = 0; ; i++) m.set(i, i);\nreturn 1', stopped],
  ['Set that grows', 'const m = new Set(); for (let i = 0; ; i++) m.add(i);\nreturn 1', stopped],
  ['array that grows', 'const a = []; for (;;) a.push({ a: 1 });\nreturn 1', stopped],
  ['object that grows', 'const o = {}; for (let i = 0; ; i++) o["k" + i] = i;\nreturn 1', stopped],
  ['Array(1e9).fill', 'return Array(1e9).fill(1).length', stopped],
  ['Array.from huge', 'return Array.from({ length: 1e9 }).length', stopped],
  ['string doubled', 'let s = "x"; for (;;) s += s;\nreturn s', stopped],
  [
    'strings, flattened',
    'const a = []; for (let i = 0; ; i++) a.push(("x" + i).repeat(1e6).indexOf("y") + "x".repeat(1e6));\nreturn 1',
    stopped,
  ],
  ['string of the largest size', 'return "x".repeat(2 ** 29 - 25).split("").length', stopped],
  ['typed arrays', 'const a = []; for (;;) a.push(new Float64Array(1e6).fill(1));\nreturn 1', stopped],
  ['one huge typed array', 'return new Uint8Array(2 ** 33).length', stopped],
  ['array buffers', 'const a = []; for (;;) a.push(new ArrayBuffer(1e7));\nreturn 1', stopped],
  [
    'resizable buffers',
    'const a = []; for (;;) { const b = new ArrayBuffer(1, { maxByteLength: 1e8 }); b.resize(1e8); a.push(b) }\nreturn 1',
    refused,
  ],
  [
    'resizable buffers through a subclass',
    'class B extends ArrayBuffer {}\nreturn new B(8, { maxByteLength: 1e9 }).byteLength',
    value(8),
  ],
  [
    'the native buffer through a typed array',
    'const C = new Uint8Array(1).buffer.constructor;\nreturn "resize" in new C(1, { maxByteLength: 1e9 })',
    value(false),
  ],
  ['WebAssembly', 'return typeof WebAssembly', value('undefined')],
  [
    'WebAssembly memory',
    'const a = []; for (;;) a.push(new WebAssembly.Memory({ initial: 1000 }));\nreturn 1',
    refused,
  ],
  [
    'SharedArrayBuffer',
    'return [typeof SharedArrayBuffer, typeof Atomics, typeof WeakRef, typeof FinalizationRegistry]',
    value(['undefined', 'undefined', 'undefined', 'undefined']),
  ],
  [
    'closures',
    'let f = () => 0; for (;;) { const g = f; const pad = new Array(1000).fill(g); f = () => pad }\nreturn 1',
    stopped,
  ],
  ['symbols', 'const a = []; for (let i = 0; ; i++) a.push(Symbol("s" + i));\nreturn 1', stopped],
  ['registered symbols', 'for (let i = 0; ; i++) Symbol.for("s".repeat(1000) + i);\nreturn 1', stopped],
  [
    'code that grows',
    'for (let i = 0; ; i++) new Function("return " + i + "/*" + "x".repeat(1000) + "*/");\nreturn 1',
    stopped,
  ],
  [
    'regular expressions that grow',
    'const a = []; for (let i = 0; ; i++) { const r = new RegExp("a{1," + (i % 1000 + 1) + "}(b|c)*" + i); r.test("abc"); a.push(r) }\nreturn 1',
    stopped,
  ],
  ['proxies of proxies', 'let p = {}; for (;;) p = new Proxy(p, {});\nreturn 1', stopped],
  ['deep JSON', 'return JSON.parse("[".repeat(1e5) + "]".repeat(1e5)).length', value(1)],
  ['deep source', 'return eval("(".repeat(1e6) + ")".repeat(1e6))', stopped],
  ['promises that pile up', 'const a = []; for (;;) a.push(new Promise(() => {}));\nreturn 1', stopped],
];

const output: HostileRow[] = [
  ['a log flood', 'for (;;) console.log("x".repeat(1000));\nreturn 1', slow],
  [
    'a log of something huge',
    'console.log("x".repeat(2e7)); console.log({ a: "y".repeat(1e7) });\nreturn 1',
    value(1),
  ],
  ['empty lines', 'for (let i = 0; i < 1e5; i++) console.log();\nreturn 1', value(1)],
  ['a huge result', 'return "x".repeat(5e6)', refused],
  ['a huge result in pieces', 'return Array.from({ length: 60 }, () => "x".repeat(1e5))', refused],
  ['a result that refers to itself', 'const a = {}; a.a = a;\nreturn a', refused],
  ['a result without an end', 'const next = () => ({ get a() { return next() } });\nreturn next()', refused],
  [
    'a proxy without an end',
    'return new Proxy([], { get: (t, k) => (k === "length" ? 2 ** 53 - 1 : k === "toJSON" ? undefined : 1) })',
    stopped,
  ],
  ['a proxy that throws', 'return new Proxy({}, { ownKeys() { throw new Error("mine") } })', refused],
  ['a getter that loops', 'return { get a() { for (;;) {} } }', slow],
  ['toJSON that loops', 'return { toJSON() { for (;;) {} } }', slow],
  ['toJSON that returns itself', 'const a = { toJSON() { return a } };\nreturn a', refused],
  ['toJSON for everything', 'Object.prototype.toJSON = () => "forged";\nreturn [{ a: 1 }]', refused],
  ['a promise that never settles', 'return new Promise(() => {})', refused],
  ['a thenable', 'return { then(f) { f("forged") } }', refused],
  ['an async result', 'return (async () => 1)()', refused],
  ['throws a proxy', 'throw new Proxy({}, { get() { for (;;) {} } })\nreturn 1', stopped],
  [
    'throws an error with a bad stack',
    'const e = new Error("x"); Object.defineProperty(e, "stack", { get() { throw 1 } }); throw e;\nreturn 1',
    refused,
  ],
  [
    'throws a forged stack',
    'const e = new Error("x"); e.stack = "at hostile:999999:999999"; throw e;\nreturn 1',
    refused,
  ],
  ['throws a huge message', 'throw new Error("x".repeat(1e7));\nreturn 1', stopped],
  ['throws null', 'throw null;\nreturn 1', refused],
  [
    'prepareStackTrace that loops',
    'Error.prepareStackTrace = () => { for (;;) {} }; null.x;\nreturn 1',
    stopped,
  ],
];

export function hostileScripts(canaries: Canaries): HostileScript[] {
  const values = [...loops, ...memory, ...output, ...tampering, ...escapes(canaries)];
  return [
    ...values.map(([name, text, ending]) => ({ name, text, ending })),
    ...forged.map(([name, text, ending]) => ({ name, text, ending, mode: 'parse' as const })),
  ];
}
