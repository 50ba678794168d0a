/** The load generator in a process of its own: drives one server at a time, as its parent asks. See load.ts. */
import autocannon from 'autocannon';
import type { LoadAnswer, LoadRequest } from './load.ts';

/** The end of a measurement is noticed this often. */
const SAMPLE_MS = 100;

process.on('message', (request: LoadRequest) => void answer(request));
process.on('disconnect', () => process.exit());
// A terminal sends it to parent and child alike; the parent decides.
process.on('SIGINT', () => {});

async function answer({ url, method, headers, body, connections, seconds }: LoadRequest): Promise<void> {
  const result = await autocannon({
    url,
    method,
    headers,
    ...(body !== undefined && { body }),
    connections,
    duration: seconds,
    sampleInt: SAMPLE_MS,
  });
  const { errors, timeouts, non2xx, duration, latency } = result;
  process.send?.({
    answers: result['2xx'],
    refused: non2xx,
    failed: errors + timeouts,
    seconds: duration,
    latencyMs: { p50: latency.p50, p99: latency.p99 },
  } satisfies LoadAnswer);
}
