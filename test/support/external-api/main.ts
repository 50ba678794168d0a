/** Runs the fake external API as a process: node test/support/external-api/main.ts --port 8090 --orders 5000 */
import { parseArgs } from 'node:util';
import { startExternalApi } from '../external-api.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    orders: { type: 'string', default: '1000' },
    customers: { type: 'string', default: '50' },
    'expires-in': { type: 'string', default: '3600' },
    'keep-requests': { type: 'string', default: '10000' },
  },
});

function wholeNumber(name: keyof typeof values): number {
  const text = values[name];
  if (!/^\d{1,9}$/.test(text)) throw new Error(`--${name} must be a whole number, not ${text}`);
  return Number(text);
}

const api = await startExternalApi(undefined, {
  port: wholeNumber('port'),
  orders: wholeNumber('orders'),
  customers: wholeNumber('customers'),
  expiresInSeconds: wholeNumber('expires-in'),
  keepRequests: wholeNumber('keep-requests'),
  keepBodyBytes: 64 * 1024,
});
console.log(`external API on ${api.url}`);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void api.stop());
}
