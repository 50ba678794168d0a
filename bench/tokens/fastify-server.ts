/** The measure for the bearer-checked GET: Fastify with one route that answers the same JSON, checking nothing. */
import Fastify from 'fastify';

const answer = JSON.parse(process.env['BENCH_ANSWER'] as string) as unknown;

const server = Fastify();
server.get('/api/v1/applications', async () => answer);
const url = await server.listen({ host: '127.0.0.1', port: 0 });
console.log(`Fastify listens on ${url}`);
