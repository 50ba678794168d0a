/**
 * The measure for the bearer check: Fastify with a route that answers a given JSON and checks nothing, and the same
 * route behind millrace's own check. The tokens are those of the millrace whose data folder is given.
 */
import Fastify from 'fastify';
import { pino } from 'pino';
import { bearerCheck } from '../../src/api/bearer.ts';
import { openRecords } from '../../src/engine.ts';
import { resolveSettings } from '../../src/settings.ts';

const answer = JSON.parse(process.env['BENCH_ANSWER'] as string) as unknown;
const { values } = resolveSettings({}, { data: process.env['BENCH_DATA'] });
const { bearerTokens } = await openRecords(values, pino({ level: 'warn' }));

const server = Fastify();
server.decorateRequest('principal', null);
server.get('/unchecked', async () => answer);
server.get('/checked', { onRequest: bearerCheck(bearerTokens, 'viewer') }, async () => answer);
const url = await server.listen({ host: '127.0.0.1', port: 0 });
console.log(`Fastify listens on ${url}`);
