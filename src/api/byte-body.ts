import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';

/** A sender may take as long as it takes, but not be silent for longer than this. */
const SILENCE_MS = 60_000;

const receiving = new WeakSet<Socket>();

/** In this scope bodies of any type, and of any length, are left to the handlers. */
export function leaveBodies(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _body, done) => done(null));
}

/** Whether bytes are still coming: the time limit of the server is for bodies that fit into memory. */
export function isReceivingBytes(socket: Socket): boolean {
  return receiving.has(socket);
}

/** The body in chunks. What is not read is dropped by Node.js, so that an error can be answered. */
export async function* bytesOf({ raw }: FastifyRequest): AsyncGenerator<Uint8Array> {
  const { socket } = raw;
  const silence = setTimeout(() => raw.destroy(new Error('the sender of a body was silent')), SILENCE_MS);
  receiving.add(socket);
  try {
    for await (const chunk of raw.iterator({ destroyOnReturn: false })) {
      yield chunk as Uint8Array;
      silence.refresh();
    }
  } finally {
    clearTimeout(silence);
    receiving.delete(socket);
  }
}
