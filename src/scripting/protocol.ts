import { z } from 'zod';

/**
 * What the service and a sandbox process say to each other. A frame to the process is
 * `[u32 bytes of meta][u32 bytes of body][meta as JSON][body]`, an answer `[u32 control][u32 data][control][data]`,
 * little-endian. Answers are not trusted: a script that broke out of its isolate could write them.
 */
export const HEADER_BYTES = 8;

export type CallMode = 'value' | 'parse' | 'map' | 'check';

export interface CallMeta {
  type: 'call';
  run: string;
  mode: CallMode;
  property: string;
  timeoutMs: number;
  isolateMib: number;
  mostBlocks: number;
  /** JSON text for the code inside. */
  limits: string;
  /** Bytes of each text in the body: script, variables, data, request and steps, response, response body. */
  segments: number[];
}

export interface InitMeta {
  type: 'init';
  sources: { modules: Record<string, string>; underscore: string };
}

interface CloseMeta {
  type: 'close';
  run: string;
}

export type Meta = CallMeta | InitMeta | CloseMeta;

export const columnKinds = [
  'string',
  'digits',
  'integer',
  'double',
  'boolean',
  'object',
  'array',
  'bigint',
  'null',
  'date',
] as const;

const Count = z.int().min(0);
const Position = z.tuple([z.int().min(1), z.int().min(1)]).nullable();
const Lines = z.array(z.tuple([z.enum(['log', 'warn', 'error']), z.string()])).max(10_000);

const Success = z.strictObject({
  ok: z.literal(true),
  control: z.unknown(),
  /** Index, rows, and the columns with their kinds. */
  blocks: z.array(z.tuple([Count, Count, z.array(z.tuple([z.string(), z.array(z.enum(columnKinds))]))])),
  statusCodeRead: z.boolean(),
  console: Lines,
});

const Failure = z.strictObject({
  ok: z.literal(false),
  /** `response`: the body of the response is no JSON, and the script let that error through. */
  failure: z.enum(['script', 'response', 'timeout', 'memory']).default('script'),
  message: z.string(),
  position: Position,
  statusCodeRead: z.boolean(),
  console: Lines,
});

const Answer = z.strictObject({
  lengths: z.array(Count),
  reply: z.discriminatedUnion('ok', [Success, Failure]),
});

export type Success = z.infer<typeof Success>;
export type Failure = z.infer<typeof Failure>;

export interface Reply {
  reply: Success | Failure;
  blocks: Buffer[];
}

class MalformedReply extends Error {
  override readonly name = 'MalformedReply';
}

export function encodeFrame(meta: Meta, segments: readonly Uint8Array[] = []): Buffer[] {
  const text = Buffer.from(JSON.stringify(meta));
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(text.length, 0);
  header.writeUInt32LE(
    segments.reduce((sum, { length }) => sum + length, 0),
    4,
  );
  return [Buffer.concat([header, text]), ...segments.map(asBuffer)];
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Takes an answer apart and believes nothing of it that it has not checked. */
export function decodeReply(control: Buffer, data: Buffer, tables: number): Reply {
  let parsed: unknown;
  try {
    parsed = JSON.parse(control.toString('utf8'));
  } catch (cause) {
    throw new MalformedReply('the answer is not JSON', { cause });
  }
  const { data: answer, error } = Answer.safeParse(parsed);
  if (!answer) throw new MalformedReply(`the answer has not its form: ${error.issues[0]?.message}`);
  const { lengths, reply } = answer;
  const described = reply.ok ? reply.blocks : [];
  if (lengths.length !== described.length)
    throw new MalformedReply('the answer announces other blocks than it has');
  if (
    described.some(([index], n) => index >= tables || described.findIndex(([other]) => other === index) !== n)
  ) {
    throw new MalformedReply('the answer has a block of no table');
  }
  let at = 0;
  const blocks = lengths.map((length) => data.subarray(at, (at += length)));
  if (at !== data.length) throw new MalformedReply('the blocks are not as long as announced');
  return { reply, blocks };
}
