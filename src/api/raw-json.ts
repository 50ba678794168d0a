import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { FastifyBodyParser } from 'fastify';
import { ServiceError } from '../model/errors.ts';

const texts = new WeakMap<FastifyRequest, string>();

/** Fastify's own parser, which refuses `__proto__`, with the position of what is wrong. The text is kept. */
export function parseJson(server: FastifyInstance): FastifyBodyParser<string> {
  const parse = server.getDefaultJsonParser('error', 'error');
  return (request, text, done) => {
    texts.set(request, text);
    void parse(request, text, (error, value) => {
      if (error && text !== '') {
        done(new ServiceError('invalid_request', `the body is not valid JSON${whyNotJson(text)}`));
      } else {
        done(error, value);
      }
    });
  };
}

/** The body as it was sent, for whom a number with many digits must not become a double. */
export function rawJsonOf(request: FastifyRequest): string {
  return texts.get(request) ?? 'null';
}

function whyNotJson(text: string): string {
  try {
    JSON.parse(text);
    return ': it has a property that is not allowed (__proto__ or constructor.prototype)';
  } catch (error) {
    return `: ${(error as Error).message}`;
  }
}
